// Runs a service as a process: configuration, signals, listening and exit codes. The routes are the
// service's own. Exit codes: 0 after a signal, 1 when it cannot start or fails, 2 when the
// configuration is wrong.
import { readFileSync } from "node:fs";
import { type FastifyInstance } from "fastify";
import { type Topology, topologyWarnings } from "@highwater/protocol";
import { realClock, realRandom } from "@highwater/runtime";
import { jsonLog, type Log } from "./log.ts";
import { type Family } from "./metrics/index.ts";
import { type Env, type Loaded, type ReadFile } from "./settings/setting.ts";
import { tlsWarnings } from "./settings/tls.ts";
import { readTelemetry, startTelemetry, type Telemetry, type Tracer } from "./telemetry/index.ts";
import { TopologyFile, topologyPath } from "./topology-file.ts";

export interface Served {
  readonly app: FastifyInstance;
  /** The values at the moment of the call. */
  readonly metrics: () => readonly Family[];
  /** Called once it listens. */
  start(): Promise<void>;
  close(): Promise<void>;
}

export interface ProcessOptions<C> {
  /** Its name in the log and in the line that prints its address. */
  readonly service: string;
  readonly env: Env;
  readonly loadConfig: (env: Env, readFile: ReadFile) => Loaded<C>;
  /** The configuration without its secrets. */
  readonly describeConfig: (config: C) => Record<string, unknown>;
  readonly make: (config: C, parts: ProcessContext) => Served;
}

/** The parts that a process gives to its service. */
export interface ProcessContext {
  readonly log: Log;
  readonly topologyFile: TopologyFile | undefined;
  readonly tracer: Tracer | undefined;
}

interface Listening {
  readonly host: string;
  readonly port: number;
  readonly topology: Topology;
  readonly name: string;
  readonly region: string;
  readonly tlsCertificate: string | null;
  readonly tlsKey: string | null;
  /** A gateway's trackers, as base URLs. */
  readonly trackers?: readonly string[];
}

/** Runs the service. The first line that it prints is its address. */
export async function runProcess<C extends Listening>(options: ProcessOptions<C>): Promise<void> {
  const { service, env, loadConfig, describeConfig, make } = options;
  let telemetry: Telemetry | null = null;
  const log = jsonLog(
    service,
    realClock,
    (line) => process.stderr.write(line),
    (entry) => telemetry?.onLog?.(entry),
  );
  const loaded = loadConfig(env, (path) => readFileSync(path, "utf8"));
  const wanted = readTelemetry(env);
  const faults = [...(loaded.ok ? [] : loaded.faults), ...wanted.faults];
  if (!loaded.ok || faults.length > 0) {
    log.error("configuration_refused", { faults });
    process.exit(2);
  }
  const { config } = loaded;
  if (wanted.settings !== null)
    telemetry = await startTelemetry(wanted.settings, {
      service,
      identity: config,
      clock: realClock,
      random: realRandom,
    });
  for (const warning of topologyWarnings(config.topology)) log.warn("topology_doubtful", { warning });
  for (const warning of tlsWarnings(config)) log.warn("traffic_unencrypted", { warning });
  const path = topologyPath(env);
  const topologyFile =
    path === null ? undefined : new TopologyFile({ path, current: config.topology, clock: realClock, log });
  const served = make(config, { log, topologyFile, tracer: telemetry?.tracer });
  telemetry?.serve(served.metrics);
  stopOnSignals(served, log, telemetry);
  process.on("SIGHUP", () => void topologyFile?.reload());
  try {
    const url = await served.app.listen({ host: config.host, port: config.port });
    await served.start();
    log.info("listening", { url, ...describeConfig(config) });
    process.stdout.write(`${JSON.stringify({ service, url })}\n`);
  } catch (cause) {
    log.error("cannot_start", { cause });
    process.exit(1);
  }
}

function stopOnSignals(served: Served, log: Log, telemetry: Telemetry | null): void {
  let stopping = false;
  const stop = async (signal: string): Promise<void> => {
    if (stopping) return;
    stopping = true;
    log.info("stopping", { signal });
    try {
      await served.close();
      await telemetry?.close();
      process.exit(0);
    } catch (cause) {
      log.error("stop_failed", { cause });
      process.exit(1);
    }
  };
  for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => void stop(signal));
}
