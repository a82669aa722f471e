// Feeds the core with events and carries out its effects. It is the only owner of the core's state,
// and judges nothing.
import {
  type Authority,
  AuthorityWatcher,
  type Candidates,
  type LeaseTerm,
  makeAuthorityRule,
  type NodeReport,
} from "@highwater/authority";
import { type EpochId, type Offset, ownedName } from "@highwater/protocol";
import { type Clock, sleep } from "@highwater/runtime";
import { type DeploymentKeys, type Log, logReserved } from "@highwater/service";
import { type Store } from "@highwater/store";
import { type Config, exposureLevelOf } from "../config.ts";
import {
  asksForCandidates,
  type CoreConfig,
  currentEpoch,
  type Effect,
  heldCount,
  initialState,
  marksText,
  restore,
  restoreWaiting,
  type Tracker,
  type TrackerEvent,
  type TrackerState,
  wantsPositions,
} from "../core/index.ts";
import { type LedgerFile } from "./ledger-file.ts";
import { Pace } from "./pace.ts";
import { type Reports, type Subscriber } from "./reports.ts";
import { saveEffect, saveMarks } from "./saving.ts";
import { SharedMarks } from "./shared-marks.ts";
import { Sight } from "./sight.ts";
import { Settlement } from "./settlement.ts";
import { Survivors } from "./survivors.ts";

export interface LoopDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly ledger: LedgerFile;
  readonly log: Log;
  readonly deploymentKeys: DeploymentKeys;
  /** Why it must not work with its keys; null while they are those of the other services. */
  readonly scheduleFault: () => string | null;
  /** Ends the process. */
  readonly onCoreFailure: (cause: Error) => void;
}

/** A constant reason: the default one would be made with a stack trace each time. */
const WOKEN = "woken";
const TICK_MS = 100;
const IDLE_TICK_MS = 1_000;
const RETRY_MS = 100;
/** How often an epoch's marks are saved. The last ones are saved when it ends. */
const SAVE_MARKS_MS = 100;

export class TrackerLoop {
  readonly #config: Config;
  readonly #pace: Pace;
  readonly #deps: LoopDeps;
  #subscribers: readonly Subscriber[] = [];
  readonly #stop = new AbortController();
  #state: Tracker;
  #watcher: AuthorityWatcher | null = null;
  #wake = new AbortController();
  /** True while the poll is in a long pause, which a waiting client may end. */
  #rests = false;
  /** Ends the polls of the last epoch: one may hang on a node that has just been cut off. */
  #polling = new AbortController();
  /**
   * Nodes on which an epoch is just being begun. A call to a node that was cut off must not delay
   * the others.
   */
  readonly #acting = new Set<string>();
  readonly #shared: SharedMarks;
  readonly #survivors: Survivors;
  readonly #settlement: Settlement;
  readonly sight: Sight;
  readonly #newcomers = new Map<string, string>();
  #marksSavedAtMs = 0;
  #hasUnsavedMarks = false;
  #interested = 0;
  #changed = Promise.withResolvers<undefined>();

