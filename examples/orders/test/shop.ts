// One of the shops as a process, and its HTTP as a customer sees it.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { type Endpoint } from "@highwater/lab-system";

const path = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));
const START_LIMIT_MS = 60_000;

const SHOPS = {
  fastify: {
    command: [process.execPath, path("../fastify/main.ts")],
    env: { PORT: "0" },
  },
  fastapi: {
    command: [
      path("../../../.venv/bin/python"),
      ...["-m", "uvicorn", "--app-dir", path("../fastapi"), "--port", "0", "main:app"],
    ],
    env: { PYTHONPATH: path("../../../sdk/python/src"), PYTHONDONTWRITEBYTECODE: "1" },
  },
} as const;

export type ShopName = keyof typeof SHOPS;

export interface ShopOptions {
  readonly endpoints: readonly Endpoint[];
  readonly book: string;
  readonly smtpUrl: string;
}

export interface OrderResponse {
  readonly id: string;
  readonly state: string;
}

export class Shop implements AsyncDisposable {
  readonly #name: ShopName;
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;
  #output = "";
  #url = "";

  private constructor(name: ShopName, { endpoints, book, smtpUrl }: ShopOptions) {
    const [file, ...args] = SHOPS[name].command;
    this.#name = name;
    this.#child = spawn(file, args, {
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        ...{ ...process.env, ...SHOPS[name].env, BOOK: book, SMTP_URL: smtpUrl },
        GATEWAYS: endpoints.map(({ gateway }) => gateway).join(","),
        TRACKERS: endpoints.map(({ tracker }) => tracker).join(","),
      },
    });
    this.#exited = once(this.#child, "close");
  }

  /** Resolves when it says where it listens. */
  static async start(name: ShopName, options: ShopOptions): Promise<Shop> {
    const shop = new Shop(name, options);
    const listens = new Promise<string>((resolve) => {
      for (const stream of [shop.#child.stdout, shop.#child.stderr])
        stream?.on("data", (chunk: Buffer) => {
          shop.#output += chunk.toString();
          const url = /(?:listening at|running on) (http:\/\/127\.0\.0\.1:\d+)/i.exec(shop.#output)?.[1];
          if (url !== undefined) resolve(url);
        });
    });
    const limit = AbortSignal.timeout(START_LIMIT_MS);
    const failed = new Promise<never>((_, reject) => {
      const fail = (): void => {
        shop.#child.kill("SIGKILL");
        reject(new Error(`${name} did not start:\n${shop.#output}`));
      };
      limit.addEventListener("abort", fail);
      shop.#child.once("exit", fail);
    });
    shop.#url = await Promise.race([listens, failed]);
    failed.catch(() => undefined);
    return shop;
  }

  async order(customer: string, item = "lamp"): Promise<{ status: number; body: OrderResponse }> {
    const response = await fetch(`${this.#url}/orders`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ customer, item }),
    });
    return { status: response.status, body: (await response.json()) as OrderResponse };
  }

  async find(id: string): Promise<{ status: number; body: OrderResponse }> {
    const response = await fetch(`${this.#url}/orders/${id}`);
    return { status: response.status, body: (await response.json()) as OrderResponse };
  }

  /** As an operator ends it. */
  async stop(): Promise<void> {
    this.#child.kill("SIGTERM");
    await this.#exited;
    // uvicorn ends itself by the signal again when it has shut down.
    if (this.#name === "fastapi") assert.match(this.#output, /Application shutdown complete/);
    else assert.equal(this.#child.exitCode, 0, this.#output);
    assert.doesNotMatch(this.#output, /Traceback|"level":50/);
  }

  /** As if its host had lost power. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) await this.kill();
  }
}
