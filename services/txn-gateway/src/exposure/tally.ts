// What is counted of one party, a key's owner or all of them: transactions in flight, those that
// are committed and not durable yet, the oldest of them, and the place of the newest.
import { type Offset } from "@highwater/protocol";
import { Fifo } from "./fifo.ts";

/** Called when its transaction has become durable. */
export interface ExposedTrace {
  settled(verdict: "durable", level: string): void;
}

/**
 * One transaction, from its admission until it is durable, lost or has come to nothing. Made by
 * `Account` alone.
 */
export interface Exposed {
  readonly owner: Tally;
  /** `reserved`: in flight. `pending`: committed, and not durable at the level. */
  state: "reserved" | "pending" | "over";
  /** Of a pending one: its place in the current epoch. */
  offset: Offset;
  /** Of a pending one: when it was known to have committed. */
  atMs: number;
  /** Null: it is not traced. */
  trace: ExposedTrace | null;
}

export class Tally {
  /** Signed 64 bits; null for everybody together. */
  readonly owner: bigint | null;
  reserved = 0;
  #pending = 0;
  /**
   * In the order in which they were committed. Those that are over leave when they are the first.
   */
  readonly #order = new Fifo<Exposed>();
  #newest: Offset | null = null;
  /** Number of the epoch in which the newest is. */
  #newestIn = 0;

  constructor(owner: bigint | null) {
    this.owner = owner;
  }

  get pending(): number {
    return this.#pending;
  }

  /** Everything that may be lost, now or when it has committed. */
  get count(): number {
    return this.#pending + this.reserved;
  }

  get oldestAtMs(): number | null {
    return this.#order.first?.atMs ?? null;
  }

  /** Of the pending ones in the epoch; null when they are all from earlier ones. */
  newestIn(epochNumber: number): Offset | null {
    return this.#newestIn === epochNumber ? this.#newest : null;
  }

  add(exposed: Exposed, epochNumber: number): void {
    this.#pending++;
    this.#order.push(exposed);
    if (this.#newestIn === epochNumber && this.#newest !== null && this.#newest >= exposed.offset) return;
    this.#newest = exposed.offset;
    this.#newestIn = epochNumber;
  }

  /** One of those that were added is over; its state says so already. */
  remove(): void {
    this.#pending--;
    while (this.#order.first?.state === "over") this.#order.shift();
  }
}
