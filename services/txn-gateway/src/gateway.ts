// The gateway without HTTP: makes its parts, joins them, starts and stops them in order.
import { makeAuthorityRule } from "@highwater/authority";
import { type EpochId, type Topology } from "@highwater/protocol";
import { type Buckets, sleep } from "@highwater/runtime";
import {
  Admission,
  AnonymousAuthenticator,
  type Authenticator,
  Callers,
  GATEWAY,
  hostOf,
  InternalAuthenticator,
  makeAuthenticator,
  type DeploymentKeys,
  makeContentsKeys,
  makeDeploymentKeys,
  ScheduleCheck,
  registerProcess,
} from "@highwater/service";
import { type Store } from "@highwater/store";
import { type Pace } from "./answers/answer-stream.ts";
import { ResultMemory } from "./answers/result-memory.ts";
import { ActiveTransactions } from "./attempts/active.ts";
import { Attempts } from "./attempts/attempts.ts";
import { Reads } from "./attempts/reads.ts";
import { Transactions } from "./attempts/transactions.ts";
import { type Config } from "./config.ts";
import { type Deps } from "./deps.ts";
import { Keeper } from "./contents/keeper.ts";
import { Exposure, type LimitSample } from "./exposure/exposure.ts";
import { registerExposureGauges } from "./exposure/gauges.ts";
import { LimitReports } from "./exposure/limit-reports.ts";
import { Interactive } from "./interactive/interactive.ts";
import { Metrics } from "./metrics.ts";
import { Durability } from "./outcomes/durability.ts";
import { Finality } from "./outcomes/finality.ts";
import { Inspection } from "./outcomes/inspection.ts";
import { LookUps } from "./outcomes/look-ups.ts";
import { MarkBoard } from "./outcomes/marks.ts";
import { Outcomes } from "./outcomes/outcomes.ts";
import { Refusals } from "./outcomes/refusals.ts";
import { Settler } from "./outcomes/settler.ts";
import { FlushHelp } from "./primary/flush.ts";
import { registerPoolGauges } from "./primary/pool-gauges.ts";
import { Primary } from "./primary/primary.ts";
import { endCarriedTraces } from "./tracing/lost-traces.ts";
import { TransactionTrace } from "./tracing/transaction-trace.ts";
import { Tickets } from "./tickets/tickets.ts";
import { Announcer } from "./trackers/announcer.ts";
import { Losses } from "./trackers/losses.ts";
import { MarkInterest } from "./trackers/interest.ts";
import { TrackerOrder } from "./trackers/order.ts";
import { Replay } from "./replay/replay.ts";
import { TrackerStream } from "./trackers/stream.ts";
import { Verdicts } from "./trackers/verdicts.ts";
import { type RequestRules } from "./txn/request.ts";
import { Tokens } from "./txn/tokens.ts";
import { WireAttempts } from "./wire/shell/attempts.ts";
import { Positions } from "./wire/positions.ts";
import { Replicas } from "./wire/replicas.ts";
import { Wire, type WireContext } from "./wire/wire.ts";

/**
 * What a tracker knows of the epochs must come before a first look at the nodes: a zombie may be
 * all that answers.
 */
const LEARN_FIRST_MS = 2_000;
const FLUSH_ANNOUNCEMENTS_MS = 2_000;
const OPEN_POLL_MS = 20;

export class Gateway {
  readonly metrics = new Metrics();
  readonly primary: Primary;
  readonly marks: MarkBoard;
  readonly transactions: Transactions;
  readonly interactive: Interactive;
  readonly tickets: Tickets;
  readonly replay: Replay;
  readonly inspection: Inspection;
  readonly callers: Callers;
  /** Those of calls between services. */
  readonly services: Callers;
  /** The listener for clients of PostgreSQL; null where there is none. */
  readonly wire: Wire | null;
  /** When its answers may go out. */
  readonly positions: Positions;
  /** How long the reader of a large answer may pause. */
  readonly pace: Pace;
  readonly #memory: ResultMemory;
  readonly #deps: Deps;
  readonly #announcer: Announcer;
  readonly #exposure: Exposure;
  readonly #flush: FlushHelp;
  readonly #interest: MarkInterest;
  readonly #verdicts: Verdicts;
  readonly #settler: Settler;
  readonly #stream: TrackerStream;
  readonly #active: ActiveTransactions;
  readonly #config: Config;
  readonly #tokens: Tokens;
  readonly #schedule: ScheduleCheck;
  readonly #rules: RequestRules & ReturnType<typeof levelsOf>;
  #contactMs: number;
  #watching = false;
  #stopping = false;

