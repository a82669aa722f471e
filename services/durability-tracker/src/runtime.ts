// The real store and ledger. The only file of this service that touches them.
import { fileURLToPath } from "node:url";
import { realClock } from "@highwater/runtime";
import { type Log, type TopologyFile, type Tracer } from "@highwater/service";
import {
  PostgresContents,
  PostgresEvents,
  PostgresKeys,
  PostgresStore,
  POSTGRES_DEFAULTS,
} from "@highwater/store";
import { type Config, contentsFileOf } from "./config.ts";
import { ContentsFile } from "./contents/contents-file.ts";
import { type TrackerDeps } from "./deps.ts";
import { LedgerFile } from "./shell/ledger-file.ts";
import { resolveName } from "./webhooks/index.ts";

/** Built by `make console`. */
const CONSOLE_FOLDER = fileURLToPath(new URL("../../console/dist", import.meta.url));

export function makeDeps(
  config: Config,
  log: Log,
  options: {
    /**
     * Ends the process: a tracker that may have forgotten something, or that contradicts itself, is
     * worse than none.
     */
    readonly onFailure: (event: "ledger_failed" | "core_failed", cause: Error) => void;
    readonly topologyFile?: TopologyFile | undefined;
    readonly tracer?: Tracer | undefined;
  },
): TrackerDeps {
  const shared = {
    nodes: config.topology.nodes,
    clock: realClock,
    helper: `tracker:${config.name}`,
    connectTimeoutMs: config.connectTimeoutMs,
    callTimeoutMs: config.callTimeoutMs,
  };
  return {
    clock: realClock,
    log,
    topologyFile: options.topologyFile,
    tracer: options.tracer,
    ledger: new LedgerFile(config.ledgerFile, (cause) => {
      options.onFailure("ledger_failed", cause);
    }),
    contents: new ContentsFile(contentsFileOf(config), {
      bytes: config.contentsBytes,
      bytesPerOwner: config.contentsBytesPerOwner,
    }),
    onCoreFailure: (cause) => {
      options.onFailure("core_failed", cause);
    },
    store: new PostgresStore({
      ...POSTGRES_DEFAULTS,
      ...shared,
      retentionMs: config.retentionMs,
      poolSize: 1,
    }),
    keys: () => new PostgresKeys(shared),
    events: (onRecorded) => new PostgresEvents({ ...shared, onRecorded }),
    contentsStore: () => new PostgresContents(shared),
    resolve: resolveName,
    consoleFolder: CONSOLE_FOLDER,
    random: Math.random,
  };
}