  constructor(config: Config, deps: LoopDeps) {
    this.#config = config;
    this.#pace = new Pace(config.busyPollMs);
    this.#deps = deps;
    const { store, clock, log } = deps;
    this.#shared = new SharedMarks({ store, clock, log, onShared: () => this.#watcher?.wake() });
    this.#settlement = new Settlement(store);
    this.#survivors = new Survivors({
      store,
      clock,
      onRead: (word) => {
        this.dispatch({ kind: "witnesses_read", nowMs: clock.monotonicMs(), ...word });
      },
    });
    this.sight = new Sight(clock, (isBlind) => {
      const { unansweredMs } = this.sight;
      if (isBlind) log.warn("primary_out_of_sight", { unansweredMs });
      else log.info("primary_in_sight", { unansweredMs });
      this.#report("onBlind", isBlind, this.#state);
      this.#publish();
    });
    this.#state = initialState(coreConfig(config, deps.store), deps.clock.monotonicMs());
  }

  get state(): TrackerState {
    return this.#state;
  }

  /** Resolves when something was published since the call. */
  get changed(): Promise<undefined> {
    return this.#changed.promise;
  }

  async start(): Promise<void> {
    const { ledger, clock, store, log } = this.#deps;
    const saved = await ledger.load();
    const state = restore(coreConfig(this.#config, this.#deps.store), clock.monotonicMs(), saved);
    await ledger.loadWaiting((part) => {
      restoreWaiting(state, part);
    });
    ledger.saveLevels(state.levelBits);
    this.#state = state;
    log.info("ledger_loaded", { held: heldCount(state), epochs: saved.epochs.length });
    this.#watcher = new AuthorityWatcher({
      store,
      clock,
      intervalMs: this.#config.probeIntervalMs,
      calmIntervalMs: this.#config.calmProbeIntervalMs,
      rule: makeAuthorityRule(this.#config.authority, clock),
      known: saved.currentEpoch,
      onReport: (report, askedAtMs) => {
        this.#takeReport(report, askedAtMs);
      },
      onUnreachable: (node) => {
        this.dispatch({ kind: "node_unreachable", nowMs: clock.monotonicMs(), node });
      },
      onAuthority: (authority) => {
        this.#followAuthority(authority);
      },
    });
    this.#watcher.graph.add(saved.epochs);
    this.sight.asked();
    this.#watcher.start();
    void this.#tick();
  }

  stop(): void {
    // Without this, the newest promises would be forgotten until the primary shows its positions
    // again. If it never does, a broken promise would be reported only as a loss.
    saveMarks(this.#deps.ledger, this.#state, this.#currentEpoch());
    this.#stop.abort();
    this.#polling.abort();
    this.#wake.abort();
    this.sight.stop();
    this.#watcher?.stop();
  }

  dispatch(event: TrackerEvent): void {
    const effects = this.#apply(event);
    let published = false;
    for (const effect of effects) published = this.#carryOut(effect) || published;
    if (published) this.#publish();
    if (event.kind === "authority_unsettled") this.sight.asked();
    if (event.kind === "announced" || event.kind === "token_presented") this.#wakePoll();
  }

  /** Adds subscribers. Each report goes to all of them, in this order. */
  subscribe(...subscribers: Subscriber[]): void {
    this.#subscribers = subscribers;
  }

  #report<Name extends keyof Reports>(name: Name, ...args: Parameters<Reports[Name]>): void {
    for (const subscriber of this.#subscribers)
      (subscriber[name] as ((...all: typeof args) => void) | undefined)?.call(subscriber, ...args);
  }

  /** If the core contradicts itself, the process ends before any effect of the step leaves it. */
  #apply(event: TrackerEvent): readonly Effect[] {
    try {
      return this.#state.apply(event);
    } catch (cause) {
      this.#deps.onCoreFailure(cause as Error);
      throw cause;
    }
  }

  #publish(): void {
    const changed = this.#changed;
    this.#changed = Promise.withResolvers();
    changed.resolve(undefined);
  }

  /**
   * Polls positions closely while the work waits for a verdict, even if the ledger gives no reason.
   */
  async whileInterested<T>(work: () => Promise<T>): Promise<T> {
    this.#interested++;
    this.#wakePoll();
    try {
      return await work();
    } finally {
      this.#interested--;
    }
  }

  #takeReport(report: NodeReport, askedAtMs: number): void {
    this.dispatch({
      kind: "node_reported",
      nowMs: this.#deps.clock.monotonicMs(),
      askedAtMs,
      node: report.node,
      role: report.role,
      incarnation: report.incarnation,
      epochs: report.epochs,
      unfit: report.unfit !== null,
      // A replica reports its position without the primary, so a lease cannot confirm that its
      // source still was the primary.
      upstream: this.#config.authority.kind === "lease" ? null : report.upstream,
      isFed: report.isFed,
    });
    const { standing } = this.#state.topology;
    if (standing.kind === "following" && standing.node === report.node && report.current === standing.epoch)
      this.#shared.share(report, this.#state);
    this.#survivors.look(report, this.#state);
  }

  #followAuthority(authority: Authority): void {
    const { clock, log } = this.#deps;
    const nowMs = clock.monotonicMs();
    switch (authority.kind) {
      case "primary":
        log.info("authority_changed", { ...authority });
        saveMarks(this.#deps.ledger, this.#state, this.#currentEpoch());
        this.#deps.store.forget(authority.node);
        this.dispatch({ kind: "epoch_followed", nowMs, epoch: authority.epoch, node: authority.node });
        this.#watcher?.wake();
        this.#polling.abort();
        this.#polling = new AbortController();
        void this.#pollPositions(this.#polling.signal);
        return;
      case "mint":
      case "prepare":
        this.dispatch({
          kind: "authority_unsettled",
          nowMs,
          reason: "a new epoch is about to begin",
          split: false,
        });
        void this.#act(authority);
        return;
      case "split":
        log.error("split_brain", { nodes: authority.nodes, reason: authority.reason });
        this.dispatch({ kind: "authority_unsettled", nowMs, reason: authority.reason, split: true });
        return;
      case "none":
        log.warn("no_primary", { reason: authority.reason });
        this.dispatch({ kind: "authority_unsettled", nowMs, reason: authority.reason, split: false });
    }
  }

  /** Creates the schema in a database that has none yet, or begins the epoch that has no row. */
  async #act(authority: Extract<Authority, { kind: "mint" | "prepare" }>): Promise<void> {
    if (this.#acting.has(authority.node)) return;
    this.#acting.add(authority.node);
    const { store, clock, log } = this.#deps;
    try {
      if (authority.kind === "prepare") {
        await store.prepare(authority.node);
        log.info("store_prepared", { node: authority.node });
      } else {
        const record = await store.mint(authority.node, {
          minSeq: (this.#watcher?.graph.maxSeq ?? 0) + 1,
          supersedes: authority.supersedes,
          command: authority.command,
          streamed: this.#streamed(authority.node),
          finalMarks: this.#finalMarks(),
          everywhere: this.#everywhere(),
          sequenceReserve: this.#config.sequenceReserve,
          replayHoldMs: this.#config.replayHoldMs,
          onReserved: (reserved) => {
            logReserved(log, authority.node, reserved);
          },
        });
        log.info("epoch_begun", {
          epoch: record.id,
          seq: record.seq,
          cause: record.cause,
          node: record.node,
        });
      }
    } catch (cause) {
      log.warn("epoch_not_begun", { step: authority.kind, node: authority.node, cause: String(cause) });
      await sleep(clock, RETRY_MS, this.#stop.signal);
    } finally {
      this.#acting.delete(authority.node);
      this.#watcher?.wake();
    }
  }

  #streamed(node: string): { epoch: EpochId; offset: Offset; incarnation: string } | null {
    const epoch = this.#currentEpoch();
    const known = this.#state.topology.nodes.get(node);
    if (epoch === null || known?.streamed == null || known.incarnation === null) return null;
    return { epoch, offset: known.streamed, incarnation: known.incarnation };
  }

  /**
   * Returns the marks of every epoch: which of them the next epoch continues is decided by its
   * node's history.
   */
  #finalMarks(): Record<string, Record<string, string>> {
    const offsets: Record<string, Record<string, string>> = {};
    for (const epoch of this.#state.topology.marks.keys()) offsets[epoch] = marksText(this.#state, epoch);
    return offsets;
  }

  /**
   * Returns the offset up to which all levels have each epoch. Transactions below it have left the
   * ledger.
   */
  #everywhere(): Record<string, string> {
    const levels = this.#state.config.levels.map(({ name }) => name);
    const offsets: Record<string, string> = {};
    for (const [epoch, marks] of this.#state.topology.marks) {
      const reached = levels.map((level) => marks.get(level) ?? 0n);
      offsets[epoch] = String(reached.reduce((least, mark) => (mark < least ? mark : least)));
    }
    return offsets;
  }

  /** The current epoch, or the last one while there is none. */
  #currentEpoch(): EpochId | null {
    return currentEpoch(this.#state);
  }

  /** Carries out an effect. Returns true when it is visible outside the tracker. */
  #carryOut(effect: Effect): boolean {
    const { ledger } = this.#deps;
    switch (effect.kind) {
      case "publish_marks":
        this.#report("onMarks", this.#state);
        return true;
      case "publish_epochs": {
        const epoch = this.#currentEpoch();
        if (epoch !== null) ledger.saveCurrentEpoch(epoch);
        this.#report("onEpochs", this.#state);
        return true;
      }
      case "publish_verdict":
        this.#report("onVerdict", effect.published);
        return true;
      case "refuse_peer_verdict":
        this.#report("onPeerVerdictRefused", effect.published);
        return false;
      case "publish_durable":
        this.#report("onDurable", effect.level, effect.items);
        return false;
      case "publish_lag":
        this.#report("onLag", effect.level, effect.count, effect.lagsMs);
        return false;
      case "publish_delayed":
        this.#report("onDelayed", effect.published);
        return false;
      case "publish_stall": {
        const { level, epoch, offset, pending, isStalled } = effect;
        const stall = { level, epoch, offset: offset.toString(), pending };
        this.#report("onStall", stall, isStalled, this.#state);
        return false;
      }
      case "publish_broken_promise": {
        const { level, epoch, from, to, transactions } = effect;
        const range = { from: from.toString(), to: to.toString() };
        this.#report("onBrokenPromise", { level, epoch, ...range, transactions });
        return false;
      }
      case "publish_unlisted": {
        const { epoch, currentEpoch, owner, transactions, from, to, firstId, lastId } = effect;
        const range = { from: from.toString(), to: to.toString(), ids: { first: firstId, last: lastId } };
        this.#report("onUnlisted", { epoch, currentEpoch, count: transactions, ...range }, owner);
        return false;
      }
      case "help_flush":
        void this.#helpFlush(effect);
        return false;
      case "disown_epoch":
        this.#report("onPrimaryWentBack");
        void this.#disownEpoch(effect);
        return true;
      case "read_receipts":
        void this.#readReceipts(effect);
        return false;
      case "save_marks":
        if (effect.epoch !== this.#currentEpoch()) {
          saveEffect(ledger, this.#state, effect);
          return false;
        }
        // Marks that let entries leave the ledger are saved at once anyway.
        this.#hasUnsavedMarks = true;
        if (this.#deps.clock.monotonicMs() - this.#marksSavedAtMs >= SAVE_MARKS_MS) this.#saveMarks();
        return false;
      default:
        saveEffect(ledger, this.#state, effect);
        // Clients learn of a loss before its event can be recorded.
        return effect.kind === "save" && effect.entry.state.kind === "lost";
    }
  }

  async #helpFlush(effect: Extract<Effect, { kind: "help_flush" }>): Promise<void> {
    const marks = marksText(this.#state, effect.epoch);
    await this.#deps.store.helpFlush(effect.node, effect.epoch, marks).catch(() => undefined);
    this.dispatch({ kind: "flush_helped", nowMs: this.#deps.clock.monotonicMs(), epoch: effect.epoch });
  }

  /** Repeats until it succeeds: until then, transactions go on to commit in the epoch. */
  async #disownEpoch({ node, epoch, was, now }: Extract<Effect, { kind: "disown_epoch" }>): Promise<void> {
    const { store, clock, log } = this.#deps;
    log.error("primary_went_back", { node, epoch, was: was.toString(), now: now.toString() });
    while (!this.#stop.signal.aborted) {
      try {
        await store.disownEpoch(node, epoch);
        this.#watcher?.wake();
        return;
      } catch (cause) {
        log.warn("epoch_not_disowned", { node, epoch, cause: String(cause) });
        await sleep(clock, RETRY_MS, this.#stop.signal);
      }
    }
  }

  async #readReceipts(effect: Extract<Effect, { kind: "read_receipts" }>): Promise<void> {
    const { clock, log, deploymentKeys, scheduleFault } = this.#deps;
    const { node, of, epoch, tombstone } = effect;
    const names = of.map(ownedName);
    try {
      // Under the tag of another key no receipt is found, and a tombstone would prove a loss that
      // is none.
      const fault = scheduleFault();
      if (fault !== null) throw new Error(fault);
      const keys = of.map(({ id, owner }) => ({ id, tag: deploymentKeys.receiptTag(owner, id) }));
      const found = await this.#settlement.settle(node, { epoch, keys, tombstone });
      this.dispatch({
        kind: "receipts_read",
        nowMs: clock.monotonicMs(),
        request: effect.request,
        epoch: found.epoch,
        asOf: found.asOf,
        receipts: new Map(found.receipts.map((receipt, at) => [names[at] ?? "", receipt])),
      });
    } catch (cause) {
      log.warn("receipts_not_read", {
        node: effect.node,
        ids: of.length,
        cause: String(cause),
      });
      this.#watcher?.wake();
      await sleep(clock, RETRY_MS, this.#stop.signal);
      // The core asks again at once, and a closed store refuses at once: neither would ever pause.
      if (this.#stop.signal.aborted) return;
      this.dispatch({ kind: "receipts_unread", nowMs: clock.monotonicMs(), request: effect.request });
    }
  }

  /** Polls positions: at short intervals while something waits for them, else at long ones. */
  async #pollPositions(ended: AbortSignal): Promise<void> {
    const { store, clock } = this.#deps;
    while (!ended.aborted) {
      const { standing } = this.#state.topology;
      let pauseMs = this.#config.idlePollMs;
      let isAwaited = false;
      if (standing.kind === "following") {
        const askedAtMs = clock.monotonicMs();
        const term = this.#watcher?.term ?? null;
        this.sight.asked();
        try {
          const report = await store.positions(standing.node, this.#state.ledger.highestPending);
          if (ended.aborted) return;
          const isCurrent = report !== null && report.epoch === standing.epoch;
          const confirmed = isCurrent ? await this.#confirm(standing.node, term) : null;
          if (ended.aborted) return;
          if (!isCurrent || confirmed === null) {
            this.#watcher?.wake();
          } else {
            const nowMs = clock.monotonicMs();
            this.sight.answered();
            this.#pace.looked(report, nowMs);
            const event = { kind: "positions_reported", nowMs, askedAtMs } as const;
            this.dispatch({ ...event, ...report, ...confirmed });
            this.#report("onPositions", nowMs, report, this.#state);
            this.#askNewcomers();
          }
          isAwaited = this.#interested > 0 || wantsPositions(this.#state);
          if (isAwaited) pauseMs = this.#pace.pauseMs(clock.monotonicMs());
        } catch {
          this.#watcher?.wake();
        }
      }
      this.#rests = !isAwaited;
      if (pauseMs > 0) await sleep(clock, pauseMs, this.#wake.signal);
      this.#rests = false;
    }
  }

  /**
   * Returns null if another node could have been chosen meanwhile. Asks whom the manager may
   * promote only if a level depends on it.
   */
  async #confirm(node: string, term: LeaseTerm | null): Promise<{ candidates?: Candidates } | null> {
    if (this.#watcher === null) return null;
    if (!asksForCandidates(this.#state)) return (await this.#watcher.confirm(node, term)) ? {} : null;
    const candidates = await this.#watcher.candidates(node, term);
    return candidates === null ? null : { candidates };
  }

  /**
   * A stream that has just appeared counts only after its node was asked: do not wait for the next
   * round.
   */
  #askNewcomers(): void {
    let isNew = false;
    for (const { site, feed, confirmedFeed } of this.#state.topology.nodes.values()) {
      const session = feed === null || feed.session === confirmedFeed ? null : feed.session;
      if (session !== null && this.#newcomers.get(site.id) !== session) isNew = true;
      if (session === null) this.#newcomers.delete(site.id);
      else this.#newcomers.set(site.id, session);
    }
    if (isNew) this.#watcher?.wake();
  }

  #wakePoll(): void {
    // A running poll may have asked before this call. The next one follows at the busy pace anyway.
    if (!this.#rests) return;
    this.#rests = false;
    this.#wake.abort(WOKEN);
    if (!this.#stop.signal.aborted) this.#wake = new AbortController();
  }

  #saveMarks(): void {
    this.#hasUnsavedMarks = false;
    this.#marksSavedAtMs = this.#deps.clock.monotonicMs();
    saveMarks(this.#deps.ledger, this.#state, this.#currentEpoch());
  }

  async #tick(): Promise<void> {
    const { clock, ledger, log } = this.#deps;
    while (!this.#stop.signal.aborted) {
      this.dispatch({ kind: "ticked", nowMs: clock.monotonicMs() });
      // Also save the last mark before a calm period: else a client that got a verdict from it
      // could get another one after a kill.
      if (this.#hasUnsavedMarks) this.#saveMarks();
      ledger.flush().catch((cause: unknown) => {
        log.error("ledger_not_written", { cause: String(cause) });
      });
      const isIdle = heldCount(this.#state) === 0 && !this.#hasUnsavedMarks;
      await sleep(clock, isIdle ? IDLE_TICK_MS : TICK_MS, this.#stop.signal);
    }
  }
}

function coreConfig(
  config: Config,
  { countsBytes, commitsDurably }: Pick<Store, "countsBytes" | "commitsDurably">,
): CoreConfig {
  return {
    nodes: config.topology.nodes.map(({ id, region, zone }) => ({ id, region, zone })),
    levels: Object.entries(config.topology.levels).map(([name, rule]) => ({ name, rule })),
    exposureLevel: exposureLevelOf(config, config.topology.levels),
    countsBytes,
    commitsDurably,
    stallAfterMs: config.stallAfterMs,
    maxKept: config.maxKept,
    aliveMs: config.aliveMs,
    publishPatienceMs: config.publishPatienceMs,
    intentPatienceMs: config.intentPatienceMs,
    intentGraceMs: config.intentGraceMs,
    keepDurableMs: config.keepDurableMs,
    keepVerdictMs: config.retentionMs,
    batch: 1_000,
    tokensPerOwner: config.tokensPerOwner,
  };
}
