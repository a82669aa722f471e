// The environment as a frozen Config; every fault is reported at once.
import { readFileSync } from "node:fs";
import { Topology, topologyFaults, validate } from "@highwater/protocol";
import { type AuthoritySettings, readAuthority } from "@highwater/store";

export interface Config {
  readonly host: string;
  readonly port: number;
  readonly name: string;
  readonly region: string;
  /** The file that holds the ledger; its folder must exist. */
  readonly ledgerFile: string;
  readonly topology: Topology;
  readonly authority: AuthoritySettings;
  readonly probeIntervalMs: number;
  /** Pause between two looks at the positions while something is pending, and while nothing is. */
  readonly busyPollMs: number;
  readonly idlePollMs: number;
  readonly heartbeatMs: number;
  readonly aliveMs: number;
  readonly publishPatienceMs: number;
  readonly intentPatienceMs: number;
  readonly intentGraceMs: number;
  readonly keepDurableMs: number;
  readonly retentionMs: number;
  readonly maintainMs: number;
  readonly bodyLimitBytes: number;
  readonly connectTimeoutMs: number;
  readonly callTimeoutMs: number;
}

export class ConfigError extends Error {
  readonly faults: readonly string[];
  constructor(faults: readonly string[]) {
    super(`bad configuration:\n  ${faults.join("\n  ")}`);
    this.name = "ConfigError";
    this.faults = faults;
  }
}

type Env = Readonly<Record<string, string | undefined>>;

export function loadConfig(env: Env): Config {
  const faults: string[] = [];
  const text = (key: string, fallback?: string): string => {
    const value = env[key] ?? fallback;
    if (value === undefined || value === "") faults.push(`${key} is required`);
    return value ?? "";
  };
  const number = (key: string, fallback: number, min: number, max: number): number => {
    const value = env[key] === undefined ? fallback : Number(env[key]);
    if (!Number.isFinite(value) || value < min || value > max)
      faults.push(`${key} must be a number from ${String(min)} to ${String(max)}, not ${String(env[key])}`);
    return value;
  };
  const day = 86_400_000;
  const authority = readAuthority(env);
  faults.push(...authority.faults);
  const config: Config = {
    host: text("TRACKER_HOST", "127.0.0.1"),
    port: number("TRACKER_PORT", 0, 0, 65_535),
    name: text("TRACKER_NAME"),
    region: text("TRACKER_REGION"),
    ledgerFile: text("TRACKER_LEDGER"),
    topology: loadTopology(env.HIGHWATER_TOPOLOGY, faults),
    authority: authority.settings,
    probeIntervalMs: number("TRACKER_PROBE_INTERVAL_MS", 150, 10, 60_000),
    busyPollMs: number("TRACKER_BUSY_POLL_MS", 2, 0, 1_000),
    idlePollMs: number("TRACKER_IDLE_POLL_MS", 100, 1, 60_000),
    heartbeatMs: number("TRACKER_HEARTBEAT_MS", 5_000, 100, 60_000),
    aliveMs: number("TRACKER_ALIVE_MS", 3_000, 100, 600_000),
    publishPatienceMs: number("TRACKER_PUBLISH_PATIENCE_MS", 5_000, 1, 600_000),
    intentPatienceMs: number("TRACKER_INTENT_PATIENCE_MS", 90_000, 100, day),
    intentGraceMs: number("TRACKER_INTENT_GRACE_MS", 5_000, 0, day),
    keepDurableMs: number("TRACKER_KEEP_DURABLE_MS", 3_600_000, 1_000, day),
    retentionMs: number("HIGHWATER_RETENTION_MS", day, 1_000, 365 * day),
    maintainMs: number("TRACKER_MAINTAIN_MS", 600_000, 100, day),
    bodyLimitBytes: number("TRACKER_BODY_LIMIT_BYTES", 16 * 1024 * 1024, 1_024, 1024 * 1024 * 1024),
    connectTimeoutMs: number("TRACKER_CONNECT_TIMEOUT_MS", 2_000, 10, 60_000),
    callTimeoutMs: number("TRACKER_CALL_TIMEOUT_MS", 2_000, 10, 60_000),
  };
  if (faults.length > 0) throw new ConfigError(faults);
  return Object.freeze(config);
}

/** JSON text, or `@` and the path of a file that holds it. */
function loadTopology(value: string | undefined, faults: string[]): Topology {
  const nothing: Topology = { nodes: [], levels: {} };
  if (value === undefined || value === "") {
    faults.push("HIGHWATER_TOPOLOGY is required: JSON, or @FILE");
    return nothing;
  }
  try {
    const parsed: unknown = JSON.parse(value.startsWith("@") ? readFileSync(value.slice(1), "utf8") : value);
    const checked = validate(Topology, parsed);
    if (!checked.ok) {
      faults.push(...checked.faults.map((fault) => `HIGHWATER_TOPOLOGY${fault}`));
      return nothing;
    }
    faults.push(...topologyFaults(checked.value).map((fault) => `HIGHWATER_TOPOLOGY: ${fault}`));
    return checked.value;
  } catch (cause) {
    faults.push(
      `HIGHWATER_TOPOLOGY cannot be read: ${cause instanceof Error ? cause.message : String(cause)}`,
    );
    return nothing;
  }
}
