// Builds the tracker from its parts, starts and stops them. main.ts owns listening, signals and
// exit codes.
import { type FastifyInstance, type FastifyRequest } from "fastify";
import { type EpochId, HighwaterError, UNSERVED_HEADER } from "@highwater/protocol";
import { type Clock, sleep } from "@highwater/runtime";
import {
  Admission,
  Callers,
  type DeploymentKeys,
  type Family,
  InternalAuthenticator,
  installCallers,
  isAnonymous,
  isForCallers,
  makeAuthenticator,
  makeContentsKeys,
  makeDeploymentKeys,
  makeServer,
  ScheduleCheck,
  serverCertificate,
} from "@highwater/service";
import { type Config, exposureFaults, exposureLevelOf, leaseFaults } from "./config.ts";
import { Contents } from "./contents/contents.ts";
import { heldCount, levelNames } from "./core/index.ts";
import { type TrackerDeps } from "./deps.ts";
import { DurabilityEvents, EVENT_DEFAULTS } from "./events/durability-events.ts";
import { ledgerOutbox } from "./events/ledger-outbox.ts";
import { announcementRoutes } from "./routes/announcements.ts";
import { consoleRoutes } from "./routes/console.ts";
import { durabilityRoutes, streamRoutes } from "./routes/durability.ts";
import { registerFailoverRoutes } from "./routes/failover.ts";
import { healthRoutes } from "./routes/health.ts";
import { eventRoutes } from "./routes/events.ts";
import { lostRoutes } from "./routes/lost.ts";
import { operatorRoutes } from "./routes/operators.ts";
import { replayRoutes } from "./routes/replay.ts";
import { registerWebhookRoutes } from "./routes/webhooks.ts";
import { GatewayLimits } from "./shell/gateway-limits.ts";
import { HeapRoom } from "./shell/heap-room.ts";
import { KeyListing } from "./shell/key-listing.ts";
import { TrackerLoop } from "./shell/loop.ts";
import { TrackerMetrics } from "./shell/metrics.ts";
import { makeExpiryTime, type ReadExpiryTime } from "./shell/expiry-clock.ts";
import { runRetention } from "./shell/retention.ts";
import { MarkStream } from "./shell/stream.ts";
import { UnloggedTables } from "./shell/unlogged.ts";
import { VerdictLog } from "./shell/verdict-log.ts";
import { VerdictService } from "./shell/verdict-service.ts";
import { runWarden } from "./shell/warden.ts";
import { Webhooks } from "./webhooks/index.ts";

export { type Config, describeConfig, loadConfig, type LoadedConfig } from "./config.ts";
export { type TrackerDeps } from "./deps.ts";
export { makeDeps } from "./runtime.ts";

/** Gateways bound what is at risk by it. */
const EXPOSURE_MS = 250;
const IDLE_EXPOSURE_MS = 2_000;
/** Streams of a tracker that does not see the primary are ended so often. */
const END_BLIND_STREAMS_MS = 10_000;

export interface Tracker {
  readonly app: FastifyInstance;
  readonly loop: TrackerLoop;
  readonly metrics: () => readonly Family[];
  start(): Promise<void>;
  close(): Promise<void>;
}

/** What the tracker is made of besides its routes. */
interface Parts {
  readonly loop: TrackerLoop;
  readonly stream: MarkStream;
  readonly verdicts: VerdictService;
  readonly alarms: VerdictLog;
  readonly events: DurabilityEvents;
  readonly webhooks: Webhooks;
  readonly metrics: TrackerMetrics;
  readonly callers: Callers;
  readonly limits: GatewayLimits;
  readonly keys: KeyListing;
  readonly contents: Contents;
  readonly schedule: ScheduleCheck;
  readonly readTime: ReadExpiryTime;
  readonly stopping: AbortController;
}

