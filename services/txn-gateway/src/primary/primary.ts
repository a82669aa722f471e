// The authoritative primary and its epoch, as this gateway sees them: where transactions run. Owns
// the watcher and acts on its answers; the rule is in packages/authority.
import { type Authority, type AuthorityRule, AuthorityWatcher, type NodeReport } from "@highwater/authority";
import { type EpochGraph, type EpochId, type EpochRecord, HighwaterError } from "@highwater/protocol";
import { type MintRequest, type Store } from "@highwater/store";
import { type Log, logReserved } from "@highwater/service";
import { type Deps } from "../deps.ts";
import { RETRY_MS } from "../retry.ts";
import { WriteHold } from "./write-hold.ts";

/** One node in one epoch. A request runs in the epoch in which it arrived, or not at all. */
export interface PrimaryEpoch {
  readonly node: string;
  readonly epoch: EpochId;
}

export interface PrimaryOptions {
  /** Default: ancestry. */
  readonly rule?: AuthorityRule;
  readonly probeIntervalMs: number;
  readonly hasTrackers: boolean;
  readonly sequenceReserve: number;
  readonly replayHoldMs: number;
  /** How long no tracker has been reachable. Then the gateway begins epochs itself. */
  readonly trackersSilentMs: () => number;
  /** The marks that this gateway knows, by epoch and level, for the record of the next epoch. */
  readonly knownMarks: () => KnownMarks;
  /**
   * Why nothing may begin: the deployment keys differ from those of the other services. Null while
   * they agree.
   */
  readonly scheduleFault: () => string | null;
  /** A node has said what it is. */
  readonly onReport?: (report: NodeReport) => void;
  readonly onEpoch: (primaryEpoch: PrimaryEpoch, ended: PrimaryEpoch | null) => void;
}

/** The marks of each epoch, and the one that every level has reached. */
export type KnownMarks = Required<Pick<MintRequest, "finalMarks" | "everywhere">>;

/** A gateway that reaches no tracker waits so long before it begins an epoch. */
const TRACKERS_FIRST_MS = 2_000;
/**
 * A gateway begins an epoch that has been due for so long, also while a tracker is connected: all
 * of them may be frozen, blind, or refused by the database.
 */
const OVERDUE_MS = 4_000;
/** Work that arrives between two epochs waits so long for the next before it is refused. */
const NEXT_EPOCH_MS = 200;
const WAKE_PAUSE_MS = 50;
/** A clock reading of the server that is older says less than the gateway's own clock. */
const SERVER_TIME_VALID_MS = 10 * 60_000;
/**
 * By an older one no id is refused: the server's clock was wrong then, perhaps, and is right by
 * now.
 */
const ID_TIME_VALID_MS = 10_000;

type Waiter = (primaryEpoch: PrimaryEpoch | null) => void;

export class Primary {
  readonly hold: WriteHold;
  readonly #clock: Deps["clock"];
  readonly #log: Log;
  readonly #store: Store;
  readonly #options: PrimaryOptions;
  readonly #watcher: AuthorityWatcher;
  readonly #waiters = new Set<Waiter>();
  #authority: Authority = { kind: "none", reason: "no node has been probed yet" };
  #primaryEpoch: PrimaryEpoch | null = null;
  /**
   * The last epoch that transactions may have run in; its connections are dropped when another
   * begins.
   */
  #lastEpoch: PrimaryEpoch | null = null;
  #serverTime: { readonly serverMs: number; readonly atMs: number } | null = null;
  /** When each node's newest report was asked for. */
  readonly #askedAtMs = new Map<string, number>();
  #beginning = false;
  #wokenAtMs = Number.NEGATIVE_INFINITY;
  #begunAtMs = Number.NEGATIVE_INFINITY;
  /** The node that has to be prepared or needs an epoch, and since when. */
  #due: { readonly node: string; readonly sinceMs: number } | null = null;
  /** A tracker has reported its epochs to this process. */
  #hasLearned = false;
  #stopped = false;

