// The pending set: every promise that is waited for, and its verdict. Pure: time and chance come as
// arguments, settlements go out as values. Rules, named as in the verdicts that this client finds
// itself:
//
// - `client:mark`: a promise is durable at a level when a mark of that level has reached its
//   position in the newest reported epoch. Marks of another epoch say nothing: offsets of different
//   epochs are never compared, and only a tracker knows whether an ended epoch was contained in its
//   successor.
// - A tracker judges everything else. It also says where a promise that was carried over stands
//   now; from there on, marks are enough again. This client never finds `lost` itself. Missing
//   evidence means `pending`.
import { type Marks, type Position, type TokenVerdict } from "./wire.ts";

/** How a wait ended: with a terminal verdict, or because the question was refused. */
export type Settlement = TokenVerdict | Error;
export type Waiter = (settlement: Settlement) => unknown;

interface LogPosition {
  readonly epoch: string;
  readonly offset: bigint;
}

/**
 * The promise of one transaction. It lives as long as the application holds it; the pending set has
 * it only while it is waited for.
 */
export interface PendingPromise {
  readonly id: string;
  readonly token: string;
  /** Position at which it is judged now. */
  logPosition: LogPosition;
  readonly sinceMs: number;
  /** What its verdicts repeat. A process that has only its token knows nothing. */
  readonly about: Pick<TokenVerdict, "metadata" | "readOnly">;
  /** Verdicts `durable` by level. They stay, whatever happens later. */
  readonly durable: Map<string, TokenVerdict>;
  /** The verdict `lost` or `broken`, which settles every level that is not durable. */
  loss?: TokenVerdict;
  readonly waits: Map<string, Wait>;
}

/** A wait of one entry at one level. It lives while its entry has it. */
export interface Wait {
  readonly entry: PendingPromise;
  readonly level: string;
  readonly sinceMs: number;
  readonly waiters: Set<Waiter>;
  /** Whether a tracker has been asked and has not settled it since. */
  isAsked: boolean;
}

/** Waiters to call. */
export interface Settled {
  readonly wait: Wait;
  readonly waiters: readonly Waiter[];
  readonly settlement: Settlement;
  /** Whether this is the first time that the entry turned out lost or broken. */
  readonly isLoss: boolean;
}

export function makeEntry(
  token: string,
  made: { id: string; position: Position; nowMs: number; about?: PendingPromise["about"] },
): PendingPromise {
  const { id, position, nowMs, about = {} } = made;
  return {
    id,
    token,
    about,
    logPosition: logPositionOf(position),
    sinceMs: nowMs,
    durable: new Map<string, TokenVerdict>(),
    waits: new Map<string, Wait>(),
  };
}

function logPositionOf({ epoch, offset }: Position): LogPosition {
  return { epoch, offset: BigInt(offset) };
}

/** Records that the promise is durable at the level, by a rule of this client. */
export function keep(
  { id, token, about, logPosition, durable }: PendingPromise,
  level: string,
  rule: string,
): TokenVerdict {
  const position = { epoch: logPosition.epoch, offset: String(logPosition.offset) };
  const verdict = { ...about, token, id, verdict: "durable", level, position, rule } as const;
  durable.set(level, verdict);
  return verdict;
}

export function isLive(wait: Wait): boolean {
  return wait.entry.waits.get(wait.level) === wait;
}

export class PendingSet {
  /** Promises that are waited for. */
  readonly entries = new Set<PendingPromise>();
  /** Waits that marks alone cannot settle, and that no tracker has been asked about yet. */
  readonly toAsk = new Set<Wait>();
  /** The newest reported epoch; empty until then. */
  epoch = "";
  #seq = -1;
  /** Numbers of the epochs that were reported. Each is the work of a failover, so they are few. */
  readonly #seqs = new Map<string, number>();
  /** Highest marks of that epoch. A level that was never observed is absent, not zero. */
  readonly #levels = new Map<string, bigint>();
  readonly #byToken = new Map<string, PendingPromise>();
  #settled: Settled[] = [];

