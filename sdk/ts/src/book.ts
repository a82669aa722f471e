// The promise book: every promise that somebody waits for, and the judgement of each. Pure: time and chance come as
// arguments, settlements go out as values. Rules (the names are those of the verdicts this client finds by itself):
//
// - `client:mark`: durable at a level when a mark of the promise's own epoch at that level has reached its offset.
// - carried over: when its epoch has ended and its offset is at or below the successor's fork offset, it continues at
//   the successor's start offset and waits for marks there.
// - Anything else about an epoch that ended, or that nobody told us about, only a tracker can judge: ask, and ask
//   again. This client never finds `lost` by itself. Missing evidence is `pending`.
import { type HeapItem, OffsetHeap } from "./heap.ts";
import { History, type Place, placeOf, positionOf, type Standing } from "./history.ts";
import { type EpochRecord, type Marks, type Position, type TokenVerdict } from "./wire.ts";

export type Waiter = (settlement: Settlement) => void;
/** How a wait ended: by a terminal verdict, or because the question itself was refused. */
export type Settlement =
  | { readonly kind: "verdict"; readonly verdict: TokenVerdict }
  | { readonly kind: "refused"; readonly error: Error };

/** One transaction's promise. Lives as long as somebody holds it; the book has it only while it is waited for. */
export interface Entry {
  readonly id: string;
  readonly token: string;
  /** The epoch that it committed in. */
  readonly origin: string;
  /** Where it is judged now. */
  place: Place;
  readonly sinceMs: number;
  /** Verdicts `durable` by level: they stay, whatever happens later. */
  readonly durable: Map<string, TokenVerdict>;
  /** The verdict `lost` or `broken`, which settles every level that is not durable. */
  gone: TokenVerdict | null;
  readonly waits: Map<string, Wait>;
}

export interface Wait {
  readonly entry: Entry;
  readonly level: string;
  readonly sinceMs: number;
  readonly waiters: Set<Waiter>;
  /** False once it is settled or given up. */
  live: boolean;
  slot: Slot | null;
  /** When to ask a tracker; null while marks are enough. */
  askAtMs: number | null;
  /** Times asked in vain since marks were last enough. */
  asks: number;
  asking: boolean;
}

interface Slot extends HeapItem {
  readonly wait: Wait;
  readonly heap: OffsetHeap<Slot>;
}

/** Waiters to be told, collected by every call that can settle something. */
export interface Settled {
  readonly entry: Entry;
  readonly level: string;
  readonly waiters: readonly Waiter[];
  readonly settlement: Settlement;
  /** The first time that this entry turned out lost or broken. */
  readonly gone: boolean;
}

export interface Moment {
  readonly nowMs: number;
  readonly random: () => number;
}

/** A first question is spread over this long, for after a failover every client has one. */
const FIRST_ASK_SPREAD_MS = 50;
const ASK_AGAIN_BASE_MS = 100;
const ASK_AGAIN_MAX_MS = 10_000;

export function makeEntry(token: string, options: { id: string; position: Position; nowMs: number }): Entry {
  const place = placeOf(options.position);
  return {
    id: options.id,
    token,
    origin: place.epoch,
    place,
    sinceMs: options.nowMs,
    durable: new Map(),
    gone: null,
    waits: new Map(),
  };
}

export class PromiseBook {
  readonly history = new History();
  readonly #entries = new Set<Entry>();
  readonly #heaps = new Map<string, Map<string, OffsetHeap<Slot>>>();
  readonly #toAsk = new Set<Wait>();

  /** Promises that are waited for. */
  get entries(): ReadonlySet<Entry> {
    return this.#entries;
  }

  /** Waits that marks alone cannot settle. */
  get toAsk(): ReadonlySet<Wait> {
    return this.#toAsk;
  }

  /** What is already known about the entry at the level, by verdict or by marks, or undefined. */
  known(entry: Entry, level: string): TokenVerdict | undefined {
    // Waits of the book are filed anew whenever the history moves, so this settles none of them.
    if (entry.gone === null) this.#carry(entry, []);
    const durable = entry.durable.get(level);
    if (durable !== undefined) return durable;
    if (entry.gone !== null) return { ...entry.gone, level };
    return this.#passed(entry, level) ? this.#noteDurable(entry, level) : undefined;
  }