  readonly #onContact = (): void => {
    this.#contactMs = this.#deps.clock.monotonicMs();
  };

  constructor(config: Config, deps: Deps) {
    this.#deps = deps;
    this.#config = config;
    const keys = makeDeploymentKeys(config, deps.clock);
    this.#tokens = new Tokens(keys, (epoch) => this.primary.parentOf(epoch));
    this.#schedule = this.#makeSchedule(keys);
    this.#rules = { ...levelsOf(config.topology, deps.store), maxWaitMs: config.maxWaitMs, tokens: keys };
    this.#contactMs = deps.clock.monotonicMs();
    this.#active = new ActiveTransactions(deps.clock);
    this.#memory = new ResultMemory(config.resultMemoryBytes);
    this.pace = { clock: deps.clock, stallMs: config.readTimeoutMs };
    this.marks = this.#makeMarks(config);
    this.#flush = this.#makeFlush();
    this.primary = this.#makePrimary(config);
    this.#interest = new MarkInterest({
      clock: deps.clock,
      transport: deps.transport,
      gateway: config.name,
      region: config.region,
      connected: () => this.#stream.connected,
    });
    this.positions = this.#makePositions();
    this.#announcer = this.#makeAnnouncer(config);
    this.#exposure = this.#makeExposure(config);
    const trackers = new TrackerOrder(deps.clock, config.trackers);
    this.#verdicts = new Verdicts(deps, trackers, this.#onContact);
    const finality = this.#makeFinality(config);
    this.#settler = new Settler(deps, this.primary, finality);
    this.#stream = this.#makeStream(trackers);
    const shared = {
      config,
      deps,
      finality,
      keys,
      primary: this.primary,
      marks: this.marks,
      metrics: this.metrics,
      active: this.#active,
      announcer: this.#announcer,
      flush: this.#flush,
      settler: this.#settler,
      exposure: this.#exposure,
      memory: this.#memory,
      tokens: this.#tokens,
      rules: this.#rules,
      lookUps: new LookUps(deps.store, this.primary),
      verdicts: this.#verdicts,
      durability: new Durability(deps.clock, this.marks, this.#verdicts),
      losses: new Losses(deps, trackers),
    };
    const contentsKeys = makeContentsKeys(config, deps.clock);
    const pipeline = {
      ...shared,
      attempts: new Attempts(shared),
      keeper: new Keeper({ ...shared, contentsKeys }),
      outcomes: new Outcomes(shared),
      refusals: new Refusals(shared),
    };
    this.inspection = new Inspection({ ...shared, clock: deps.clock });
    const reads = new Reads(shared);
    this.transactions = new Transactions({ ...pipeline, reads });
    this.interactive = new Interactive(pipeline);
    this.tickets = new Tickets(pipeline);
    this.replay = new Replay({ ...pipeline, contentsKeys });
    this.callers = this.#makeCallers(config);
    this.services = this.#makeServices(config);
    const replicas = new Replicas({ ...shared, reads, interest: this.#interest });
    this.wire = this.#makeWire(config, { attempts: new WireAttempts(pipeline), replicas });
    this.#registerMetrics();
  }

  #makeMarks(config: Config): MarkBoard {
    return new MarkBoard({
      clock: this.#deps.clock,
      epochs: () => this.primary.epochs,
      currentEpoch: () => this.primary.current?.epoch ?? null,
      onMark: (epoch, level, mark) => {
        if (level === config.exposure.level) this.#exposure.advance(epoch, mark);
      },
    });
  }

  #makeFlush(): FlushHelp {
    return new FlushHelp(this.#deps, {
      marksOf: (epoch) => this.marks.ofEpoch(epoch),
      onFailure: () => {
        this.primary.wake();
      },
      onMet: ({ node, epoch }, offset) => {
        const isFit = this.primary.reports.some((one) => one.node === node && one.unfit === null);
        if (isFit) this.marks.meet({ epoch, offset }, this.#rules.metByCommit);
      },
    });
  }

  #makePositions(): Positions {
    return new Positions({
      deps: this.#deps,
      marks: this.marks,
      flush: this.#flush,
      interest: this.#interest,
      onFailure: () => {
        this.primary.wake();
      },
    });
  }

  #makeAnnouncer(config: Config): Announcer {
    return new Announcer(this.#deps, {
      gateway: config.name,
      region: config.region,
      trackers: config.trackers,
      maxPending: config.maxPendingAnnouncements,
      maxContentsBytes: config.keepPendingBytes,
      onContact: this.#onContact,
      parentOf: (epoch) => this.primary.parentOf(epoch as EpochId),
    });
  }

  #makeWire(config: Config, parts: Pick<WireContext, "attempts" | "replicas">): Wire | null {
    if (config.pgPort === null && config.pgReadPort === null) return null;
    return new Wire({
      config,
      deps: this.#deps,
      primary: this.primary,
      callers: this.callers,
      metrics: this.metrics,
      ...parts,
      rules: this.#rules,
      positions: this.positions,
    });
  }

  #makeStream(trackers: TrackerOrder): TrackerStream {
    return new TrackerStream(this.#deps, {
      trackers,
      onContact: this.#onContact,
      onEpochs: (ancestry) => {
        this.primary.learn(ancestry);
        this.marks.beginEpoch(ancestry);
        this.#watch();
      },
      onMarks: (marks) => {
        this.marks.advance(marks);
      },
      onExposure: (report) => {
        this.#exposure.observe(report);
      },
      onAllFailed: () => {
        this.#watch();
      },
    });
  }

  #makeFinality({ trackers, exposure, topology }: Config): Finality {
    const { marks, primary } = this;
    const { level } = exposure;
    return new Finality({
      marks,
      primary,
      flush: this.#flush,
      level: trackers.length === 0 ? null : level,
      chosenLevel: Object.keys(topology.levels)[0] ?? level,
    });
  }

  #makeSchedule(keys: DeploymentKeys): ScheduleCheck {
    const { store, clock, log } = this.#deps;
    return new ScheduleCheck({ keys, store, clock, log, primary: () => this.primary.current?.node ?? null });
  }

  #makeCallers(config: Config): Callers {
    const authenticator = makeAuthenticator(config.identity, this.#deps, () => this.primary.current);
    return this.#callersBy(config, authenticator);
  }

  #makeServices(config: Config): Callers {
    const secrets = config.internalSecret === null ? [] : [config.internalSecret];
    const others = new AnonymousAuthenticator();
    return this.#callersBy(config, new InternalAuthenticator({ secrets, others }));
  }

  #callersBy(config: Config, authenticator: Authenticator): Callers {
    const { clock } = this.#deps;
    const admission = new Admission({ clock, defaults: config.identity.limits });
    return new Callers({
      authenticator,
      admission,
      clock,
      addressHeader: config.identity.addressHeader,
      onRefused: (code) => {
        this.metrics.refusals.add(code);
      },
    });
  }

  #makePrimary(config: Config): Primary {
    return new Primary(this.#deps, {
      rule: makeAuthorityRule(config.authority, this.#deps.clock),
      probeIntervalMs: config.probeIntervalMs,
      hasTrackers: config.trackers.length > 0,
      sequenceReserve: config.sequenceReserve,
      replayHoldMs: config.replayHoldMs,
      trackersSilentMs: () => this.#trackersSilentMs(),
      knownMarks: () => this.marks.known(this.#rules.levels),
      scheduleFault: () => this.scheduleFault,
      onReport: ({ node, role }) => {
        if (role === "primary") this.wire?.promoted(node);
      },
      onEpoch: (primaryEpoch, ended) => {
        const record = this.primary.recordOf(primaryEpoch.epoch);
        if (record === undefined) throw new Error("the current epoch has no record");
        this.#exposure.begin(record, this.marks.of(primaryEpoch.epoch, config.exposure.level));
        if (this.#deps.tracer !== undefined && ended !== null) this.#endCarriedTraces(config);
        this.marks.beginEpoch(this.primary.epochs.ancestry(primaryEpoch.epoch).reverse());
        this.#schedule.wake();
        void this.replay.automatic.begin(primaryEpoch);
        if (ended === null) return;
        this.interactive.failedOver(primaryEpoch);
        this.#flush.epochEnded(ended.epoch);
        this.marks.endEpoch(ended.epoch);
        this.positions.epochEnded(ended.epoch);
        this.wire?.epochEnded(ended);
      },
    });
  }

  #endCarriedTraces({ exposure: { level } }: Config): void {
    // The account's traces are those that outcomes/outcomes.ts has given it.
    const carried = this.#exposure.carriedTraces.filter((trace) => trace instanceof TransactionTrace);
    void endCarriedTraces(carried, level, { verdicts: this.#verdicts, tokens: this.#tokens });
  }

  #makeExposure(config: Config): Exposure {
    const { clock, log } = this.#deps;
    return new Exposure(
      {
        clock,
        log,
        metrics: this.metrics,
        announcements: { pending: () => this.#announcer.pending, max: config.maxPendingAnnouncements },
      },
      {
        settings: config.exposure,
        gateway: config.name,
        region: config.region,
        hasTrackers: config.trackers.length > 0,
        isConnected: () => this.#stream.connected !== null,
      },
    );
  }

  start(): void {
    this.callers.start();
    this.#schedule.start();
    this.#deps.topologyFile?.start({
      metrics: this.metrics,
      faultsOf: ({ levels }) =>
        this.#config.exposure.level in levels
          ? []
          : [`level ${this.#config.exposure.level} was removed, but exposure is counted at it`],
      onLevels: (levels) => {
        Object.assign(this.#rules, levelsOf({ levels }, this.#deps.store));
      },
    });
    this.#stream.start();
    if (this.#config.trackers.length === 0) this.#watch();
    else
      this.#deps.clock.after(LEARN_FIRST_MS, () => {
        this.#watch();
      });
  }

  /** Always the same object: its levels change with the topology's file. */
  get rules(): RequestRules {
    return this.#rules;
  }

  /** No tracker was found that sees the primary: nothing can be answered as durable. */
  get isBlind(): boolean {
    return this.#stream.isBlind;
  }

  /** Why it must not work with its keys; null while they are those of the other services. */
  get scheduleFault(): string | null {
    return this.#schedule.fault;
  }

  get isStopping(): boolean {
    return this.#stopping;
  }

  /** Operators find what this gateway reports at every tracker while they are started. */
  makeLimitReports(): LimitReports {
    const { name: gateway, region, trackers, exposure } = this.#config;
    const { clock, transport } = this.#deps;
    const limits = (): readonly LimitSample[] => this.#exposure.allSamples();
    const commits = (): Buckets =>
      this.metrics.commit.buckets(({ ack, access }) => ack === "commit" && access === "write");
    const { level } = exposure;
    return new LimitReports({ clock, transport, gateway, region, level, trackers, limits, commits });
  }

  /** No new work; what only waits for durability is answered now. Work in flight goes on. */
  drain(): void {
    this.#stopping = true;
    this.wire?.drain();
    this.interactive.drain();
    this.marks.stop();
    this.#verdicts.stop();
    this.#settler.stop();
  }

  /**
   * Until every open transaction has been ended by its client, or the limit is over; then the rest
   * is rolled back.
   */
  async finishOpen(limitMs: number): Promise<void> {
    const { clock } = this.#deps;
    const untilMs = clock.monotonicMs() + limitMs;
    const isOpen = (): boolean => this.interactive.size > 0 || (this.wire?.size ?? 0) > 0;
    while (isOpen() && clock.monotonicMs() < untilMs) await sleep(clock, OPEN_POLL_MS);
    this.wire?.stop();
    await this.interactive.stop();
  }

  /** After the last answer. */
  async stop(): Promise<void> {
    this.drain();
    const left = await this.#announcer.flush(FLUSH_ANNOUNCEMENTS_MS);
    if (left > 0) this.#deps.log.error("announcements_not_delivered", { ids: left });
    this.#announcer.stop();
    await this.interactive.stop();
    this.tickets.stop();
    this.replay.close();
    this.#deps.topologyFile?.stop();
    this.callers.stop();
    this.#schedule.stop();
    this.#stream.stop();
    this.positions.stop();
    this.#flush.stop();
    this.primary.stop();
    this.#deps.transport.close();
    await this.#deps.store.close();
  }

  #watch(): void {
    if (this.#watching || this.#stopping) return;
    this.#watching = true;
    this.primary.start();
  }

  #trackersSilentMs(): number {
    if (this.#config.trackers.length === 0) return Number.POSITIVE_INFINITY;
    if (this.#stream.connected !== null) return 0;
    return this.#deps.clock.monotonicMs() - this.#contactMs;
  }

  #registerMetrics(): void {
    const { metrics, primary, marks } = this;
    const { name, region, tlsCertificate: certificate } = this.#config;
    registerProcess(metrics, { identity: { service: "txn-gateway", name, region }, certificate });
    registerExposureGauges(metrics, this.#exposure);
    registerPoolGauges(metrics, this.#config, this.#deps.store, this.#deps.log);
    metrics.read(GATEWAY.announcementQueue, () =>
      this.#announcer.queueLengths().map(({ tracker, length }) => ({ labels: { tracker }, value: length })),
    );
    metrics.read(GATEWAY.unacknowledged, () => this.#announcer.pending);
    metrics.read(GATEWAY.openTransactions, () => this.interactive.size);
    metrics.read(GATEWAY.openTickets, () => this.tickets.size);
    metrics.read(GATEWAY.activeTransactions, () => this.#active.size);
    metrics.read(GATEWAY.resultMemory, () => this.#memory.usedBytes);
    metrics.read(GATEWAY.durabilityWaits, () => marks.waiting);
    metrics.read(GATEWAY.wireSessions, () => this.wire?.places ?? null);
    metrics.read(GATEWAY.wireSessionsBound, () =>
      this.wire === null ? null : this.#config.pgMaxConnections,
    );
    metrics.read(GATEWAY.wireHolds, () => this.wire?.holding ?? null);
    metrics.read(GATEWAY.unknownOutcomesOpen, () => metrics.settling);
    metrics.read(GATEWAY.splitBrain, () => (primary.authority.kind === "split" ? 1 : 0));
    metrics.read(GATEWAY.ready, () => (primary.current === null || this.scheduleFault !== null ? 0 : 1));
    metrics.read(GATEWAY.epoch, () =>
      primary.current === null ? 0 : (primary.recordOf(primary.current.epoch)?.seq ?? 0),
    );
    metrics.read(GATEWAY.mark, () =>
      Object.entries(marks.newest?.levels ?? {}).map(([level, offset]) => ({
        labels: { level },
        value: Number(offset),
      })),
    );
    metrics.read(GATEWAY.streamConnected, () =>
      this.#config.trackers.map((tracker) => ({
        labels: { tracker: hostOf(tracker) },
        value: this.#stream.connected === tracker ? 1 : 0,
      })),
    );
  }
}

/** The names of the levels, and of those that the database meets with its answer to a commit. */
function levelsOf(
  { levels }: Pick<Topology, "levels">,
  { commitsDurably }: Pick<Store, "commitsDurably">,
): { levels: string[]; metByCommit: string[] } {
  const names = Object.entries(levels).flatMap(([name, rule]) => ("primary" in rule ? [name] : []));
  return { levels: Object.keys(levels), metByCommit: commitsDurably ? names : [] };
}
