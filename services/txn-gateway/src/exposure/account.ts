// The transactions that this gateway has committed and that are not durable yet at one level, by
// the marks of the current epoch. Pure: time, marks and epochs come in as arguments. Every
// transaction costs a constant, however it ends.
//  The end of an epoch moves all that was pending in it to the successor's record. Every
// transaction that has survived is in the successor's history below that record, since the record
// was written after it. So it is durable when the successor's mark passes the record. A transaction
// that is not in that history by then is lost already and no longer at risk. So the gateway asks
// for no verdicts, gives nothing up before its outcome is final, and no failover makes room for
// more than was allowed before.
import { type EpochId, type Offset, type Value } from "@highwater/protocol";
import { Fifo } from "./fifo.ts";
import { type Exposed, Tally } from "./tally.ts";

export type { Exposed } from "./tally.ts";

/** The current epoch, as far as the account needs to know it. */
export interface EpochBegin {
  readonly epoch: EpochId;
  /** Upper bound of the position of the epoch's record in its log. */
  readonly startOffset: Offset;
  /** The level's mark, if one was received before the epoch was known to be current. */
  readonly mark: Offset | undefined;
}

const ZERO = 0n as Offset;

export class Account {
  readonly total = new Tally(null);
  readonly #owners = new Map<bigint, Tally>();
  #epoch: EpochId | null = null;
  #epochNumber = 0;
  readonly #ended = new Set<EpochId>();
  #startOffset = ZERO;
  #mark: Offset | undefined;
  /**
   * Where bytes are counted from while there is no mark: the first commit of this gateway in the
   * epoch.
   */
  #floor: Offset | null = null;
  /** Pending in the epoch, lowest offset first. */
  readonly #queue = new Fifo<Exposed>();
  /** Pending since earlier epochs: all of them wait for the mark to pass the start of this one. */
  #carried: Exposed[] = [];
  /** Of log that the carried ones had above their own epochs' marks. */
  #carriedBytes = 0n;

  get epoch(): EpochId | null {
    return this.#epoch;
  }

  /** Pending since earlier epochs. Only a tracker can know which of them have survived. */
  get carried(): readonly Exposed[] {
    return this.#carried;
  }

  /** Owners of whom anything is in flight or pending. */
  get owners(): ReadonlyMap<bigint, Tally> {
    return this.#owners;
  }

  /** Counts a transaction that is about to run. `commit` or `release` ends the reservation. */
  reserve(owner: bigint, value: Value | null = null): Exposed {
    let tally = this.#owners.get(owner);
    if (tally === undefined) this.#owners.set(owner, (tally = new Tally(owner)));
    tally.reserved++;
    this.total.reserved++;
    const exposed: Exposed = { owner: tally, state: "reserved", offset: ZERO, atMs: 0, trace: null, value };
    tally.addValue(exposed, "reserved", 1n);
    this.total.addValue(exposed, "reserved", 1n);
    return exposed;
  }

  /**
   * It has certainly not committed, or is not this gateway's to count. Of one that is no
   * reservation any more: nothing.
   */
  release(exposed: Exposed): void {
    if (exposed.state !== "reserved") return;
    exposed.state = "over";
    this.#unreserve(exposed);
    this.#forget(exposed.owner);
  }

  /**
   * It has committed, at the place. Of one that is no reservation any more: nothing. True when it
   * is durable already.
   */
  commit(
    exposed: Exposed,
    at: { readonly epoch: EpochId; readonly offset: Offset; readonly nowMs: number },
  ): boolean {
    if (exposed.state !== "reserved") return false;
    this.#unreserve(exposed);
    exposed.atMs = at.nowMs;
    // The answer to a commit of an epoch that has ended meanwhile comes late, not its position in
    // the history.
    const isCarried = at.epoch !== this.#epoch;
    exposed.offset = isCarried ? this.#startOffset : at.offset;
    if (!isCarried) this.#floor ??= at.offset;
    if (this.#mark !== undefined && this.#mark >= exposed.offset) {
      exposed.state = "over";
      this.#forget(exposed.owner);
      return true;
    }
    exposed.state = "pending";
    if (isCarried) this.#carried.push(exposed);
    else this.#queue.insert(exposed, (other) => other.offset > exposed.offset);
    this.total.add(exposed, this.#epochNumber);
    exposed.owner.add(exposed, this.#epochNumber);
    return false;
  }

  /**
   * Everything of the epoch at or below the mark is durable. A mark of another epoch, or a lower
   * one, changes nothing. Answers how many it has settled, and visits those that committed in this
   * epoch; of the others some may be lost.
   */
  advance(epoch: string, mark: Offset, visit?: (exposed: Exposed) => void): number {
    if (epoch !== this.#epoch || (this.#mark !== undefined && this.#mark >= mark)) return 0;
    this.#mark = mark;
    let settled = 0;
    if (this.#carried.length > 0 && mark >= this.#startOffset) {
      settled += this.#carried.length;
      for (const exposed of this.#carried) this.#settle(exposed);
      this.#carried = [];
      this.#carriedBytes = 0n;
    }
    for (let next = this.#queue.first; next !== undefined && next.offset <= mark; next = this.#queue.first) {
      this.#queue.shift();
      this.#settle(next);
      visit?.(next);
      settled++;
    }
    return settled;
  }

  /** Another epoch is current: the log of the one before has ended, and will not go on. */
  begin({ epoch, startOffset, mark }: EpochBegin): void {
    if (epoch === this.#epoch || this.#ended.has(epoch)) return;
    if (this.#epoch !== null) this.#ended.add(this.#epoch);
    this.#carriedBytes = this.bytesOf(this.total);
    for (let first = this.#queue.shift(); first !== undefined; first = this.#queue.shift())
      this.#carried.push(first);
    this.#epoch = epoch;
    this.#epochNumber++;
    this.#startOffset = startOffset;
    this.#mark = undefined;
    this.#floor = null;
    if (mark !== undefined) this.advance(epoch, mark);
  }

  /** Of log that has to become durable before everything of the tally is. */
  bytesOf(tally: Tally): bigint {
    if (tally.pending === 0) return 0n;
    const newest = tally.newestIn(this.#epochNumber);
    const base = this.#mark ?? this.#floor;
    const above = newest === null || base === null || newest <= base ? 0n : newest - base;
    return above + this.#carriedBytes;
  }

  #unreserve(exposed: Exposed): void {
    for (const tally of [exposed.owner, this.total]) {
      tally.reserved--;
      tally.addValue(exposed, "reserved", -1n);
    }
  }

  #settle(exposed: Exposed): void {
    exposed.state = "over";
    this.total.remove(exposed);
    exposed.owner.remove(exposed);
    this.#forget(exposed.owner);
  }

  #forget(tally: Tally): void {
    if (tally.count === 0 && tally.owner !== null) this.#owners.delete(tally.owner);
  }
}
