// The process: environment, signals, listening, exit codes. Nothing else.
import { PostgresStore, POSTGRES_DEFAULTS } from "@highwater/store";
import { buildTracker } from "./app.ts";
import { ConfigError, loadConfig } from "./config.ts";
import { clock } from "./runtime.ts";
import { LedgerFile } from "./shell/ledger-file.ts";
import { jsonLog } from "./shell/log.ts";

const EXIT_BAD_CONFIG = 64;
const EXIT_FAILED = 1;

const log = jsonLog("durability-tracker", clock, (line) => process.stderr.write(line));

async function main(): Promise<void> {
  const config = loadConfig(process.env);
  const ledger = new LedgerFile(config.ledgerFile, (cause) => {
    // Without its ledger a tracker could forget: better none than that one.
    log.error("the ledger failed", { cause: String(cause) });
    process.exit(EXIT_FAILED);
  });
  const store = new PostgresStore({
    ...POSTGRES_DEFAULTS,
    nodes: config.topology.nodes,
    clock,
    helper: `tracker:${config.name}`,
    retentionMs: config.retentionMs,
    connectTimeoutMs: config.connectTimeoutMs,
    callTimeoutMs: config.callTimeoutMs,
    poolSize: 1,
  });
  const tracker = buildTracker(config, { store, clock, ledger, log });
  const url = await tracker.app.listen({ host: config.host, port: config.port });
  await tracker.start();
  process.stdout.write(JSON.stringify({ service: "durability-tracker", url }) + "\n");
  let closing = false;
  for (const signal of ["SIGTERM", "SIGINT"] as const)
    process.on(signal, () => {
      if (closing) return;
      closing = true;
      tracker.close().then(
        () => process.exit(0),
        () => process.exit(EXIT_FAILED),
      );
    });
}

main().catch((cause: unknown) => {
  log.error("the tracker cannot start", { cause: cause instanceof Error ? cause.message : String(cause) });
  process.exit(cause instanceof ConfigError ? EXIT_BAD_CONFIG : EXIT_FAILED);
});
