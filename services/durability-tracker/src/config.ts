// The environment as a frozen Config: every variable of the tracker, in one table.
import {
  AUTHORITY_VARIABLES,
  type AuthoritySettings,
  describeAuthority,
  readAuthority,
} from "@highwater/authority";
import {
  DEPLOYMENT_SETTINGS,
  describeSchedule,
  type Env,
  hostOf,
  identityVariables,
  type IdentitySettings,
  integer,
  LISTENER_TLS_SETTINGS,
  type Loaded,
  name,
  origins,
  type Range,
  rangesOf,
  readIdentity,
  type ReadFile,
  readSettings,
  secret,
  text,
  tlsAuthority,
  tlsFaults,
  topology,
  urls,
  type ValuesOf,
  variablesOf,
} from "@highwater/service";
import { POSTGRES_DEFAULTS } from "@highwater/store";

import { WEBHOOK_SETTINGS } from "./webhooks/settings.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const MEBIBYTE = 1_048_576;

const SETTINGS = {
  host: text("TRACKER_HOST", "127.0.0.1"),
  /** 0: any free one. */
  port: integer("TRACKER_PORT", { fallback: 0, min: 0, max: 65_535 }),
  /** Of the pages that may call from a browser. */
  corsOrigins: origins("TRACKER_CORS_ORIGINS"),
  /** Unique among the running trackers. */
  name: name("TRACKER_NAME"),
  region: name("TRACKER_REGION"),
  /** The file that holds the ledger; its folder must exist. */
  ledgerFile: text("TRACKER_LEDGER"),
  /** The file that holds contents and the list of what was lost. Empty: beside the ledger. */
  contentsFile: text("TRACKER_CONTENTS", ""),
  /** Bytes of the contents in it: all of them, and those of one owner. */
  contentsBytes: integer("TRACKER_CONTENTS_BYTES", {
    fallback: 1_024 * MEBIBYTE,
    min: 0,
    max: 1_024 * 1_024 * MEBIBYTE,
  }),
  contentsBytesPerOwner: integer("TRACKER_CONTENTS_BYTES_PER_OWNER", {
    fallback: 256 * MEBIBYTE,
    min: 0,
    max: 1_024 * 1_024 * MEBIBYTE,
  }),
  /** How long a lost transaction is listed, and its contents are kept. */
  keepLostMs: integer("TRACKER_KEEP_LOST_MS", { fallback: 30 * DAY_MS, min: 1_000, max: 366 * DAY_MS }),
  /** Base URLs of the gateways that replays are passed on to, nearest first. */
  gateways: urls("TRACKER_GATEWAYS"),
  /** By whom their certificates are signed. */
  tlsAuthority,
  topology,
  ...DEPLOYMENT_SETTINGS,
  ...LISTENER_TLS_SETTINGS,
  probeIntervalMs: integer("TRACKER_PROBE_INTERVAL_MS", { fallback: 150, min: 10, max: 60_000 }),
  /** The same once nothing has happened for a while. */
  calmProbeIntervalMs: integer("TRACKER_CALM_PROBE_INTERVAL_MS", { fallback: 1_500, min: 10, max: 60_000 }),
  /** Pause between two looks at the positions while something is pending, and while nothing is. */
  busyPollMs: integer("TRACKER_BUSY_POLL_MS", { fallback: 1, min: 0, max: 1_000 }),
  idlePollMs: integer("TRACKER_IDLE_POLL_MS", { fallback: 1_000, min: 1, max: 60_000 }),
  heartbeatMs: integer("TRACKER_HEARTBEAT_MS", { fallback: 5_000, min: 100, max: 60_000 }),
  maxStreams: integer("TRACKER_MAX_STREAMS", { fallback: 20_000, min: 1, max: 1_000_000 }),
  /** Of one key. Gateways are not counted. */
  maxStreamsPerKey: integer("TRACKER_MAX_STREAMS_PER_KEY", { fallback: 256, min: 1, max: 1_000_000 }),
  /** Tokens of one key for whose verdicts requests wait. */
  maxWaitingPerKey: integer("TRACKER_MAX_WAITING_PER_KEY", {
    fallback: 100_000,
    min: 1,
    max: 100_000_000,
  }),
  /** Ten seconds' worth at once; a request has 10,000 tokens at most. */
  tokensPerSecondPerKey: integer("TRACKER_TOKENS_PER_SECOND_PER_KEY", {
    fallback: 20_000,
    min: 1_000,
    max: 10_000_000,
  }),
  aliveMs: integer("TRACKER_ALIVE_MS", { fallback: 3_000, min: 100, max: 600_000 }),
  publishPatienceMs: integer("TRACKER_PUBLISH_PATIENCE_MS", { fallback: 5_000, min: 1, max: 600_000 }),
  intentPatienceMs: integer("TRACKER_INTENT_PATIENCE_MS", { fallback: 90_000, min: 100, max: DAY_MS }),
  intentGraceMs: integer("TRACKER_INTENT_GRACE_MS", { fallback: 5_000, min: 0, max: DAY_MS }),
  /** What is not durable at it is exposed. Empty: `region`, or the strongest. */
  exposureLevel: text("TRACKER_EXPOSURE_LEVEL", ""),
  /** A level whose mark stands still for so long, while something waits for it, is stalled. */
  stallAfterMs: integer("TRACKER_STALL_AFTER_MS", { fallback: 10_000, min: 100, max: HOUR_MS }),
  keepDurableMs: integer("TRACKER_KEEP_DURABLE_MS", { fallback: HOUR_MS, min: 1_000, max: DAY_MS }),
  /** Above this number the oldest of those leave sooner. */
  maxKept: integer("TRACKER_MAX_KEPT", { fallback: 1_000_000, min: 1_000, max: 100_000_000 }),
  /** Transactions of one owner that are known by presented tokens alone; the rest stay pending. */
  tokensPerOwner: integer("TRACKER_TOKENS_PER_OWNER", { fallback: 100_000, min: 0, max: 100_000_000 }),
  eventsKeepMs: integer("TRACKER_EVENTS_KEEP_MS", { fallback: 7 * DAY_MS, min: 1_000, max: 366 * DAY_MS }),
  eventStreams: integer("TRACKER_EVENT_STREAMS", { fallback: 5_000, min: 1, max: 1_000_000 }),
  eventStreamsPerKey: integer("TRACKER_EVENT_STREAMS_PER_KEY", { fallback: 500, min: 1, max: 1_000_000 }),
  ...WEBHOOK_SETTINGS,
  retentionMs: integer("HIGHWATER_RETENTION_MS", { fallback: DAY_MS, min: 1_000, max: 366 * DAY_MS }),
  maintainMs: integer("TRACKER_MAINTAIN_MS", { fallback: 600_000, min: 100, max: DAY_MS }),
  bodyLimitBytes: integer("TRACKER_BODY_LIMIT_BYTES", {
    fallback: 16 * MEBIBYTE,
    min: 1_024,
    max: 1_024 * MEBIBYTE,
  }),
  connectTimeoutMs: integer("TRACKER_CONNECT_TIMEOUT_MS", {
    fallback: POSTGRES_DEFAULTS.connectTimeoutMs,
    min: 10,
    max: 60_000,
  }),
  callTimeoutMs: integer("TRACKER_CALL_TIMEOUT_MS", { fallback: 2_000, min: 10, max: 60_000 }),
  /** By which gateways are known. While it is replaced, the one before is good as well. */
  internalSecret: secret("HIGHWATER_INTERNAL_SECRET"),
  internalSecretPrevious: secret("HIGHWATER_INTERNAL_SECRET_PREVIOUS"),
} as const;

