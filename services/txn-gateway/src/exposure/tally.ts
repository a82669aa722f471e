// What is counted of one party, a key's owner or all of them: transactions in flight, those that
// are committed and not durable yet, the oldest of them, and the place of the newest.
import { type Offset, type Value } from "@highwater/protocol";
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
  /** What its client loses with it; null: nothing that is counted. */
  readonly value: Value | null;
}

/** Of one unit, in billionths: what is in flight, and what is committed and not durable. */
interface UnitSums {
  reserved: bigint;
  pending: bigint;
}

const NO_SUMS: Readonly<UnitSums> = { reserved: 0n, pending: 0n };

export class Tally {
  /** Signed 64 bits; null for everybody together. */
  readonly owner: bigint | null;
  reserved = 0;
  #pending = 0;
  /** By unit; null until something has a value. */
  #values: Map<string, UnitSums> | null = null;
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

  sumsOf(unit: string): Readonly<UnitSums> {
    return this.#values?.get(unit) ?? NO_SUMS;
  }

  /** Adds the value to one of its unit's sums, or takes it away. */
  addValue({ value }: Exposed, to: keyof UnitSums, sign: 1n | -1n): void {
    if (value === null) return;
    const values = (this.#values ??= new Map<string, UnitSums>());
    let sums = values.get(value.unit);
    if (sums === undefined) values.set(value.unit, (sums = { ...NO_SUMS }));
    sums[to] += sign * value.amount;
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
    this.addValue(exposed, "pending", 1n);
    this.#order.push(exposed);
    if (this.#newestIn === epochNumber && this.#newest !== null && this.#newest >= exposed.offset) return;
    this.#newest = exposed.offset;
    this.#newestIn = epochNumber;
  }

  /** One of those that were added is over; its state says so already. */
  remove(exposed: Exposed): void {
    this.#pending--;
    this.addValue(exposed, "pending", -1n);
    while (this.#order.first?.state === "over") this.#order.shift();
  }
}
