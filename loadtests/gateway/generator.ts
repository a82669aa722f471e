// The load generator: a process of its own, so that it shares an event loop with nothing that is measured.
// Told by its parent what to do next, and ends with it.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { type Segment } from "./segment.ts";

export type Target =
  | { readonly kind: "gateway"; readonly url: string }
  | { readonly kind: "direct"; readonly url: string; readonly synchronousCommit: "off" | "on" };

export type Order =
  /** Opens the clients and lets each run a few transactions: what that costs belongs to no segment. */
  | { readonly kind: "open"; readonly target: Target; readonly clients: number }
  | { readonly kind: "run"; readonly durationMs: number }
  | { readonly kind: "close" };

export type Reply =
  | { readonly kind: "opened"; readonly committed: number }
  | { readonly kind: "ran"; readonly segment: Segment }
  | { readonly kind: "closed" }
  | { readonly kind: "failed"; readonly fault: string };

const LIMIT_MS = 30_000;

export class Generator {
  readonly #child: ChildProcess;

  constructor() {
    this.#child = fork(new URL("./generator-process.ts", import.meta.url), {
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Answers how many transactions have committed. */
  async open(target: Target, clients: number): Promise<number> {
    const reply = await this.#ask({ kind: "open", target, clients });
    if (reply.kind !== "opened") throw new Error(`the load generator answered ${reply.kind}`);
    return reply.committed;
  }

  async run(durationMs: number): Promise<Segment> {
    const reply = await this.#ask({ kind: "run", durationMs }, durationMs);
    if (reply.kind !== "ran") throw new Error(`the load generator answered ${reply.kind}`);
    return reply.segment;
  }

  async close(): Promise<void> {
    await this.#ask({ kind: "close" });
  }

  async #ask(order: Order, atLeastMs = 0): Promise<Reply> {
    const answered = new AbortController();
    const limit = AbortSignal.timeout(atLeastMs + LIMIT_MS);
    const answer = once(this.#child, "message", { signal: AbortSignal.any([answered.signal, limit]) });
    const exit = once(this.#child, "exit", { signal: answered.signal }).then(() => {
      throw new Error("the load generator ended");
    });
    try {
      this.#child.send(order);
      const [reply] = (await Promise.race([answer, exit])) as [Reply];
      if (reply.kind === "failed") throw new Error(`the load generator failed: ${reply.fault}`);
      return reply;
    } finally {
      exit.catch(() => undefined);
      answer.catch(() => undefined);
      answered.abort();
    }
  }

  end(): void {
    this.#child.kill("SIGKILL");
  }
}
