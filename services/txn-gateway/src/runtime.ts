// The real clock, chance, log, store and network. The only file of this service that touches them.
import { type Clock, PostgresKeys, PostgresStore } from "@highwater/store";
import { type Config } from "./config.ts";
import { type Deps, type Log, type LogFields } from "./deps.ts";
import { roleUrl } from "./identity/role-url.ts";
import { HttpTransport } from "./trackers/http-transport.ts";

const LIVENESS_TIMEOUT_MS = 2_000;

export const realClock: Clock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
  after: (delayMs, callback) => {
    const timer = setTimeout(callback, delayMs);
    return () => {
      clearTimeout(timer);
    };
  },
};

/** One JSON object per line. */
export function jsonLog(write: (line: string) => void): Log {
  const log = (level: string, event: string, fields: LogFields = {}): void => {
    const { cause, ...rest } = fields;
    const line = { time: new Date().toISOString(), level, event, ...rest };
    write(`${JSON.stringify(cause === undefined ? line : { ...line, cause: describeCause(cause) })}\n`);
  };
  return {
    info: (event, fields) => {
      log("info", event, fields);
    },
    warn: (event, fields) => {
      log("warn", event, fields);
    },
    error: (event, fields) => {
      log("error", event, fields);
    },
  };
}

/** Chosen fields only: an error object may carry a connection string among its properties. */
function describeCause(cause: unknown): unknown {
  if (!(cause instanceof Error)) return String(cause);
  const { name, message, stack } = cause;
  const { code } = cause as { code?: unknown };
  const inner = cause.cause === undefined ? undefined : describeCause(cause.cause);
  return { name, code, message, stack, cause: inner };
}

export function makeStore(config: Config, clock: Clock): PostgresStore {
  return new PostgresStore({
    nodes: config.topology.nodes,
    clock,
    helper: config.name,
    retentionMs: config.retentionMs,
    poolSize: config.poolSize,
    poolQueue: config.poolQueue,
    connectTimeoutMs: config.connectTimeoutMs,
    callTimeoutMs: LIVENESS_TIMEOUT_MS,
    statementTimeoutMs: config.statementTimeoutMs,
    lockTimeoutMs: config.lockTimeoutMs,
    rolePoolSize: config.rolePoolSize,
    roleUrl: (nodeUrl, role) => roleUrl(nodeUrl, role, config.identity.rolePasswords.get(role)),
  });
}

export function makeDeps(config: Config, log: Log): Deps {
  return {
    clock: realClock,
    rng: { random: () => Math.random() },
    log,
    store: makeStore(config, realClock),
    transport: new HttpTransport(),
    keys: () =>
      new PostgresKeys({
        nodes: config.topology.nodes,
        clock: realClock,
        helper: config.name,
        connectTimeoutMs: config.connectTimeoutMs,
        callTimeoutMs: LIVENESS_TIMEOUT_MS,
      }),
  };
}
