// The load generator, which carries out its parent's orders.
import { AskedProcess } from "../../asked-process.ts";
import type { Addresses } from "./target.ts";
import type { GroupStats } from "./window.ts";
import type { Group } from "./worker.ts";

export type Order =
  /** Opens every client. No window includes the cost of this. */
  | {
      readonly kind: "open";
      readonly groups: readonly Group[];
      readonly addresses: Addresses;
      readonly seed: number;
    }
  | { readonly kind: "run"; readonly warmUpMs: number; readonly durationMs: number }
  | { readonly kind: "close" };

export type Reply =
  | { readonly kind: "opened" }
  /** By the group's name. */
  | { readonly kind: "ran"; readonly groups: Readonly<Record<string, GroupStats>> }
  | { readonly kind: "closed" };

/**
 * Transactions that began in the window are waited for: over a slow link, with all their attempts.
 */
const STRAGGLERS_MS = 60_000;

export class Generator {
  readonly #process = new AskedProcess<Order, Reply>(new URL("./generator-process.ts", import.meta.url));

  get pid(): number | undefined {
    return this.#process.pid;
  }

  async open(groups: readonly Group[], addresses: Addresses, seed: number): Promise<void> {
    await this.#process.ask({ kind: "open", groups, addresses, seed }, "opened");
  }

  async run(warmUpMs: number, durationMs: number): Promise<Readonly<Record<string, GroupStats>>> {
    const limitMs = warmUpMs + durationMs + STRAGGLERS_MS;
    return (await this.#process.ask({ kind: "run", warmUpMs, durationMs }, "ran", limitMs)).groups;
  }

  async close(): Promise<void> {
    await this.#process.ask({ kind: "close" }, "closed");
  }

  end(): void {
    this.#process.end();
  }
}