export function buildTracker(config: Config, deps: TrackerDeps): Tracker {
  const parts = makeParts(config, deps);
  const { loop, stream, callers, events, webhooks, metrics, schedule, stopping } = parts;
  let isStarted = false;
  const app = makeServer({
    bodyLimitBytes: config.bodyLimitBytes,
    log: deps.log,
    corsOrigins: config.corsOrigins,
    cutOnClose: true,
    tracer: deps.tracer,
    certificate: serverCertificate(config),
    openOn: isAnonymous(config.identity) ? config.host : undefined,
    elsewhere: { "a gateway": ["/v1/transactions", "/v1/tickets", "/sql"] },
  });
  app.addHook("onRequest", (request, reply, done) => {
    const refusal = isOpen(request, isStarted && !stopping.signal.aborted);
    if (refusal !== undefined) void reply.header(UNSERVED_HEADER, "true");
    done(refusal);
  });
  addRoutes(app, config, deps, parts);
  return {
    app,
    loop,
    metrics: () => [...metrics.collect(), ...webhooks.metrics.collect()],
    start: async () => {
      callers.start();
      await events.start();
      await loop.start();
      schedule.start();
      webhooks.start();
      parts.contents.start();
      isStarted = true;
      followLevels(config, deps, parts);
      const heartbeatMs = (): number => config.heartbeatMs;
      void every(deps.clock, heartbeatMs, stopping.signal, () => {
        stream.heartbeat();
      });
      const endBlindMs = (): number => END_BLIND_STREAMS_MS;
      void every(deps.clock, endBlindMs, stopping.signal, () => {
        stream.closeIfBlind();
      });
      const exposureMs = (): number => (heldCount(loop.state) === 0 ? IDLE_EXPOSURE_MS : EXPOSURE_MS);
      void every(deps.clock, exposureMs, stopping.signal, () => {
        stream.publishExposure(loop.state);
      });
      keepUp(config, deps, parts);
    },
    close: async () => {
      stopping.abort();
      deps.topologyFile?.stop();
      loop.stop();
      schedule.stop();
      callers.stop();
      parts.keys.close();
      await parts.contents.stop();
      stream.close();
      await webhooks.close();
      await events.close();
      await app.close();
      await deps.ledger.close();
      await deps.store.close();
    },
  };
}

/** What every tracker does for the nodes, besides judging. */
function keepUp(config: Config, deps: TrackerDeps, { loop, metrics, readTime, stopping }: Parts): void {
  const { store, clock, log } = deps;
  const { signal } = stopping;
  const onEnded = (): void => {
    metrics.lockFloods.add();
  };
  const onQueue = (node: string, usage: number): void => {
    metrics.notificationQueues.set(node, usage);
  };
  runWarden({ store, clock, log, signal, onEnded, onQueue });
  void runRetention({
    store,
    clock,
    log,
    signal,
    retentionMs: config.retentionMs,
    everyMs: config.maintainMs,
    state: () => loop.state,
    readTime,
  });
}

function makeParts(config: Config, deps: TrackerDeps): Parts {
  const { clock, log } = deps;
  const stream = new MarkStream();
  const metrics = new TrackerMetrics();
  const alarms = new VerdictLog(log, clock, metrics.brokenPromises);
  const stopping = new AbortController();
  const keys = makeDeploymentKeys(config, clock);
  const loop = new TrackerLoop(config, {
    ...deps,
    deploymentKeys: keys,
    scheduleFault: () => schedule.fault,
  });
  const { events, webhooks, readTime } = makeEvents(config, deps, loop);
  const room = new HeapRoom(clock);
  const contents = makeContents(config, deps, { loop, readTime, metrics });
  loop.subscribe(alarms, metrics, stream, events, contents, room, new UnloggedTables(deps.store, log));
  const callers = makeCallers(config, deps, { loop, metrics });
  const schedule = makeSchedule(keys, deps, loop);
  const verdicts = new VerdictService({
    loop,
    clock,
    stop: stopping.signal,
    verdicts: metrics.verdicts,
    tokens: keys,
    maxWaitingPerKey: config.maxWaitingPerKey,
    tokensPerSecondPerKey: config.tokensPerSecondPerKey,
    scheduleFault: () => schedule.fault,
  });
  const limits = new GatewayLimits(clock);
  metrics.register({
    state: () => loop.state,
    nowMs: () => clock.monotonicMs(),
    isBlind: () => loop.sight.isBlind,
    alarms,
    events,
    contents,
    limits,
    streams: () => stream.size,
    identity: { name: config.name, region: config.region },
    certificate: config.tlsCertificate,
  });
  return {
    loop,
    stream,
    verdicts,
    alarms,
    events,
    webhooks,
    metrics,
    callers,
    contents,
    limits,
    keys: new KeyListing({ clock, keys: deps.keys, primary: () => followed(loop)?.node ?? null }),
    schedule,
    readTime,
    stopping,
  };
}