  /** Adds a waiter. Settles nothing: ask `known` first. */
  watch(entry: Entry, options: { level: string; waiter: Waiter }, moment: Moment): void {
    const { level, waiter } = options;
    let wait = entry.waits.get(level);
    if (wait === undefined) {
      wait = {
        ...{ entry, level, sinceMs: moment.nowMs, waiters: new Set<Waiter>() },
        ...{ live: true, slot: null, askAtMs: null, asks: 0, asking: false },
      };
      entry.waits.set(level, wait);
      this.#entries.add(entry);
      this.#file(wait, this.history.standing(entry.place), moment);
    }
    wait.waiters.add(waiter);
  }

  /** Takes a waiter away. True when nobody waits for the entry any more. */
  unwatch(entry: Entry, level: string, waiter: Waiter): boolean {
    const wait = entry.waits.get(level);
    if (wait?.waiters.delete(waiter) === true && wait.waiters.size === 0) this.#drop(wait);
    return !this.#entries.has(entry);
  }

  learnMarks(marks: Marks, moment: Moment): Settled[] {
    const { raised, moved, first } = this.history.learnMarks(marks);
    const settled: Settled[] = [];
    const epoch = marks.epoch.toLowerCase();
    const heaps = this.#heaps.get(epoch);
    for (const level of raised) {
      const offset = this.history.mark(epoch, level);
      const heap = heaps?.get(level);
      if (heap === undefined || offset === undefined) continue;
      for (const slot of heap.takeUpTo(offset)) this.#settleDurable(slot.wait, settled);
    }
    // The first marks also say which levels nobody has seen yet; see #file.
    if (moved || first) this.#refile(settled, moment);
    return settled;
  }

  learnEpochs(epochs: readonly EpochRecord[], moment: Moment): Settled[] {
    const settled: Settled[] = [];
    if (this.history.learnEpochs(epochs)) this.#refile(settled, moment);
    return settled;
  }

  /** Takes in a tracker's answer to a question about this wait. */
  judge(wait: Wait, verdict: TokenVerdict, moment: Moment): Settled[] {
    wait.asking = false;
    const settled: Settled[] = [];
    if (!wait.live) return settled;
    const { entry } = wait;
    switch (verdict.verdict) {
      case "durable":
        entry.durable.set(wait.level, verdict);
        this.#settle(wait, { kind: "verdict", verdict }, settled);
        break;
      case "lost":
      case "broken":
        entry.gone = verdict;
        for (const [index, each] of [...entry.waits.values()].entries()) {
          const own = { ...verdict, level: each.level };
          this.#settle(each, { kind: "verdict", verdict: own }, settled, index === 0);
        }
        break;
      case "expired":
      case "unknown":
        this.#settle(wait, { kind: "verdict", verdict }, settled);
        break;
      case "pending":
        // The tracker may know a place that this client could not derive (found by its receipt).
        entry.place = placeOf(verdict.position);
        wait.askAtMs = null;
        wait.asks += 1;
        this.#refileEntry(entry, settled, moment);
        break;
    }
    return settled;
  }

  /** The question could not be asked or got no answer: ask again later. */
  askLater(wait: Wait, moment: Moment): void {
    wait.asking = false;
    if (!wait.live || !this.#toAsk.has(wait)) return;
    wait.asks += 1;
    wait.askAtMs = moment.nowMs + askDelayMs(wait.asks, moment.random());
  }

  /** The question was refused for good, as for a level that does not exist. */
  refuse(wait: Wait, error: Error): Settled[] {
    wait.asking = false;
    const settled: Settled[] = [];
    if (wait.live) this.#settle(wait, { kind: "refused", error }, settled);
    return settled;
  }

  /** Waits whose time to be asked about has come, at most so many; each is taken once, until its answer. */
  takeDue(nowMs: number, limit: number): Wait[] {
    const due: Wait[] = [];
    for (const wait of this.#toAsk) {
      if (due.length === limit) break;
      if (wait.asking || wait.askAtMs === null || wait.askAtMs > nowMs) continue;
      wait.asking = true;
      due.push(wait);
    }
    return due;
  }

  nextAskAtMs(): number | null {
    let next: number | null = null;
    for (const wait of this.#toAsk) {
      if (!wait.asking && wait.askAtMs !== null && (next === null || wait.askAtMs < next))
        next = wait.askAtMs;
    }
    return next;
  }

  /** Asks about everything that has waited for long: a promise must not hang on what this client failed to hear. */
  recheck(olderThanMs: number, moment: Moment): void {
    for (const entry of this.#entries) {
      for (const wait of entry.waits.values()) {
        if (moment.nowMs - wait.sinceMs >= olderThanMs) this.#ask(wait, moment);
      }
    }
  }

  #passed(entry: Entry, level: string): boolean {
    // An epoch that ended below the offset: its marks say that a promise was broken, not that it holds.
    if (this.history.standing(entry.place) === "ended") return false;
    const mark = this.history.mark(entry.place.epoch, level);
    return mark !== undefined && mark >= entry.place.offset;
  }

