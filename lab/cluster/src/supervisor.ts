// The process that owns the servers and the relays, so that a busy event loop of the caller delays
// no packet, and the caller's death, however sudden, leaves nothing behind. Started by client.ts;
// communicates only over the IPC channel. Never imported: it listens for signals and cleans up for
// its own process.

import { rm } from "node:fs/promises";
import { asDevClusterError, DevClusterError, errorToRecord } from "./errors.ts";
import { Fleet } from "./fleet.ts";
import type { CallMessage, SupervisorMessage } from "./messages.ts";
import { chooseFreePort } from "./ports.ts";
import { querySql } from "./sql.ts";
import type { ClusterOptions, SupervisorApi } from "./types.ts";

/** Limit for the cleanup, after which the process ends anyway. */
const cleanupLimitMs = 120_000;

const dir = process.argv[2] ?? "";
let fleet: Fleet | undefined;
let keepDir = false;
let cleanup: Promise<void> | undefined;

function current(): Fleet {
  if (fleet && cleanup === undefined) return fleet;
  throw new DevClusterError("BAD_STATE", "the cluster is not running");
}

const api: SupervisorApi = {
  launch: async (options: ClusterOptions) => {
    keepDir = options.keepDir ?? false;
    fleet = new Fleet(dir, options, announceProcesses);
    return fleet.launch();
  },
  connectionPort: async (nodeId, from) => current().network.portFor(current().node(nodeId), from),
  openRelay: async (target) => current().network.openRelay(target),
  closeRelay: async (relayId) => current().network.closeRelay(relayId),
  reservePort: async () => chooseFreePort(new Set()),
  setRoundTripMs: async (a, b, ms) => current().network.setRoundTripMs(a, b, ms),
  cut: async (from, to, options) => current().network.cut(from, to, options),
  heal: async (a, b) => current().network.heal(a, b),
  isCut: async (a, b) => current().network.isCut(a, b),
  isolate: async (location, except) => current().network.isolate(location, except),
  healAll: async () => current().network.healAll(),
  start: async (id) => current().start(id),
  stop: async (id, mode) => current().stop(id, mode),
  kill: async (id) => current().node(id).kill(),
  crashBackend: async (id) => current().crashBackend(id),
  restart: async (id) => current().restart(id),
  pause: async (id) => current().node(id).pause(),
  resume: async (id) => current().node(id).resume(),
  promote: async (id, options) => current().promote(id, options),
  authorize: async (id, options) => current().authorize(id, options),
  follow: async (id, upstreamId) => current().follow(id, upstreamId),
  mostAdvancedReplica: async (candidates) => current().mostAdvancedReplica(candidates),
  rejoin: async (id, upstreamId) => current().rejoin(id, upstreamId),
  snapshot: async (id) => current().snapshot(id),
  restore: async (id, snapshotPath, options) => current().restore(id, snapshotPath, options),
  startAsPrimary: async (id) => current().startAsPrimary(id),
  query: async (id, sql, params) => querySql(current().node(id), sql, params),
  waitForStreaming: async (ids, limitMs) => current().waitForStreaming(ids, limitMs),
  status: async () => current().status(),
  shutdown: async () => cleanUp(),
};

async function answer(message: CallMessage): Promise<void> {
  try {
    const methods = api as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
    const value = await methods[message.method]?.(...message.args);
    send({ kind: "result", callId: message.callId, value });
  } catch (error) {
    send({ kind: "error", callId: message.callId, error: errorToRecord(asDevClusterError(error)) });
  }
}

function send(message: SupervisorMessage): void {
  if (process.connected) process.send?.(message, undefined, undefined, () => undefined);
}

function announceProcesses(): void {
  const pids: Record<string, number> = {};
  for (const node of fleet?.nodes ?? []) if (node.pid !== undefined) pids[node.id] = node.pid;
  send({ kind: "processes", pids });
}

/** Ends every server and removes the folder, once for all callers. */
function cleanUp(): Promise<void> {
  cleanup ??= (async () => {
    setTimeout(() => process.exit(1), cleanupLimitMs).unref();
    await fleet?.destroy();
    if (!keepDir) await rm(dir, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  })();
  return cleanup;
}

// A terminal's Ctrl-C and a service manager's stop are for the caller; this process ends after the
// caller.
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(name, () => undefined);
process.on("message", (message: CallMessage) => void answer(message));
process.on("uncaughtException", (error) => {
  console.error(error);
  void cleanUp().then(() => process.exit(1));
});
process.on("disconnect", () => void cleanUp().then(() => process.exit(0)));
