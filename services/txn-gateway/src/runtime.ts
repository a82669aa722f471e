// The real random numbers, store and network. No other file of this service touches them.
import { type Clock, realClock } from "@highwater/runtime";
import { type ProcessContext } from "@highwater/service";
import { PostgresContents, PostgresKeys, PostgresStore } from "@highwater/store";
import { type Config, type StoreConfig } from "./config.ts";
import { type Deps } from "./deps.ts";
import { roleUrl } from "./identity/role-url.ts";
import { HttpTransport } from "./trackers/http-transport.ts";

const LIVENESS_TIMEOUT_MS = 2_000;

/**
 * Makes the store. `callTimeoutMs`: how long a node may take to answer a short query before it
 * counts as gone.
 */
export function makeStore(
  config: StoreConfig,
  clock: Clock,
  callTimeoutMs = LIVENESS_TIMEOUT_MS,
): PostgresStore {
  return new PostgresStore({
    nodes: config.topology.nodes,
    clock,
    helper: config.name,
    retentionMs: config.retentionMs,
    poolSize: config.poolSize,
    poolQueue: config.poolQueue,
    connectTimeoutMs: config.connectTimeoutMs,
    callTimeoutMs,
    statementTimeoutMs: config.statementTimeoutMs,
    lockTimeoutMs: config.lockTimeoutMs,
    rolePoolSize: config.rolePoolSize,
    roleUrl: (nodeUrl, role) => roleUrl(nodeUrl, role, config.rolePasswords.get(role)),
  });
}

export function makeDeps(
  config: Config,
  {
    log,
    topologyFile,
    tracer,
    callTimeoutMs = LIVENESS_TIMEOUT_MS,
  }: Pick<ProcessContext, "log"> & Partial<ProcessContext> & { readonly callTimeoutMs?: number },
): Deps {
  const channels = {
    nodes: config.topology.nodes,
    clock: realClock,
    helper: config.name,
    connectTimeoutMs: config.connectTimeoutMs,
    callTimeoutMs,
  };
  return {
    clock: realClock,
    rng: { random: () => Math.random() },
    log,
    topologyFile,
    tracer,
    store: makeStore(config, realClock, callTimeoutMs),
    transport: new HttpTransport(config),
    keys: () => new PostgresKeys(channels),
    contentsStore: () => new PostgresContents(channels),
  };
}
