// One simulated tracker: the product's core, with a disk that may be torn, a clock that may jump, and an inbox in which words
// are late, lost, repeated and out of order. Does what the shell does around the core, and remembers what it has reported.
import { type NodeReport } from "@highwater/authority";
import { type EpochId, type Offset, type Verdict } from "@highwater/protocol";
import { type MintRequest, type NewEvent, type Store } from "@highwater/store";
import {
  type AnnouncedItem,
  type CoreConfig,
  type Effect,
  type Ground,
  type LedgerEntry,
  initialState,
  markIn,
  type Published,
  restore,
  type Tracker,
  type TrackerEvent,
} from "../src/core/index.ts";
import { lostEvent } from "../src/events/new-events.ts";
import { type LedgerFile } from "../src/shell/ledger-file.ts";
import { saveEffect, saveMarks } from "../src/shell/saving.ts";
import { currentMarks } from "../src/shell/stream.ts";
import { Survivors } from "../src/shell/survivors.ts";
import { SimClock } from "./clock.ts";
import { SimLedger } from "./ledger.ts";
import { type Rec } from "./node.ts";
import { type SimStream } from "./stream.ts";
import { Watcher } from "./watcher.ts";

export type ReadReceipts = Extract<Effect, { kind: "read_receipts" }>;
type BrokenPromise = Extract<Effect, { kind: "publish_broken_promise" }>;

/** A message on its way to the tracker, or a question of the tracker without an answer. */
export type Message =
  | {
      readonly kind: "question";
      readonly about: "node" | "positions";
      readonly node: string;
      readonly askedAt: number;
    }
  | { readonly kind: "report"; readonly report: NodeReport; readonly askedAt: number }
  | { readonly kind: "event"; readonly event: TrackerEvent }
  | {
      readonly kind: "announcements";
      readonly gateway: number;
      readonly items: readonly AnnouncedItem[];
      readonly parents: Readonly<Record<EpochId, EpochId>>;
      /** Whether they are on its disk. When they are not, the gateway sends them again. */
      readonly answer: (isWritten: boolean) => void;
    };

export type Announcements = Extract<Message, { kind: "announcements" }>;

/** An epoch whose record the tracker has written, and which it has yet to open. */
export interface Minting {
  readonly node: string;
  /** Of the node, when the record was written. */
  readonly sessions: number;
  readonly epoch: EpochId;
  readonly request: MintRequest;
}

export interface ReportedVerdict {
  verdict: Verdict;
  /** No process would remember it after a kill. */
  isVolatile: boolean;
}

/** What the tracker's words are held against. */
export interface Witness {
  onPublished(tracker: SimTracker, published: Published): void;
  onLost(
    tracker: SimTracker,
    entry: LedgerEntry,
    loss: Extract<LedgerEntry["state"], { kind: "lost" }>,
  ): void;
  onMark(tracker: SimTracker, epoch: EpochId, level: string, offset: Offset): void;
}

export interface SimTrackerContext {
  readonly witness: Witness;
  readonly nowMs: () => number;
  /** What a replica has of an epoch's witnesses. Rejects when the tracker cannot reach it. */
  readonly witnessOf: Store["witnessOf"];
  /** What was found wrong where the product would take it for a failure of its own. */
  readonly onFault: (cause: unknown) => void;
}

export class SimTracker {
  readonly n: number;
  readonly config: CoreConfig;
  readonly #parts: SimTrackerContext;
  readonly #nodes: number;
  state: Tracker;
  watcher: Watcher;
  ledger: SimLedger;
  survivors: Survivors;
  skewMs = 0;
  inbox: Message[] = [];
  reads: ReadReceipts[] = [];
  minting: Minting | null = null;
  helps: Extract<Effect, { kind: "help_flush" }>[] = [];
  /** Announcements that came since the last write. */
  unwritten: Announcements[] = [];
  readonly streams = new Set<SimStream>();
  readonly reported = new Map<string, ReportedVerdict>();
  /** What the pending verdicts of those who ask rest on. */
  readonly grounds = new Map<string, Ground | null>();
  readonly published: Published[] = [];
  readonly brokenPromises: BrokenPromise[] = [];
  /** What it has to report to all, and how much of that is on its disk. */
  lossEvents: NewEvent[] = [];
  #savedVerdicts = 0;
  /** What it has read of the words of others. */
  readonly peerVerdicts = new Set<Rec>();
  marks = new Map<string, Offset>();
  /** What it had reported at each batch of the ledger. */
  #reportedAt: Map<string, Verdict>[] = [];
  /** Started anew, and does not know the primary yet. */
  isHushed = false;
  /** Its disk has lost what was written. */
  isTorn = false;
  /** A kill took marks that were not saved: its entries may know of levels that none of its marks shows. */
  hasForgotten = false;
  isDirty = true;

  constructor(n: number, config: CoreConfig, parts: SimTrackerContext) {
    this.n = n;
    this.config = config;
    this.#parts = parts;
    this.#nodes = config.nodes.length;
    this.state = initialState(config, parts.nowMs());
    this.watcher = new Watcher(this.#nodes);
    this.ledger = new SimLedger(this.state);
    this.#reportedAt.push(new Map());
    this.survivors = this.#survey();
  }

  #survey(): Survivors {
    const { nowMs, witnessOf, onFault } = this.#parts;
    const clock = new SimClock(() => nowMs() + this.skewMs);
    const survivors: Survivors = new Survivors({
      clock,
      store: { witnessOf },
      onRead: (word) => {
        // The process that had asked may be gone.
        if (survivors !== this.survivors) return;
        try {
          this.send({ kind: "witnesses_read", nowMs: clock.monotonicMs(), ...word });
        } catch (cause) {
          onFault(cause);
        }
      },
    });
    return survivors;
  }