  /** The newest marks in wire format. */
  get marks(): Marks | null {
    if (this.#levels.size === 0) return null;
    const levels = [...this.#levels].map(([level, offset]) => [level, String(offset)] as const);
    return { epoch: this.epoch, seq: this.#seq, levels: Object.fromEntries(levels) };
  }

  /** Returns what was settled since the last call. */
  takeSettled(): readonly Settled[] {
    const settled = this.#settled;
    this.#settled = [];
    return settled;
  }

  /** Returns the known verdict of the entry at the level, also by marks, or undefined. */
  known(entry: PendingPromise, level: string): TokenVerdict | undefined {
    const { durable, loss, logPosition } = entry;
    // A loss counts at the level of its verdict: at this level the promise may not be broken.
    const verdict = durable.get(level) ?? loss;
    const mark = this.#levels.get(level);
    const isReached = mark !== undefined && mark >= logPosition.offset && logPosition.epoch === this.epoch;
    return !verdict && isReached ? keep(entry, level, "client:mark") : verdict;
  }

  /** Returns the entry of an awaited token: two handles of one transaction get one outcome. */
  find(token: string): PendingPromise | undefined {
    return this.#byToken.get(token);
  }

  /** Whether the epoch is older than the other one; undefined unless both were reported. */
  isOlder(epoch: string, other: string): boolean | undefined {
    const [own, others] = [this.#seqs.get(epoch), this.#seqs.get(other)];
    return own === undefined || others === undefined ? undefined : own < others;
  }

  /** Adds a waiter. Settles nothing: call `known` first. */
  watch(entry: PendingPromise, level: string, waiter: Waiter, nowMs: number): void {
    let wait = entry.waits.get(level);
    if (!wait) {
      wait = { entry, level, sinceMs: nowMs, waiters: new Set(), isAsked: false };
      entry.waits.set(level, wait);
      this.entries.add(entry);
      this.#byToken.set(entry.token, entry);
      this.#file(wait);
    }
    wait.waiters.add(waiter);
  }

  /** Removes a waiter. Returns true if it was the last of its wait. */
  unwatch(entry: PendingPromise, level: string, waiter: Waiter): boolean {
    const wait = entry.waits.get(level);
    const isLast = wait?.waiters.delete(waiter) === true && wait.waiters.size === 0;
    if (isLast) this.#drop(wait);
    return isLast;
  }

  /** Marks stay true in their epoch, so the highest count. Those of older epochs are ignored. */
  learnMarks(marks: Marks): void {
    let isMoved = this.#isNews(marks.epoch, marks.seq);
    let isRaised = isMoved;
    if (marks.epoch !== this.epoch) return;
    for (const [level, text] of Object.entries(marks.levels)) {
      const offset = BigInt(text);
      const before = this.#levels.get(level);
      if (before !== undefined && before >= offset) continue;
      this.#levels.set(level, offset);
      // The first marks also show which levels have no mark yet; see #file.
      isMoved ||= before === undefined;
      isRaised = true;
    }
    if (isRaised) this.#review(isMoved);
  }

  learnEpoch(epoch: string, seq: number): void {
    if (this.#isNews(epoch, seq)) this.#review(true);
  }

  /**
   * Takes waits of one level to ask about, `limit` at most. Each is taken once, until its answer.
   */
  takeToAsk(limit: number): Wait[] {
    const [first] = this.toAsk;
    const taken = [...this.toAsk].filter(({ level }) => level === first?.level).slice(0, limit);
    for (const wait of taken) {
      this.toAsk.delete(wait);
      wait.isAsked = true;
    }
    return taken;
  }

  /**
   * Applies the answer about a wait: a tracker's verdict, or the error that refuses it for good.
   */
  judge(wait: Wait, given: Settlement): void {
    const { entry } = wait;
    if (!isLive(wait)) return;
    const answer = given instanceof Error ? given : { ...given, ...entry.about };
    const kind = answer instanceof Error ? "refused" : answer.verdict;
    if (answer instanceof Error || (kind !== "pending" && kind !== "lost" && kind !== "broken")) {
      if (kind === "durable") entry.durable.set(wait.level, answer as TokenVerdict);
      this.#settle(wait, answer);
      return;
    }
    // Its current position, also after it was carried over to another epoch.
    if (kind === "pending") entry.logPosition = logPositionOf(answer.position);
    else entry.loss = answer;
    let isFirst = kind !== "pending";
    for (const each of entry.waits.values()) {
      this.#settleOrFile(each, true, isFirst);
      isFirst = false;
    }
  }

  /** Asks again: the question got no answer, or none that settles the wait. */
  giveBack(wait: Wait): void {
    wait.isAsked = false;
    if (isLive(wait)) this.#file(wait);
  }

  /**
   * Asks about all that has waited since then: a missed report must not leave a promise hanging.
   */
  recheck(sinceMs: number): void {
    for (const { waits } of this.entries)
      for (const wait of waits.values()) if (wait.sinceMs <= sinceMs && !wait.isAsked) this.toAsk.add(wait);
  }

  /**
   * Returns whether the epoch is new, and takes it in. An older one comes from a tracker that lags.
   */
  #isNews(epoch: string, seq: number): boolean {
    if (epoch === this.epoch) return false;
    this.#seqs.set(epoch, seq);
    if (seq < this.#seq) return false;
    this.epoch = epoch;
    this.#seq = seq;
    this.#levels.clear();
    return true;
  }

  /**
   * Goes over all promises: settles those that marks have reached and, if epoch or levels changed,
   * files the others again.
   */
  #review(isMoved: boolean): void {
    for (const { waits } of this.entries)
      for (const wait of waits.values()) this.#settleOrFile(wait, isMoved);
  }

  #settleOrFile(wait: Wait, isMoved: boolean, isLoss = false): void {
    const known = this.known(wait.entry, wait.level);
    if (known) this.#settle(wait, known, isLoss);
    else if (isMoved) this.#file(wait);
  }

  /**
   * Files a wait by the source of its evidence: marks of the newest epoch, or a tracker's answer.
   */
  #file(wait: Wait): void {
    const isCurrent = wait.entry.logPosition.epoch === this.epoch;
    // Until an epoch has been reported, it may be this one. A level without a mark may not have one
    // yet, or be misspelt: a question shows which.
    if (!this.epoch || (isCurrent && (this.#levels.size === 0 || this.#levels.has(wait.level)))) {
      wait.isAsked = false;
      this.toAsk.delete(wait);
    } else if (!wait.isAsked) this.toAsk.add(wait);
  }

  #settle(wait: Wait, settlement: Settlement, isLoss = false): void {
    this.#settled.push({ wait, waiters: [...wait.waiters], settlement, isLoss });
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