  constructor(deps: Deps, options: PrimaryOptions) {
    this.#clock = deps.clock;
    this.hold = new WriteHold(deps.clock);
    this.#log = deps.log;
    this.#store = deps.store;
    this.#options = options;
    this.#watcher = new AuthorityWatcher({
      store: deps.store,
      clock: deps.clock,
      intervalMs: options.probeIntervalMs,
      known: null,
      ...(options.rule === undefined ? {} : { rule: options.rule }),
      onReport: (report, askedAtMs) => {
        this.#askedAtMs.set(report.node, askedAtMs);
        this.#noteTime(report, askedAtMs);
        this.hold.note(report, askedAtMs);
        options.onReport?.(report);
      },
      onAuthority: (authority) => {
        this.#follow(authority);
      },
    });
  }

  start(): void {
    this.#watcher.start();
  }

  stop(): void {
    this.#stopped = true;
    this.#watcher.stop();
    for (const settle of [...this.#waiters]) settle(null);
  }

  /**
   * Asked whenever a request starts: a lease ends without an event, also for a process that was
   * just held up.
   */
  get current(): PrimaryEpoch | null {
    this.#watcher.authorityNow();
    return this.#primaryEpoch;
  }

  /** What the nodes that can be asked said last. */
  get reports(): readonly NodeReport[] {
    return [...this.#watcher.reports.values()];
  }

  get authority(): Authority {
    return this.#authority;
  }

  /** The current epoch, waiting a moment for one; otherwise throws the error for the client. */
  async await(limitMs: number): Promise<PrimaryEpoch> {
    const { current } = this;
    if (current !== null) return current;
    const primaryEpoch = this.#stopped ? null : await this.#nextEpoch(limitMs);
    if (primaryEpoch === null) throw this.refusal();
    return primaryEpoch;
  }

  /**
   * The epoch for work that begins now, and can wait for so long at least. Errors: also while the
   * deployment keys of this gateway are not those of the others.
   */
  async admit(leftMs = 0): Promise<PrimaryEpoch> {
    const primaryEpoch = this.current ?? (await this.await(Math.max(NEXT_EPOCH_MS, leftMs)));
    const detail = this.#options.scheduleFault();
    if (detail === null) return primaryEpoch;
    throw new HighwaterError("primary_unavailable", { detail, retryAfterMs: RETRY_MS.primary });
  }

  /**
   * As `admit`, for work that may write. Errors: also `primary_unavailable` while what a failover
   * has lost is brought back, which may take longer than a request waits here.
   */
  async admitWrite(): Promise<PrimaryEpoch> {
    const untilMs = this.#clock.monotonicMs() + NEXT_EPOCH_MS;
    for (;;) {
      const primaryEpoch = await this.admit();
      const heldMs = this.hold.leftMs(primaryEpoch.epoch);
      if (heldMs === 0) return primaryEpoch;
      const leftMs = untilMs - this.#clock.monotonicMs();
      if (leftMs <= 0)
        throw new HighwaterError("primary_unavailable", {
          detail: `Writes wait until lost transactions are brought back, at most ${String(Math.ceil(heldMs))} ms more.`,
          retryAfterMs: Math.min(RETRY_MS.soon, Math.ceil(heldMs)),
        });
      await this.hold.change(Math.min(leftMs, heldMs));
    }
  }

  #nextEpoch(limitMs: number): Promise<PrimaryEpoch | null> {
    return new Promise((resolve) => {
      const settle = (primaryEpoch: PrimaryEpoch | null): void => {
        cancel();
        this.#waiters.delete(settle);
        resolve(primaryEpoch);
      };
      const cancel = this.#clock.after(limitMs, () => {
        settle(null);
      });
      this.#waiters.add(settle);
    });
  }

  /** Why no transaction can run now, as an error of the catalogue. */
  refusal(): HighwaterError {
    const code = this.#authority.kind === "split" ? "split_brain" : "primary_unavailable";
    return new HighwaterError(code, { detail: this.reason(), retryAfterMs: RETRY_MS.primary });
  }

  reason(): string {
    switch (this.#authority.kind) {
      case "primary":
        return `${this.#authority.node} is the primary`;
      case "mint":
        return `the epoch of ${this.#authority.node} has not begun yet`;
      case "prepare":
        return `${this.#authority.node} is not prepared yet`;
      case "none":
      case "split":
        return this.#authority.reason;
    }
  }

  /**
   * Something has just failed: ask all nodes now. A server that dies fails a thousand requests;
   * that is one reason to ask.
   */
  wake(): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#wokenAtMs < WAKE_PAUSE_MS) return;
    this.#wokenAtMs = nowMs;
    this.#watcher.wake();
  }

  /** A tracker's epochs: the current one's ancestry, oldest first, itself last. */
  learn(ancestry: readonly EpochRecord[]): void {
    const current = ancestry.at(-1)?.id as EpochId | undefined;
    this.#hasLearned ||= current !== undefined;
    this.#watcher.learn(ancestry, current ?? null);
    if (current !== undefined && current !== this.#primaryEpoch?.epoch) this.wake();
  }

  /** Every epoch that the nodes or the trackers have reported. */
  get epochs(): EpochGraph {
    return this.#watcher.graph;
  }

  /** What is known of an epoch. */
  recordOf(epoch: EpochId): EpochRecord | undefined {
    return this.#watcher.graph.get(epoch);
  }

  /** The epoch before it; null for the first, and for one without a known record. */
  parentOf(epoch: EpochId): EpochId | null {
    return (this.recordOf(epoch)?.previous ?? null) as EpochId | null;
  }

  /** True when `epoch` is, as far as is known, an ancestor of `other`. */
  isAncestor(epoch: string, other: string): boolean {
    if (epoch === other) return false;
    return this.#watcher.graph.ancestry(other as EpochId).some((record) => record.id === epoch);
  }

  /** The primary's clock, or this host's while the primary's is not known. */
  serverNowMs(): number {
    return this.#serverMs(SERVER_TIME_VALID_MS) ?? this.#clock.wallMs();
  }

  /** The primary's clock; null while it is not known, or was not reported lately. */
  knownServerMs(): number | null {
    return this.#serverMs(ID_TIME_VALID_MS);
  }

  #serverMs(validMs: number): number | null {
    const nowMs = this.#clock.monotonicMs();
    const latest = this.#serverTime;
    if (latest === null || nowMs - latest.atMs > validMs) return null;
    return latest.serverMs + (nowMs - latest.atMs);
  }

  #noteTime(report: NodeReport, askedAtMs: number): void {
    const { authority } = this.#watcher;
    if (authority.kind === "primary" ? report.node !== authority.node : report.role !== "primary") return;
    // Somewhere between question and answer; the middle is off by half of that at most.
    this.#serverTime = {
      serverMs: report.serverTimeMs,
      atMs: (askedAtMs + this.#clock.monotonicMs()) / 2,
    };
  }

  #follow(authority: Authority): void {
    const before = this.#authority;
    this.#authority = authority;
    this.#primaryEpoch = null;
    if (authority.kind !== "mint" && authority.kind !== "prepare") this.#due = null;
    if (authority.kind === "primary") this.#enter({ node: authority.node, epoch: authority.epoch });
    else if (authority.kind === "mint" || authority.kind === "prepare") {
      if (this.#due?.node !== authority.node)
        this.#due = { node: authority.node, sinceMs: this.#clock.monotonicMs() };
      // The last epoch is over: a request that still waits for one of its connections need not wait
      // for a dead host.
      if (this.#lastEpoch !== null && before.kind === "primary") this.#store.forget(this.#lastEpoch.node);
      void this.#begin(authority);
    }
    if (JSON.stringify(before) === JSON.stringify(authority)) return;
    if (authority.kind === "primary") this.#log.info("authority_changed", { ...authority });
    else if (authority.kind === "split")
      this.#log.error("split_brain", { nodes: authority.nodes, reason: this.reason() });
    else this.#log.warn("no_primary", { kind: authority.kind, reason: this.reason() });
  }

  #enter(primaryEpoch: PrimaryEpoch): void {
    const ended = this.#lastEpoch;
    if (ended?.epoch !== primaryEpoch.epoch) {
      // Before anybody can see the new epoch: no connection that was opened under another role or
      // epoch may write in it.
      if (ended !== null) this.#store.forget(ended.node);
      if (ended?.node !== primaryEpoch.node) this.#store.forget(primaryEpoch.node);
    }
    this.#primaryEpoch = primaryEpoch;
    this.#lastEpoch = primaryEpoch;
    if (ended?.epoch !== primaryEpoch.epoch) this.#options.onEpoch(primaryEpoch, ended);
    for (const settle of [...this.#waiters]) settle(primaryEpoch);
  }

  /** Trackers begin epochs. Without any that does, this gateway begins the next one itself. */
  #isLeftToTrackers(authority: Extract<Authority, { kind: "mint" | "prepare" }>): boolean {
    // It cannot recognize an older copy of the data, as trackers do by their ledgers.
    const isFirst = this.#watcher.graph.maxSeq === 0;
    const isCommanded = authority.kind === "mint" && authority.command !== null;
    const mayJudge = !this.#options.hasTrackers || this.#hasLearned || isFirst || isCommanded;
    if (authority.kind === "mint" && !mayJudge) return true;
    const dueForMs = this.#due === null ? 0 : this.#clock.monotonicMs() - this.#due.sinceMs;
    return this.#options.trackersSilentMs() < TRACKERS_FIRST_MS && dueForMs < OVERDUE_MS;
  }

  /** The watcher asks again until it is done. */
  async #begin(authority: Extract<Authority, { kind: "mint" | "prepare" }>): Promise<void> {
    if (this.#beginning || this.#isLeftToTrackers(authority)) return;
    // What was asked for before the last step ended does not show it yet: a command would be
    // carried out twice.
    if ((this.#askedAtMs.get(authority.node) ?? 0) <= this.#begunAtMs) return;
    this.#beginning = true;
    try {
      if (authority.kind === "prepare") await this.#store.prepare(authority.node);
      else {
        const { node, command, supersedes } = authority;
        const minSeq = this.#watcher.graph.maxSeq + 1;
        const known = this.#options.knownMarks();
        await this.#store.mint(node, {
          minSeq,
          command,
          supersedes,
          streamed: null,
          ...known,
          sequenceReserve: this.#options.sequenceReserve,
          replayHoldMs: this.#options.replayHoldMs,
          onReserved: (reserved) => {
            logReserved(this.#log, node, reserved);
          },
        });
      }
      this.#begunAtMs = this.#clock.monotonicMs();
      this.wake();
    } catch (cause) {
      this.#log.warn("epoch_not_begun", { step: authority.kind, node: authority.node, cause });
    } finally {
      this.#beginning = false;
    }
  }
}
