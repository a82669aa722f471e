// The order of each key's versions in each epoch, built from every list that shows a part of it:
// lists read in the epoch, in later epochs and at the end. The later ones begin with the values
// that they inherited. Violations: rules/order.ts.
import { type Sighting, sightingsOf } from "./attempts.ts";
import { type EpochId } from "./history.ts";
import { isCompatible } from "./lists.ts";
import { getOrMake } from "./maps.ts";
import {
  type History,
  type Transaction,
  appendsOf,
  attemptIn,
  isAcknowledged,
  isCertain,
  isVoid,
} from "./model.ts";

/** The known order of one key in one epoch. */
export interface KeyOrder {
  readonly key: string;
  readonly epoch: EpochId;
  /** The longest list that was read in the epoch; null if none was read there. */
  longest: Sighting | null;
  /** How many of the longest list's values come from earlier epochs. */
  base: number;
  /** Values that the epoch's own transactions appended, in order. */
  readonly own: number[];
  /** The index of each value in `own`. */
  readonly indexes: Map<number, number>;
  /**
   * Values of the epoch's acknowledged transactions that were never read: they come after all
   * others.
   */
  readonly unseen: { readonly value: number; readonly writer: Transaction }[];
}

export type OrderFault =
  | { readonly kind: "lists"; readonly one: Sighting; readonly other: Sighting }
  | { readonly kind: "own"; readonly order: KeyOrder; readonly other: Sighting; readonly at: number }
  | { readonly kind: "base"; readonly order: KeyOrder; readonly later: Sighting }
  | { readonly kind: "epochs"; readonly sighting: Sighting; readonly at: number };

export class Orders {
  readonly #byKey = new Map<string, Map<EpochId, KeyOrder>>();
  readonly faults: OrderFault[] = [];
  readonly #history: History;

  constructor(history: History) {
    this.#history = history;
    const sightings = sightingsOf(history);
    for (const sighting of sightings) this.#addLongest(sighting);
    for (const order of [...this.all()]) if (order.longest !== null) this.#split(order, order.longest);
    for (const orders of this.#byKey.values()) this.#compareBases([...orders.values()]);
    this.#addUnseen();
  }

  of(key: string, epoch: EpochId): KeyOrder | undefined {
    return this.#byKey.get(key)?.get(epoch);
  }

  *all(): Generator<KeyOrder> {
    for (const orders of this.#byKey.values()) yield* orders.values();
  }

  #at(key: string, epoch: EpochId): KeyOrder {
    const orders = getOrMake(this.#byKey, key, () => new Map<EpochId, KeyOrder>());
    return getOrMake(orders, epoch, () => {
      return { key, epoch, longest: null, base: 0, own: [], indexes: new Map(), unseen: [] };
    });
  }

  #addLongest(sighting: Sighting): void {
    const order = this.#at(sighting.key, sighting.epoch);
    const { longest } = order;
    if (longest === null) {
      order.longest = sighting;
      return;
    }
    if (!isCompatible(longest, sighting)) this.faults.push({ kind: "lists", one: longest, other: sighting });
    if (sighting.length > longest.length) order.longest = sighting;
  }

  /** Assigns each value of the list to the epoch that appended it. */
  #split(order: KeyOrder, sighting: Sighting): void {
    const { epochs } = this.#history;
    const { key, epoch, spine, length } = sighting;
    const attempts = this.#attemptsIn(sighting);
    const parts = new Map<EpochId, number[]>();
    // Other rules report values without a writer, of aborted transactions and of other histories.
    // Here they stay with the values before them, so that they do not shift those after them.
    let newest: EpochId | null = null;
    for (let at = 0; at < length; at++) {
      const value = spine.values[at] ?? Number.NaN;
      const attempt = attempts[at] ?? null;
      if (attempt !== null && newest !== null && epochs.depth(attempt) < epochs.depth(newest)) {
        this.faults.push({ kind: "epochs", sighting, at });
      } else newest = attempt ?? newest;
      if (newest !== epoch) order.base = at + 1;
      if (newest !== null) getOrMake(parts, newest, () => []).push(value);
    }
    for (const [attempt, values] of parts) this.#merge(this.#at(key, attempt), values, sighting);
  }

  /**
   * By index in the list. An attempt that was only reported as lost may be an id that was sent
   * again and has not run: if an older value follows, the value belongs to an older attempt.
   */
  #attemptsIn({ epoch, spine, length }: Sighting): (EpochId | null)[] {
    const { epochs, writers } = this.#history;
    const attempts: (EpochId | null)[] = [];
    let oldest = Number.POSITIVE_INFINITY;
    for (let at = length - 1; at >= 0; at--) {
      const writer = writers.get(spine.values[at] ?? Number.NaN);
      if (writer === undefined || isVoid(writer)) continue;
      const newest = attemptIn(epochs, writer, epoch);
      const isDoubted = newest !== null && epochs.depth(newest) > oldest && !isCertain(writer, newest);
      const attempt = isDoubted ? (attemptIn(epochs, writer, epoch, oldest) ?? newest) : newest;
      attempts[at] = attempt;
      if (attempt !== null) oldest = Math.min(oldest, epochs.depth(attempt));
    }
    return attempts;
  }

  #merge(order: KeyOrder, values: readonly number[], sighting: Sighting): void {
    for (const [at, value] of values.entries()) {
      if (at === order.own.length) {
        order.own.push(value);
        if (!order.indexes.has(value)) order.indexes.set(value, at);
      } else if (order.own[at] !== value) {
        this.faults.push({ kind: "own", order, other: sighting, at });
        return;
      }
    }
  }

  /**
   * All continuations of an epoch have everything that it began with, because they continue from
   * its first record.
   */
  #compareBases(orders: readonly KeyOrder[]): void {
    const { epochs, writers } = this.#history;
    for (const order of orders) {
      if (order.longest === null) continue;
      const { spine, length } = order.longest;
      for (const later of orders) {
        if (later === order || later.longest === null || !epochs.contains(later.epoch, order.epoch)) continue;
        const { values } = later.longest.spine;
        let isEqual = later.longest.length >= order.base;
        for (let at = 0; isEqual && at < order.base; at++) isEqual = values[at] === spine.values[at];
        if (isEqual && later.longest.length > order.base && length >= order.base) {
          // The later epoch must not have more of the values before this epoch either.
          const writer = writers.get(values[order.base] ?? Number.NaN);
          const attempt = writer === undefined ? null : attemptIn(epochs, writer, later.epoch);
          isEqual = attempt === null || epochs.contains(attempt, order.epoch);
        }
        if (!isEqual) this.faults.push({ kind: "base", order, later: later.longest });
      }
    }
  }

  #addUnseen(): void {
    for (const writer of this.#history.transactions) {
      const [attempt] = writer.attempts;
      // If an id ran twice, it is unknown which attempt was there.
      if (attempt === undefined || writer.attempts.length > 1) continue;
      if (writer.isInferred || !isAcknowledged(writer)) continue;
      for (const { key, value } of appendsOf(writer)) {
        const order = this.#at(key, attempt);
        if (!order.indexes.has(value)) order.unseen.push({ value, writer });
      }
    }
  }
}
