// The promise book: every promise that somebody waits for, and the judgement of each. Pure: time and chance come as
// arguments, settlements go out as values. Rules (the name is that of the verdicts this client finds by itself):
//
// - `client:mark`: durable at a level when a mark at that level has reached its place, in the newest epoch that anybody has
//   told of. Marks of another epoch say nothing: offsets of different epochs are never compared, and whether an epoch that
//   has ended was contained in its successor only a tracker knows.
// - Everything else a tracker judges, which also says where a promise that was carried over stands now: from there on marks
//   are enough again. This client never finds `lost` by itself. Missing evidence is `pending`.
import { type Marks, type Position, type TokenVerdict } from "./wire.ts";

/** How a wait ended: by a terminal verdict, or because the question itself was refused. */
export type Settlement = TokenVerdict | Error;
export type Waiter = (settlement: Settlement) => void;

export interface Place {
  readonly epoch: string;
  readonly offset: bigint;
}

/** One transaction's promise. Lives as long as somebody holds it; the book has it only while it is waited for. */
export interface Entry {
  readonly id: string;
  readonly token: string;
  /** Where it is judged now. */
  place: Place;
  readonly sinceMs: number;
  /** What the user said of it; unknown to a process that has only its token. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** Verdicts `durable` by level: they stay, whatever happens later. */
  readonly durable: Map<string, TokenVerdict>;
  /** The verdict `lost` or `broken`, which settles every level that is not durable. */
  gone?: TokenVerdict;
  readonly waits: Map<string, Wait>;
}

/** It lives while its entry has it. */
export interface Wait {
  readonly entry: Entry;
  readonly level: string;
  readonly sinceMs: number;
  readonly waiters: Set<Waiter>;
  /** When to ask a tracker; undefined while marks are enough. */
  askAtMs: number | undefined;
  /** Times asked in vain since marks were last enough. */
  asks: number;
  isAsking: boolean;
}

/** Waiters to be told, collected by every call that can settle something. */
export interface Settled {
  readonly wait: Wait;
  readonly waiters: readonly Waiter[];
  readonly settlement: Settlement;
  /** The first time that this entry turned out lost or broken. */
  readonly isGone: boolean;
}

export interface Moment {
  readonly nowMs: number;
  readonly random: () => number;
}

/** A first question is spread over this long, for after a failover every client has one. */
const FIRST_ASK_SPREAD_MS = 50;
const ASK_AGAIN_BASE_MS = 100;
const ASK_AGAIN_MAX_MS = 10_000;

export function makeEntry(
  token: string,
  about: { id: string; position: Position; nowMs: number; metadata?: Entry["metadata"] },
): Entry {
  const { id, position, nowMs, metadata } = about;
  return {
    ...{ id, token, metadata, place: placeOf(position), sinceMs: nowMs },
    ...{ durable: new Map<string, TokenVerdict>(), waits: new Map<string, Wait>() },
  };
}

function placeOf({ epoch, offset }: Position): Place {
  return { epoch: epoch.toLowerCase(), offset: BigInt(offset) };
}

export function isLive(wait: Wait): boolean {
  return wait.entry.waits.get(wait.level) === wait;
}

export class PromiseBook {
  /** Promises that are waited for. */
  readonly entries = new Set<Entry>();
  /** Waits that marks alone cannot settle. */
  readonly toAsk = new Set<Wait>();
  readonly #byToken = new Map<string, Entry>();
  /** The newest epoch that anybody has told of, and its highest marks. A level that was never observed is absent, not zero. */
  #epoch = "";
  #seq = -1;
  readonly #levels = new Map<string, bigint>();
  /** By level: no promise of the newest epoch stands below. A mark that does not reach it needs no pass over the promises. */
  readonly #lowest = new Map<string, bigint>();

  /** Empty until somebody has told of one. */
  get epoch(): string {
    return this.#epoch;
  }

