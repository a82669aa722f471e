// The tracker as an application: joins its parts, starts and stops them. Listening, signals and exit codes are main.ts's.
import { type FastifyInstance } from "fastify";
import { HighwaterError } from "@highwater/protocol";
import {
  Admission,
  Callers,
  InternalAuthenticator,
  installCallers,
  makeAuthenticator,
  makeServer,
  MetricSet,
} from "@highwater/service";
import { type Clock, sleep } from "@highwater/store";
import { type Config } from "./config.ts";
import { type TrackerDeps } from "./deps.ts";
import { announcementRoutes } from "./routes/announcements.ts";
import { durabilityRoutes, streamRoutes } from "./routes/durability.ts";
import { healthRoutes } from "./routes/health.ts";
import { TrackerLoop } from "./shell/loop.ts";
import { metricsText } from "./shell/metrics.ts";
import { runRetention } from "./shell/retention.ts";
import { MarkStream } from "./shell/stream.ts";
import { Told } from "./shell/told.ts";
import { VerdictDesk } from "./shell/verdict-desk.ts";

export { type Config, describeConfig, loadConfig, type LoadedConfig } from "./config.ts";
export { type TrackerDeps } from "./deps.ts";
export { makeDeps } from "./runtime.ts";

export interface Tracker {
  readonly app: FastifyInstance;
  readonly loop: TrackerLoop;
  start(): Promise<void>;
  close(): Promise<void>;
}

export function buildTracker(config: Config, deps: TrackerDeps): Tracker {
  const { clock, ledger, log, store } = deps;
  const stream = new MarkStream();
  const told = new Told(log);
  const stopping = new AbortController();
  let isStarted = false;
  const loop = new TrackerLoop(config, deps, {
    onMarks: () => {
      stream.publishMarks(loop.state);
    },
    onEpochs: () => {
      stream.publishEpochs(loop.state);
    },
    onVerdict: (published) => {
      told.verdict(published);
    },
  });
  const metrics = new MetricSet();
  const callers = makeCallers(config, deps, { loop, metrics });
  const app = makeServer({ bodyLimitBytes: config.bodyLimitBytes, log, cutOnClose: true });
  app.addHook("onRequest", (request, _reply, done) => {
    done(isOpen(request.url, isStarted && !stopping.signal.aborted));
  });
  const desk = new VerdictDesk({ loop, clock, stop: stopping.signal });
  void app.register((scope, _options, done) => {
    installCallers(scope, callers);
    durabilityRoutes(scope, { loop, desk });
    done();
  });
  void app.register((scope, _options, done) => {
    installCallers(scope, callers, "stream");
    streamRoutes(scope, { loop, stream, maxStreams: config.maxStreams });
    done();
  });
  void app.register((scope, _options, done) => {
    installCallers(scope, callers);
    announcementRoutes(scope, { loop, clock, ledger, onlyServices: config.internalSecret !== null });
    done();
  });
  healthRoutes(app, {
    loop,
    isStopping: () => stopping.signal.aborted,
    metrics: () => metricsText(loop.state, stream.size, told) + metrics.render(),
  });

  return {
    app,
    loop,
    start: async () => {
      callers.start();
      await loop.start();
      isStarted = true;
      void beat(stream, clock, config.heartbeatMs, stopping.signal);
      void runRetention({
        ...{ store, clock, log, retentionMs: config.retentionMs, everyMs: config.maintainMs },
        state: () => loop.state,
        signal: stopping.signal,
      });
    },
    close: async () => {
      stopping.abort();
      loop.stop();
      callers.stop();
      stream.close();
      await app.close();
      await ledger.close();
      await store.close();
    },
  };
}

function makeCallers(
  config: Config,
  deps: TrackerDeps,
  { loop, metrics }: { readonly loop: TrackerLoop; readonly metrics: MetricSet },
): Callers {
  const { clock } = deps;
  const refusals = metrics.counter(
    "highwater_tracker_refusals_total",
    "Requests whose caller was refused, by error code.",
  );
  const others = makeAuthenticator(config.identity, deps, () => {
    const { standing } = loop.state;
    return standing.kind === "reigning" ? standing : null;
  });
  const secrets = [config.internalSecret, config.internalSecretPrevious].filter((one) => one !== null);
  return new Callers({
    authenticator: new InternalAuthenticator({ secrets, others }),
    admission: new Admission({ clock, defaults: config.identity.limits }),
    clock,
    onRefused: (code) => {
      refusals.add({ code });
    },
  });
}

/** Before the ledger is loaded nothing can be taken in or answered, and while the service shuts down nothing shall. */
function isOpen(url: string, isServing: boolean): HighwaterError | undefined {
  if (isServing || !/^\/(?:v1|internal)\//.test(url)) return undefined;
  const detail = "The tracker is starting or shutting down.";
  return new HighwaterError("overloaded", { detail, retryAfterMs: 1_000 });
}

async function beat(stream: MarkStream, clock: Clock, everyMs: number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await sleep(clock, everyMs, signal);
    stream.heartbeat();
  }
}