/** The file of contents. */
export function contentsFileOf({ contentsFile, ledgerFile }: Config): string {
  return contentsFile === "" ? `${ledgerFile}-contents` : contentsFile;
}

export type Config = ValuesOf<typeof SETTINGS> & {
  /** The rule that makes a node the primary; several variables together give it. */
  readonly authority: AuthoritySettings;
  readonly identity: IdentitySettings;
};

/** Every variable that the service reads, in the order of the table; for documentation. */
export const VARIABLES: readonly string[] = [
  ...variablesOf(SETTINGS),
  ...AUTHORITY_VARIABLES,
  ...identityVariables("TRACKER"),
];

/** Default and bounds of the variables that are whole numbers; for documentation. */
export const RANGES: ReadonlyMap<string, Range> = rangesOf(SETTINGS);

type Levels = Config["topology"]["levels"];

export type LoadedConfig = Loaded<Config>;

/**
 * The whole configuration, or everything that is wrong with it: one line per fault, beginning with
 * the variable.
 */
export function loadConfig(env: Env, readFile: ReadFile): LoadedConfig {
  const { values, faults } = readSettings(SETTINGS, env, readFile);
  const authority = readAuthority(env);
  const identity = readIdentity(env, { prefix: "TRACKER", host: values.host });
  faults.push(...authority.faults, ...identity.faults);
  const { keys, jwt } = identity.settings;
  // Gateways speak for all their callers, and no key or token may do that.
  if ((keys || jwt !== null) && (env["HIGHWATER_INTERNAL_SECRET"] ?? "") === "")
    faults.push("HIGHWATER_INTERNAL_SECRET is required unless TRACKER_AUTH is none");
  if (faults.length > 0) return { ok: false, faults };
  const { levels } = values.topology;
  faults.push(...tlsFaults(values));
  faults.push(...exposureFaults(values.exposureLevel, levels), ...leaseFaults(authority.settings, levels));
  if (faults.length > 0) return { ok: false, faults };
  const config = { ...values, authority: authority.settings, identity: identity.settings };
  return { ok: true, config: Object.freeze(config) };
}

