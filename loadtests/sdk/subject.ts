// A process that is measured, or serves what is measured: given orders one at a time, and ended
// with its parent.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createInterface, type Interface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Committed, Order, Pending, Reply, Settled, Way } from "./protocol.ts";

const LIMIT_MS = 120_000;
const PYTHON = fileURLToPath(new URL("../../.venv/bin/python", import.meta.url));
const PYTHON_SUBJECT = fileURLToPath(new URL("python/subject.py", import.meta.url));
const PYTHON_PATH = fileURLToPath(new URL("../../sdk/python/src", import.meta.url));

export const LANGUAGES = ["typescript", "python_async", "python_sync"] as const;
export type Language = (typeof LANGUAGES)[number];

/** Why its SDK cannot be measured here; false if it can. */
export function whyNotHere(language: Language): string | false {
  return language === "typescript" || existsSync(PYTHON) ? false : "there is no .venv: run `make setup`";
}

function command(language: Language, way: Way): readonly string[] {
  if (language === "typescript")
    return [
      process.execPath,
      "--expose-gc",
      fileURLToPath(new URL("typescript-process.ts", import.meta.url)),
      way,
    ];
  return [PYTHON, PYTHON_SUBJECT, language === "python_sync" ? "sync" : "async", way];
}

/** The kinds of reply, by the kind of order. */
interface Replies {
  readonly commit: Committed;
  readonly pend: Pending;
  readonly settle: Settled;
}

/** A program that commits by an SDK, or as one would without it. */
export class ClientProcess {
  readonly #child: ChildProcess;
  readonly #lines: Interface;

  constructor(language: Language, way: Way) {
    const [program = "", ...args] = command(language, way);
    const env = { ...process.env, PYTHONPATH: PYTHON_PATH, PYTHONDONTWRITEBYTECODE: "1" };
    this.#child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"], env });
    this.#lines = createInterface({ input: this.#child.stdout ?? process.stdin });
    // What is written to a process that has ended is noticed when it does not answer.
    this.#child.stdin?.on("error", () => undefined);
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  async ask<Kind extends Order["kind"]>(order: Order & { readonly kind: Kind }): Promise<Replies[Kind]> {
    const answered = new AbortController();
    const signal = AbortSignal.any([answered.signal, AbortSignal.timeout(LIMIT_MS)]);
    const line = once(this.#lines, "line", { signal });
    const exit = once(this.#child, "exit", { signal }).then(() => {
      throw new Error("a subject of the benchmark ended");
    });
    try {
      this.#child.stdin?.write(`${JSON.stringify(order)}\n`);
      const [text] = (await Promise.race([line, exit])) as [string];
      const reply = JSON.parse(text) as Reply;
      if (reply.kind === "failed") throw new Error(`a subject failed: ${reply.fault}`);
      return reply as Replies[Kind];
    } finally {
      exit.catch(() => undefined);
      line.catch(() => undefined);
      answered.abort();
    }
  }

  end(): void {
    this.#child.kill("SIGKILL");
  }
}

/** The fixed service in a process of its own. */
export class FixedService {
  readonly #child: ChildProcess;
  readonly url: string;

  private constructor(child: ChildProcess, url: string) {
    this.#child = child;
    this.url = url;
  }

  static async start(): Promise<FixedService> {
    const main = fileURLToPath(new URL("fixed-service-process.ts", import.meta.url));
    const child = spawn(process.execPath, [main], { stdio: ["pipe", "pipe", "inherit"] });
    const lines = createInterface({ input: child.stdout });
    const [url] = (await once(lines, "line", { signal: AbortSignal.timeout(LIMIT_MS) })) as [string];
    return new FixedService(child, url);
  }

  [Symbol.dispose](): void {
    this.#child.kill("SIGKILL");
  }
}
