// The load generator, which carries out its parent's orders.
import { AskedProcess } from "../asked-process.ts";
import type { Segment } from "./segment.ts";

export interface GatewayTarget {
  readonly kind: "gateway";
  readonly url: string;
  readonly statements: readonly string[];
  readonly ack: "commit" | "durable";
  readonly keep?: boolean;
}

export interface DirectTarget {
  readonly kind: "direct";
  readonly url: string;
  readonly statements: readonly string[];
  /** The server keeps the statements by their names. */
  readonly isPrepared: boolean;
}

export type Target = GatewayTarget | DirectTarget;

export type Order =
  /**
   * Opens the clients and lets each run a few transactions; no segment includes the cost of this.
   */
  | { readonly kind: "open"; readonly target: Target; readonly clients: number }
  | { readonly kind: "run"; readonly durationMs: number }
  | { readonly kind: "close" };

export type Reply =
  | { readonly kind: "opened"; readonly committed: number }
  | { readonly kind: "ran"; readonly segment: Segment }
  | { readonly kind: "closed" };

export class Generator {
  readonly #process = new AskedProcess<Order, Reply>(new URL("./generator-process.ts", import.meta.url));

  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** Resolves with the number of committed transactions. */
  async open(target: Target, clients: number): Promise<number> {
    return (await this.#process.ask({ kind: "open", target, clients }, "opened")).committed;
  }

  async run(durationMs: number): Promise<Segment> {
    return (await this.#process.ask({ kind: "run", durationMs }, "ran", durationMs)).segment;
  }

  async close(): Promise<void> {
    await this.#process.ask({ kind: "close" }, "closed");
  }

  end(): void {
    this.#process.end();
  }
}