  /** The newest marks, as the wire writes them. */
  get marks(): Marks | null {
    if (this.#levels.size === 0) return null;
    const levels = [...this.#levels].map(([level, offset]) => [level, String(offset)] as const);
    return { epoch: this.#epoch, seq: this.#seq, levels: Object.fromEntries(levels) };
  }

  /** What is already known about the entry at the level, by verdict or by marks, or undefined. */
  known(entry: Entry, level: string): TokenVerdict | undefined {
    const { durable, gone, place, token, id } = entry;
    let verdict = durable.get(level) ?? (gone && { ...gone, level });
    if (verdict === undefined && this.#isPassed(place, level)) {
      const position = { epoch: place.epoch, offset: String(place.offset) };
      verdict = { token, id, verdict: "durable", level, position, rule: "client:mark" };
      durable.set(level, verdict);
    }
    return verdict;
  }

  /** The entry of a token that is waited for: two handles of one transaction are told of one outcome. */
  find(token: string): Entry | undefined {
    return this.#byToken.get(token);
  }

  /** Adds a waiter. Settles nothing: ask `known` first. */
  watch(entry: Entry, options: { level: string; waiter: Waiter }, moment: Moment): void {
    const { level, waiter } = options;
    let wait = entry.waits.get(level);
    if (wait === undefined) {
      wait = {
        ...{ entry, level, sinceMs: moment.nowMs, waiters: new Set<Waiter>() },
        ...{ askAtMs: undefined, asks: 0, isAsking: false },
      };
      entry.waits.set(level, wait);
      this.entries.add(entry);
      this.#byToken.set(entry.token, entry);
      this.#file(wait, moment);
    }
    wait.waiters.add(waiter);
  }

  /** Takes a waiter away. */
  unwatch(entry: Entry, level: string, waiter: Waiter): void {
    const wait = entry.waits.get(level);
    if (wait?.waiters.delete(waiter) === true && wait.waiters.size === 0) this.#drop(wait);
  }

  /** Marks of any age stay true in their epoch, so the highest one counts; those of an older epoch are of no use. */
  learnMarks(marks: Marks, moment: Moment): Settled[] {
    let isMoved = this.#learnEpoch(marks.epoch, marks.seq);
    let isReached = isMoved;
    if (marks.epoch.toLowerCase() !== this.#epoch) return [];
    for (const [level, text] of Object.entries(marks.levels)) {
      const offset = BigInt(text);
      const before = this.#levels.get(level);
      if (before !== undefined && before >= offset) continue;
      this.#levels.set(level, offset);
      // The first marks also say which levels nobody has seen yet; see #file.
      isMoved ||= before === undefined;
      isReached ||= isMoved || offset >= (this.#lowest.get(level) ?? Infinity);
    }
    return isReached ? this.#review(moment, isMoved) : [];
  }

  learnEpoch(epoch: string, seq: number, moment: Moment): Settled[] {
    return this.#learnEpoch(epoch, seq) ? this.#review(moment, true) : [];
  }

  /** Takes in a tracker's answer to a question about this wait. */
  judge(wait: Wait, verdict: TokenVerdict, moment: Moment): Settled[] {
    wait.isAsking = false;
    const settled: Settled[] = [];
    if (!isLive(wait)) return settled;
    const { entry } = wait;
    switch (verdict.verdict) {
      case "pending":
        // Where it stands now, also when it was carried over to another epoch.
        entry.place = placeOf(verdict.position);
        wait.askAtMs = undefined;
        wait.asks += 1;
        for (const each of entry.waits.values()) this.#settleOrFile(each, settled, moment);
        break;
      case "lost":
      case "broken":
        entry.gone = verdict;
        for (const each of entry.waits.values())
          this.#settle(each, { ...verdict, level: each.level }, settled);
        break;
      default:
        if (verdict.verdict === "durable") entry.durable.set(wait.level, verdict);
        this.#settle(wait, verdict, settled);
    }
    return settled;
  }

  /** The question could not be asked or got no answer: ask again later. */
  askLater(wait: Wait, moment: Moment): void {
    wait.isAsking = false;
    if (!this.toAsk.has(wait)) return;
    wait.asks += 1;
    wait.askAtMs = undefined;
    this.#ask(wait, moment);
  }

  /** The question was refused for good, as for a level that does not exist. */
  refuse(wait: Wait, error: Error): Settled[] {
    const settled: Settled[] = [];
    if (isLive(wait)) this.#settle(wait, error, settled);
    return settled;
  }

  /** Waits whose time to be asked about has come, at most so many; each is taken once, until its answer. */
  takeDue(nowMs: number, limit: number): Wait[] {
    const due: Wait[] = [];
    for (const wait of this.toAsk) {
      if (due.length === limit) break;
      if (wait.isAsking || (wait.askAtMs ?? Infinity) > nowMs) continue;
      wait.isAsking = true;
      due.push(wait);
    }
    return due;
  }

  /** Infinity when there is nothing to ask. */
  nextAskAtMs(): number {
    let next = Infinity;
    for (const wait of this.toAsk) if (!wait.isAsking) next = Math.min(next, wait.askAtMs ?? Infinity);
    return next;
  }

  /** Asks about everything that has waited for long: a promise must not hang on what this client failed to hear. */
  recheck(olderThanMs: number, moment: Moment): void {
    for (const { waits } of this.entries)
      for (const wait of waits.values())
        if (moment.nowMs - wait.sinceMs >= olderThanMs) this.#ask(wait, moment);
  }

  #isPassed({ epoch, offset }: Place, level: string): boolean {
    const mark = this.#levels.get(level);
    return epoch === this.#epoch && mark !== undefined && mark >= offset;
  }

  /** True when it is a new one. A tracker that lags tells of an older one: that is no news. */
  #learnEpoch(text: string, seq: number): boolean {
    const epoch = text.toLowerCase();
    if (epoch === this.#epoch || seq < this.#seq) return false;
    this.#epoch = epoch;
    this.#seq = seq;
    this.#levels.clear();
    return true;
  }

  /** One pass over all promises: what the marks have reached is settled, and where the ground has moved, the rest filed anew. */
  #review(moment: Moment, isMoved: boolean): Settled[] {
    const settled: Settled[] = [];
    this.#lowest.clear();
    for (const { waits } of this.entries)
      for (const wait of waits.values()) this.#settleOrFile(wait, settled, moment, isMoved);
    return settled;
  }

  #settleOrFile(wait: Wait, settled: Settled[], moment: Moment, isMoved = true): void {
    const known = this.known(wait.entry, wait.level);
    if (known === undefined) this.#file(wait, moment, isMoved);
    else this.#settle(wait, known, settled);
  }

  /** Puts a wait where its evidence will come from: marks of the newest epoch, or a tracker's answer. */
  #file(wait: Wait, moment: Moment, isMoved = true): void {
    const { level } = wait;
    const { epoch, offset } = wait.entry.place;
    const isCurrent = epoch === this.#epoch;
    if (isCurrent && offset < (this.#lowest.get(level) ?? Infinity)) this.#lowest.set(level, offset);
    if (!isMoved) return;
    const isMarked = this.#levels.size === 0 || this.#levels.has(level);
    // Until somebody has told of an epoch, it may be this one. A level that nobody has seen is yet to come, or misspelt: a
    // question tells.
    if (this.#epoch === "" || (isCurrent && isMarked)) {
      wait.askAtMs = undefined;
      wait.asks = 0;
      this.toAsk.delete(wait);
    } else this.#ask(wait, moment);
  }

  #ask(wait: Wait, { nowMs, random }: Moment): void {
    this.toAsk.add(wait);
    const spreadMs = Math.min(ASK_AGAIN_MAX_MS, ASK_AGAIN_BASE_MS * 2 ** Math.min(wait.asks, 20));
    wait.askAtMs ??=
      nowMs + (wait.asks === 0 ? random() * FIRST_ASK_SPREAD_MS : (0.5 + random() / 2) * spreadMs);
  }

  #settle(wait: Wait, settlement: Settlement, settled: Settled[]): void {
    const { gone } = wait.entry;
    const isGone = gone !== undefined && !settled.some((each) => each.wait.entry === wait.entry);
    settled.push({ wait, waiters: [...wait.waiters], settlement, isGone });
    this.#drop(wait);
  }

  #drop(wait: Wait): void {
    const { entry, level } = wait;
    wait.waiters.clear();
    this.toAsk.delete(wait);
    entry.waits.delete(level);
    if (entry.waits.size > 0) return;
    this.entries.delete(entry);
    if (this.find(entry.token) === entry) this.#byToken.delete(entry.token);
  }
}
