// The process: environment, signals, listening and exit codes; nothing else.
// Exit codes: 0 after a signal, 1 when it cannot listen or fails, 2 when the configuration is wrong.
import { readFileSync } from "node:fs";
import { topologyWarnings } from "@highwater/protocol";
import { jsonLog, realClock, TopologyFile, topologyPath } from "@highwater/service";
import { buildTracker } from "./app.ts";
import { describeConfig, loadConfig } from "./config.ts";
import { makeDeps } from "./runtime.ts";

const log = jsonLog("durability-tracker", realClock, (line) => process.stderr.write(line));
const loaded = loadConfig(process.env, (path) => readFileSync(path, "utf8"));
if (!loaded.ok) {
  log.error("configuration_refused", { faults: loaded.faults });
  process.exit(2);
}
const { config } = loaded;
for (const warning of topologyWarnings(config.topology)) log.warn("topology_doubtful", { warning });
const path = topologyPath(process.env);
const topologyFile =
  path === null ? undefined : new TopologyFile({ path, current: config.topology, clock: realClock, log });
const deps = makeDeps(config, log, {
  topologyFile,
  onLedgerFailure: (cause) => {
    // Without its ledger a tracker could forget: better none than that one.
    log.error("ledger_failed", { cause });
    process.exit(1);
  },
});
const tracker = buildTracker(config, deps);

let stopping = false;
async function stop(signal: string): Promise<void> {
  if (stopping) return;
  stopping = true;
  log.info("stopping", { signal });
  try {
    await tracker.close();
    process.exit(0);
  } catch (cause) {
    log.error("stop_failed", { cause });
    process.exit(1);
  }
}
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => void stop(signal));
process.on("SIGHUP", () => void topologyFile?.reload());

try {
  const url = await tracker.app.listen({ host: config.host, port: config.port });
  await tracker.start();
  log.info("listening", { url, ...describeConfig(config) });
  process.stdout.write(`${JSON.stringify({ service: "durability-tracker", url })}\n`);
} catch (cause) {
  log.error("cannot_start", { cause });
  process.exit(1);
}
