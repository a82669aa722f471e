// A process of its own for whatever must share no event loop with what it measures. Carries out one
// order of its parent at a time, and ends with it.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";

type Reply<T> =
  | { readonly kind: "done"; readonly value: T }
  | { readonly kind: "failed"; readonly fault: string };

/** What the helper understands: each order's name, what is given with it, and what comes back. */
export type Orders = Record<string, (given: never) => unknown>;
type Given<O extends Orders, K extends keyof O> = Parameters<O[K]>[0];
type Answer<O extends Orders, K extends keyof O> = Awaited<ReturnType<O[K]>>;

const LIMIT_MS = 60_000;

export class Helper<O extends Orders> implements Disposable {
  readonly #name: string;
  readonly #child: ChildProcess;

  constructor(file: URL) {
    this.#name = basename(fileURLToPath(file));
    // Advanced: arrays of measured times travel as they are.
    this.#child = fork(file, { stdio: ["ignore", "inherit", "inherit", "ipc"], serialization: "advanced" });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** `atLeastMs`: how long the order takes by itself. */
  async ask<K extends keyof O & string>(kind: K, given: Given<O, K>, atLeastMs = 0): Promise<Answer<O, K>> {
    const answered = new AbortController();
    const limit = AbortSignal.timeout(atLeastMs + LIMIT_MS);
    const answer = once(this.#child, "message", { signal: AbortSignal.any([answered.signal, limit]) });
    const exit = once(this.#child, "exit", { signal: answered.signal }).then(() => {
      throw new Error(`${this.#name} ended`);
    });
    try {
      this.#child.send({ kind, given });
      const [reply] = (await Promise.race([answer, exit])) as [Reply<Answer<O, K>>];
      if (reply.kind === "failed") throw new Error(`${this.#name} failed: ${reply.fault}`);
      return reply.value;
    } finally {
      exit.catch(() => undefined);
      answer.catch(() => undefined);
      answered.abort();
    }
  }

  [Symbol.dispose](): void {
    this.#child.kill("SIGKILL");
  }
}

/** The helper's own side. */
export function serveOrders(orders: Orders): void {
  process.on("message", (order: { kind: string; given: never }) => {
    void (async (): Promise<Reply<unknown>> => {
      try {
        return { kind: "done", value: await orders[order.kind]?.(order.given) };
      } catch (cause) {
        const fault = cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
        return { kind: "failed", fault };
      }
    })().then((reply) => process.send?.(reply));
  });
  process.on("disconnect", () => process.exit(0));
}

/** Of the one clock that all processes of a host share, in milliseconds. */
export function hostMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