/** The authoritative primary and its epoch; null while there is none. */
function followed({ state }: TrackerLoop): { readonly node: string; readonly epoch: EpochId } | null {
  const { standing } = state.topology;
  return standing.kind === "following" ? standing : null;
}

function makeContents(
  config: Config,
  deps: TrackerDeps,
  { loop, readTime, metrics }: Pick<Parts, "loop" | "readTime" | "metrics">,
): Contents {
  const { clock, log } = deps;
  return new Contents({
    file: deps.contents,
    clock,
    log,
    keys: makeContentsKeys(config, clock),
    store: deps.contentsStore,
    state: () => loop.state,
    primary: () => followed(loop)?.node ?? null,
    readTime,
    onNotKept: (why) => {
      metrics.contentsNotKept.add(why);
    },
    keepLostMs: config.keepLostMs,
    expireEveryMs: config.maintainMs,
  });
}

function makeSchedule(
  keys: DeploymentKeys,
  { store, clock, log }: TrackerDeps,
  loop: TrackerLoop,
): ScheduleCheck {
  return new ScheduleCheck({
    keys,
    store,
    clock,
    log,
    primary: () => followed(loop)?.node ?? null,
  });
}

/**
 * Events and webhooks: what is recorded of the first is enqueued for the second in the same
 * transaction.
 */
function makeEvents(
  config: Config,
  deps: TrackerDeps,
  loop: TrackerLoop,
): Pick<Parts, "events" | "webhooks" | "readTime"> {
  const { clock, log, store, random, resolve } = deps;
  const readTime = makeExpiryTime(deps);
  const webhooks = new Webhooks(config, {
    nodes: config.topology.nodes,
    clock,
    log,
    random,
    resolve,
    helper: `tracker:${config.name}`,
    connectTimeoutMs: config.connectTimeoutMs,
    callTimeoutMs: config.callTimeoutMs,
    primaryEpoch: () => followed(loop),
    prepare: (node) => store.prepare(node),
    readTime,
    recordEvent: async ({ node, epoch }, event) => {
      await recorded.record(node, epoch, [event]);
    },
    onWants: (wants) => {
      events.recordDurable(wants);
    },
  });
  const recorded = deps.events(webhooks.onRecorded);
  const events = new DurabilityEvents(
    {
      events: recorded,
      outbox: ledgerOutbox(deps.ledger),
      store,
      clock,
      log,
      random,
      state: () => loop.state,
      readTime,
      wantDurable: (wanted) => {
        loop.dispatch({ kind: "durable_wanted", nowMs: clock.monotonicMs(), wanted });
      },
      onBroken: (peerVerdicts) => {
        loop.dispatch({ kind: "peer_verdicts_received", nowMs: clock.monotonicMs(), peerVerdicts });
      },
      // Announcements of a killed gateway to another tracker alone are unknown here.
      isComplete: ({ cause }) => cause === "first" || cause === "clean_restart",
    },
    {
      ...EVENT_DEFAULTS,
      keepMs: config.eventsKeepMs,
      expireEveryMs: config.maintainMs,
      heartbeatMs: config.heartbeatMs,
      maxStreams: config.eventStreams,
      maxStreamsPerKey: config.eventStreamsPerKey,
    },
  );
  return { events, webhooks, readTime };
}