  #noteDurable(entry: Entry, level: string): TokenVerdict {
    const verdict: TokenVerdict = {
      ...{ token: entry.token, id: entry.id, verdict: "durable", level },
      ...{ position: positionOf(entry.place), rule: "client:mark" },
    };
    entry.durable.set(level, verdict);
    return verdict;
  }

  /** Moves the entry along the ancestry as far as the evidence goes. What its old epoch's marks settled, they settle. */
  #carry(entry: Entry, settled: Settled[]): void {
    for (let hops = this.history.epochsKnown; hops > 0; hops--) {
      const contained = entry.place.epoch !== entry.origin;
      const next = this.history.carryOver(entry.place, { contained });
      if (next === undefined) return;
      for (const level of this.history.levelsPassed(entry.place)) {
        const wait = entry.waits.get(level);
        if (wait !== undefined) this.#settleDurable(wait, settled);
        else if (!entry.durable.has(level)) this.#noteDurable(entry, level);
      }
      entry.place = next;
    }
  }

  #refile(settled: Settled[], moment: Moment): void {
    this.#heaps.clear();
    for (const entry of [...this.#entries]) this.#refileEntry(entry, settled, moment);
  }

  #refileEntry(entry: Entry, settled: Settled[], moment: Moment): void {
    this.#carry(entry, settled);
    const standing = this.history.standing(entry.place);
    for (const wait of [...entry.waits.values()]) {
      if (this.#passed(entry, wait.level)) this.#settleDurable(wait, settled);
      else this.#file(wait, standing, moment);
    }
  }

  /** Puts a wait where its evidence will come from: under the marks of its epoch, on the list to ask, or both. */
  #file(wait: Wait, standing: Standing, moment: Moment): void {
    const { epoch, offset } = wait.entry.place;
    this.#unslot(wait);
    if (standing !== "ended") {
      let levels = this.#heaps.get(epoch);
      if (levels === undefined) this.#heaps.set(epoch, (levels = new Map<string, OffsetHeap<Slot>>()));
      let heap = levels.get(wait.level);
      if (heap === undefined) levels.set(wait.level, (heap = new OffsetHeap<Slot>()));
      wait.slot = { offset, live: true, wait, heap };
      heap.push(wait.slot);
    }
    // A level that nobody has seen is yet to come, or misspelt: a question tells.
    if (standing !== "open" || this.history.lacksLevel(epoch, wait.level)) this.#ask(wait, moment);
    else {
      wait.askAtMs = null;
      wait.asks = 0;
      this.#toAsk.delete(wait);
    }
  }

  #ask(wait: Wait, moment: Moment): void {
    this.#toAsk.add(wait);
    wait.askAtMs ??= moment.nowMs + askDelayMs(wait.asks, moment.random());
  }

  #settleDurable(wait: Wait, settled: Settled[]): void {
    if (!wait.live) return;
    this.#settle(wait, { kind: "verdict", verdict: this.#noteDurable(wait.entry, wait.level) }, settled);
  }

  #settle(wait: Wait, settlement: Settlement, settled: Settled[], gone = false): void {
    settled.push({ entry: wait.entry, level: wait.level, waiters: [...wait.waiters], settlement, gone });
    this.#drop(wait);
  }

  #drop(wait: Wait): void {
    const { entry } = wait;
    wait.live = false;
    wait.waiters.clear();
    this.#unslot(wait);
    this.#toAsk.delete(wait);
    entry.waits.delete(wait.level);
    if (entry.waits.size === 0) this.#entries.delete(entry);
  }

  #unslot(wait: Wait): void {
    if (wait.slot !== null) wait.slot.heap.drop(wait.slot);
    wait.slot = null;
  }
}

function askDelayMs(asks: number, random: number): number {
  if (asks === 0) return random * FIRST_ASK_SPREAD_MS;
  return (0.5 + random / 2) * Math.min(ASK_AGAIN_MAX_MS, ASK_AGAIN_BASE_MS * 2 ** Math.min(asks, 20));
}