/** The level at which it is counted what is at risk. */
export function exposureLevelOf({ exposureLevel }: Pick<Config, "exposureLevel">, levels: Levels): string {
  if (exposureLevel !== "") return exposureLevel;
  const names = Object.keys(levels);
  return names.includes("region") ? "region" : (names.at(-1) ?? "");
}

export function exposureFaults(level: string, levels: Levels): string[] {
  if (level === "" || level in levels) return [];
  return [`TRACKER_EXPOSURE_LEVEL is not a configured level; use one of ${Object.keys(levels).join(", ")}`];
}

/** Without an HA manager's lease it is unknown which nodes it may promote. */
export function leaseFaults({ kind }: AuthoritySettings, levels: Levels): string[] {
  return Object.entries(levels).flatMap(([level, rule]) =>
    "synchronous" in rule && kind !== "lease"
      ? [
          `HIGHWATER_TOPOLOGY: level ${level} counts synchronous standbys, which needs HIGHWATER_AUTHORITY=lease`,
        ]
      : [],
  );
}

/** The configuration without its secrets: connection strings become node names. */
export function describeConfig(config: Config): Record<string, unknown> {
  const {
    topology: cluster,
    gateways,
    authority,
    internalSecret,
    internalSecretPrevious,
    deploymentKeys,
    contentsKeys,
    tlsCertificate,
    tlsKey: _key,
    tlsAuthority: authorities,
    ...rest
  } = config;
  return {
    ...rest,
    hasTls: tlsCertificate !== null,
    hasTlsAuthority: authorities !== null,
    deploymentKeys: describeSchedule(deploymentKeys),
    contentsKeys: contentsKeys === null ? null : describeSchedule(contentsKeys),
    authority: describeAuthority(authority),
    gateways: gateways.map(hostOf),
    nodes: cluster.nodes.map(({ id, region, zone }) => ({ id, region, zone })),
    levels: Object.keys(cluster.levels),
    internalSecrets: [internalSecret, internalSecretPrevious].filter((one) => one !== null).length,
  };
}