function addRoutes(app: FastifyInstance, config: Config, deps: TrackerDeps, parts: Parts): void {
  const { loop, stream, verdicts, events, webhooks, metrics, callers, limits, stopping } = parts;
  void app.register((scope, _options, done) => {
    installCallers(scope, callers);
    durabilityRoutes(scope, { loop, verdicts });
    registerFailoverRoutes(scope, { state: () => loop.state });
    lostRoutes(scope, { contents: parts.contents });
    replayRoutes(scope, config);
    operatorRoutes(scope, { limits, keys: isAnonymous(config.identity) ? null : parts.keys });
    registerWebhookRoutes(scope, { admin: webhooks.admin });
    announcementRoutes(scope, {
      loop,
      clock: deps.clock,
      ledger: deps.ledger,
      limits,
      contents: parts.contents,
      onlyServices: config.internalSecret !== null,
    });
    done();
  });
  void app.register((scope, _options, done) => {
    installCallers(scope, callers, "stream");
    streamRoutes(scope, { loop, stream, limits: config });
    eventRoutes(scope, { events, levels: () => levelNames(loop.state) });
    done();
  });
  consoleRoutes(app, {
    folder: deps.consoleFolder,
    tracker: config.name,
    region: config.region,
    authority: config.authority.kind,
  });
  healthRoutes(app, {
    loop,
    isStopping: () => stopping.signal.aborted,
    scheduleFault: () => parts.schedule.fault,
    metrics: () => metrics.render() + webhooks.metrics.render(),
  });
}

/** Levels that change in the topology's file are judged by from then on. */
function followLevels(config: Config, deps: TrackerDeps, { loop, metrics }: Parts): void {
  deps.topologyFile?.start({
    metrics,
    faultsOf: ({ levels }) => [
      ...exposureFaults(config.exposureLevel, levels),
      ...leaseFaults(config.authority, levels),
    ],
    onLevels: (levels) => {
      loop.dispatch({
        kind: "configured",
        nowMs: deps.clock.monotonicMs(),
        levels: Object.entries(levels).map(([name, rule]) => ({ name, rule })),
        exposureLevel: exposureLevelOf(config, levels),
      });
    },
  });
}

function makeCallers(
  config: Config,
  deps: TrackerDeps,
  { loop, metrics }: { readonly loop: TrackerLoop; readonly metrics: TrackerMetrics },
): Callers {
  const { clock } = deps;
  const others = makeAuthenticator(config.identity, deps, () => followed(loop));
  const secrets = [config.internalSecret, config.internalSecretPrevious].filter((one) => one !== null);
  return new Callers({
    authenticator: new InternalAuthenticator({ secrets, others }),
    admission: new Admission({ clock, defaults: config.identity.limits }),
    clock,
    addressHeader: config.identity.addressHeader,
    onRefused: (code) => {
      metrics.refusals.add(code);
    },
  });
}

/**
 * Before the ledger is loaded nothing can be taken in or answered, and while the service shuts down
 * nothing shall.
 */
function isOpen(request: FastifyRequest, isServing: boolean): HighwaterError | undefined {
  if (isServing || !isForCallers(request)) return undefined;
  const detail = "The tracker is starting or shutting down.";
  return new HighwaterError("overloaded", { detail, retryAfterMs: 1_000 });
}

async function every(
  clock: Clock,
  periodMs: () => number,
  signal: AbortSignal,
  act: () => void,
): Promise<void> {
  while (!signal.aborted) {
    await sleep(clock, periodMs(), signal);
    if (!signal.aborted) act();
  }
}