  get name(): string {
    return `tracker ${String(this.n + 1)}`;
  }

  send(event: TrackerEvent): void {
    const effects = this.state.apply(event);
    this.isDirty = true;
    for (const effect of effects) this.#carryOut(effect);
    if (this.state.topology.standing.kind === "following") this.isHushed = false;
  }

  #carryOut(effect: Effect): void {
    const { state } = this;
    switch (effect.kind) {
      case "read_receipts":
        this.reads.push(effect);
        return;
      case "help_flush":
        this.helps.push(effect);
        return;
      case "publish_verdict":
        this.published.push(effect.published);
        this.lossEvents.push(lostEvent(effect.published));
        this.#parts.witness.onPublished(this, effect.published);
        return;
      case "publish_marks":
        this.#noteMarks(effect.epoch);
        for (const stream of this.streams) this.#sendMarks(stream);
        return;
      case "publish_epochs": {
        for (const stream of this.streams) this.#sendEpochs(stream);
        const epoch = state.topology.ancestry.at(-1)?.id;
        if (epoch !== undefined) this.ledger.saveCurrentEpoch(epoch as EpochId);
        return;
      }
      case "disown_epoch":
        throw new Error(`${effect.node} went back within ${effect.epoch}, and no server of this world does`);
      case "publish_broken_promise":
        this.brokenPromises.push(effect);
        return;
      case "refuse_peer_verdict":
      case "publish_durable":
      case "publish_delayed":
      case "publish_lag":
      case "publish_stall":
      case "publish_unlisted":
        return;
      case "save_marks":
        // The shell saves them now and then, and whenever something leaves by them.
        return;
      case "save":
        if (effect.entry.state.kind === "lost")
          this.#parts.witness.onLost(this, effect.entry, effect.entry.state);
        saveEffect(this.#file, state, effect);
        return;
      default:
        saveEffect(this.#file, state, effect);
    }
  }

  /** A gateway listens to what it publishes from now on. */
  follow(stream: SimStream): void {
    this.streams.add(stream);
    this.#sendEpochs(stream);
    this.#sendMarks(stream);
  }

  #sendEpochs(stream: SimStream): void {
    if (this.state.topology.ancestry.length > 0)
      stream.send("epoch", { epochs: this.state.topology.ancestry });
  }

  #sendMarks(stream: SimStream): void {
    const marks = currentMarks(this.state);
    if (marks !== null) stream.send("mark", marks);
  }

  get #file(): LedgerFile {
    return this.ledger as unknown as LedgerFile;
  }

  #noteMarks(epoch: EpochId): void {
    for (const [level, offset] of this.state.topology.marks.get(epoch) ?? []) {
      const key = `${epoch}/${level}`;
      const before = this.marks.get(key);
      if (before === offset) continue;
      if (before !== undefined && offset < before) throw new Error(`the mark of ${level} went down`);
      this.marks.set(key, offset);
      this.#parts.witness.onMark(this, epoch, level, offset);
    }
  }

  /** As the shell does when another epoch is about to become current. */
  saveEpochMarks(): void {
    saveMarks(this.#file, this.state, (this.state.topology.ancestry.at(-1)?.id ?? null) as EpochId | null);
  }

  /** Everything so far is on disk. `marks`: those that are only saved now and then, too. */
  flush(marks: boolean): void {
    if (marks) for (const epoch of this.state.topology.marks.keys()) saveMarks(this.#file, this.state, epoch);
    const before = this.ledger.batches;
    this.ledger.flush();
    this.#savedVerdicts = this.lossEvents.length;
    for (const { answer } of this.unwritten.splice(0)) answer(true);
    // Without the marks, nothing that was read off them would be remembered.
    for (const reported of this.reported.values())
      if (marks || (reported.verdict !== "durable" && reported.verdict !== "pending"))
        reported.isVolatile = false;
    const remembered = new Map<string, Verdict>();
    for (const [key, { verdict, isVolatile }] of this.reported) if (!isVolatile) remembered.set(key, verdict);
    if (this.ledger.batches > before) this.#reportedAt.push(remembered);
    else this.#reportedAt[this.#reportedAt.length - 1] = remembered;
  }

  /** Killed and started again, after `lost` of the batches that it had written have been lost. */
  restart(nowMs: number, lost: number): void {
    const left = Math.max(1, this.ledger.batches - lost);
    if (left < this.ledger.batches) this.isTorn = true;
    const saved = this.ledger.read(left);
    this.#reportedAt.length = left;
    const { marks } = this.state.topology;
    this.state = restore(this.config, nowMs, saved);
    for (const [epoch, levels] of marks)
      for (const [level, offset] of levels)
        if ((markIn(this.state, epoch, level) ?? -1n) < offset) this.hasForgotten = true;
    this.watcher = new Watcher(this.#nodes);
    this.watcher.known = saved.currentEpoch;
    this.watcher.graph.add(saved.epochs);
    this.reads = [];
    this.helps = [];
    this.minting = null;
    this.lossEvents.length = this.#savedVerdicts;
    this.peerVerdicts.clear();
    this.survivors = this.#survey();
    // What was on its way to the process that died is gone with it; its gateways send what was not acknowledged.
    for (const message of [...this.inbox.splice(0), ...this.unwritten.splice(0)])
      if (message.kind === "announcements") message.answer(false);
    for (const stream of this.streams) stream.end();
    this.isHushed = true;
    this.isDirty = true;
    const remembered = this.#reportedAt.at(-1) ?? new Map<string, Verdict>();
    this.reported.clear();
    for (const [key, verdict] of remembered) this.reported.set(key, { verdict, isVolatile: false });
    this.marks = new Map(saved.marks.map(({ epoch, level, offset }) => [`${epoch}/${level}`, offset]));
  }
}
