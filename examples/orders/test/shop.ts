// The shop as a process, and its HTTP as a customer sees it.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { type Endpoint } from "@highwater/lab-system";

const MAIN = fileURLToPath(new URL("../fastify/main.ts", import.meta.url));
const START_LIMIT_MS = 60_000;

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
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;
  #output = "";
  #url = "";

  private constructor({ endpoints, book, smtpUrl }: ShopOptions) {
    this.#child = spawn(process.execPath, [MAIN], {
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        ...{ ...process.env, PORT: "0", BOOK: book, SMTP_URL: smtpUrl },
        GATEWAYS: endpoints.map(({ gateway }) => gateway).join(","),
        TRACKERS: endpoints.map(({ tracker }) => tracker).join(","),
      },
    });
    this.#exited = once(this.#child, "close");
  }

  /** Resolves when it says where it listens. */
  static async start(options: ShopOptions): Promise<Shop> {
    const shop = new Shop(options);
    const listens = new Promise<string>((resolve) => {
      for (const stream of [shop.#child.stdout, shop.#child.stderr])
        stream?.on("data", (chunk: Buffer) => {
          shop.#output += chunk.toString();
          const url = /listening at (http:\/\/127\.0\.0\.1:\d+)/i.exec(shop.#output)?.[1];
          if (url !== undefined) resolve(url);
        });
    });
    const limit = AbortSignal.timeout(START_LIMIT_MS);
    const failed = new Promise<never>((_, reject) => {
      const fail = (): void => {
        shop.#child.kill("SIGKILL");
        reject(new Error(`the shop did not start:\n${shop.#output}`));
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
    assert.equal(this.#child.exitCode, 0, this.#output);
    assert.doesNotMatch(this.#output, /"level":50/);
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
