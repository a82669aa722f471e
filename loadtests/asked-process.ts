// A process of its own that carries out one order of its parent at a time, and ends with it: a load
// generator must not share an event loop with anything that is measured.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";

const LIMIT_MS = 30_000;

/** The answer of every such process to an order that it could not carry out. */
interface Failed {
  readonly kind: "failed";
  readonly fault: string;
}

export class AskedProcess<Order extends { readonly kind: string }, Reply extends { readonly kind: string }> {
  readonly #child: ChildProcess;

  constructor(program: URL) {
    this.#child = fork(program, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /**
   * Resolves with the reply of the wanted kind. `atLeastMs`: the time that the order takes in any
   * case.
   */
  async ask<Kind extends Reply["kind"]>(
    order: Order,
    wanted: Kind,
    atLeastMs = 0,
  ): Promise<Extract<Reply, { readonly kind: Kind }>> {
    const answered = new AbortController();
    const limit = AbortSignal.timeout(atLeastMs + LIMIT_MS);
    const answer = once(this.#child, "message", { signal: AbortSignal.any([answered.signal, limit]) });
    const exit = once(this.#child, "exit", { signal: answered.signal }).then(() => {
      throw new Error("the load generator ended");
    });
    try {
      this.#child.send(order);
      const [reply] = (await Promise.race([answer, exit])) as [Reply | Failed];
      if (reply.kind === "failed") throw new Error(`the load generator failed: ${(reply as Failed).fault}`);
      if (reply.kind !== wanted) throw new Error(`the load generator answered ${reply.kind}`);
      return reply as Extract<Reply, { readonly kind: Kind }>;
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

/** The other side: carries out what the parent orders, and ends with it. */
export function serveOrders<Order, Reply>(carryOut: (order: Order) => Promise<Reply>): void {
  process.on("message", (order: Order) => {
    carryOut(order)
      .catch((cause: unknown): Failed => {
        const fault = cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
        return { kind: "failed", fault };
      })
      .then((reply) => process.send?.(reply))
      .catch(() => process.exit(1));
  });
  process.on("disconnect", () => process.exit(0));
}
