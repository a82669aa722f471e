// The environment as a frozen Config: every variable of the gateway, in one table.
import {
  AUTHORITY_VARIABLES,
  type AuthoritySettings,
  describeAuthority,
  readAuthority,
} from "@highwater/authority";
import { type Topology } from "@highwater/protocol";
import {
  choice,
  DEPLOYMENT_SETTINGS,
  describeSchedule,
  type Env,
  Faults,
  flag,
  hostOf,
  identityVariables,
  type IdentitySettings,
  integer,
  isAnonymous,
  isLoopback,
  listOf,
  LISTENER_TLS_SETTINGS,
  type Loaded,
  name,
  origins,
  type Range,
  rangesOf,
  readIdentity,
  type ReadFile,
  readSettings,
  readText,
  secret,
  type Setting,
  text,
  tlsAuthority,
  tlsFaults,
  topology,
  urls,
  type ValuesOf,
  variablesOf,
} from "@highwater/service";
import { POSTGRES_DEFAULTS } from "@highwater/store";
import {
  EXPOSURE_RANGES,
  EXPOSURE_VARIABLES,
  type ExposureSettings,
  readExposure,
} from "./exposure/settings.ts";
import { addressOf } from "./wire/startup/backend.ts";
import { isNetwork } from "./wire/startup/proxy-header.ts";
import { parseRolePasswords } from "./identity/role-url.ts";

/** A role without an entry logs in without a password. */
const rolePasswords: Setting<ReadonlyMap<string, string>> = {
  variable: "GATEWAY_ROLE_PASSWORDS",
  read: (value, readFile) => {
    if (value === undefined || value === "") return new Map();
    const read = parseRolePasswords(value.startsWith("@") ? readText(value.slice(1), readFile) : value);
    if (read.ok) return read.passwords;
    throw new Faults(...read.faults);
  },
};

/** Null: the gateway does not listen on this port. */
function optionalPort(variable: string): Setting<number | null> {
  return {
    variable,
    read: (value) => {
      if (value === undefined || value === "") return null;
      const port = Number(value);
      if (!/^[0-9]{1,5}$/.test(value) || port > 65_535) throw new Faults("must be a port from 0 to 65535");
      return port;
    },
  };
}

const pgAuth = choice("GATEWAY_PG_AUTH", ["keys", "passthrough"]);

/** What the application declares of transactions with `onLost`; see ReplayRequest. */
const replayIndependent = choice("GATEWAY_REPLAY_INDEPENDENT", ["none", "rows", "all"]);

/** Addresses and networks, separated by commas. */
const pgProxies: Setting<readonly string[]> = {
  variable: "GATEWAY_PG_PROXIES",
  read: (value) => {
    const found = listOf(value);
    const faults = found.flatMap((one, index) =>
      isNetwork(one) ? [] : [`entry ${String(index)} is not an address or a network, such as 10.0.0.0/16`],
    );
    if (faults.length > 0) throw new Faults(...faults);
    return Object.freeze(found);
  },
};

const HOUR_MS = 3_600_000;
const MEBIBYTE = 1_048_576;
/** One owner gets at most half of the memory, and a large row takes three times its bytes. */
const RESULT_MEMORY_FACTOR = 6;

/** The settings for the store. The command for API keys needs no others. */
const STORE_SETTINGS = {
  /** Unique among the running gateways. */
  name: name("GATEWAY_NAME"),
  topology,
  poolSize: integer("GATEWAY_POOL_SIZE", { fallback: POSTGRES_DEFAULTS.poolSize, min: 1, max: 1_000 }),
  poolQueue: integer("GATEWAY_POOL_QUEUE", { fallback: POSTGRES_DEFAULTS.poolQueue, min: 0, max: 1_000_000 }),
  connectTimeoutMs: integer("GATEWAY_CONNECT_TIMEOUT_MS", {
    fallback: POSTGRES_DEFAULTS.connectTimeoutMs,
    min: 10,
    max: 60_000,
  }),
  statementTimeoutMs: integer("GATEWAY_STATEMENT_TIMEOUT_MS", { fallback: 30_000, min: 1, max: HOUR_MS }),
  /** How long a statement waits for a lock. */
  lockTimeoutMs: integer("GATEWAY_LOCK_TIMEOUT_MS", {
    fallback: POSTGRES_DEFAULTS.lockTimeoutMs,
    min: 1,
    max: HOUR_MS,
  }),
  /** Sessions of each key's login role to each node. */
  rolePoolSize: integer("GATEWAY_ROLE_POOL_SIZE", {
    fallback: POSTGRES_DEFAULTS.rolePoolSize,
    min: 1,
    max: 1_000,
  }),
  retentionMs: integer("HIGHWATER_RETENTION_MS", {
    fallback: 24 * HOUR_MS,
    min: 1_000,
    max: 366 * 24 * HOUR_MS,
  }),
  rolePasswords,
} as const;

const SETTINGS = {
  host: text("GATEWAY_HOST", "127.0.0.1"),
  /** 0: any free one. */
  port: integer("GATEWAY_PORT", { fallback: 0, min: 0, max: 65_535 }),
  /** The port for clients of PostgreSQL. 0: any free one. */
  pgPort: optionalPort("GATEWAY_PG_PORT"),
  /** The port for clients of PostgreSQL that only read. 0: any free one. */
  pgReadPort: optionalPort("GATEWAY_PG_READ_PORT"),
  pgAuth,
  /** The proxies that name their clients in a PROXY header. */
  pgProxies,
  pgMaxConnections: integer("GATEWAY_PG_MAX_CONNECTIONS", { fallback: 1_000, min: 1, max: 100_000 }),
  pgMaxConnectionsPerRole: integer("GATEWAY_PG_MAX_CONNECTIONS_PER_ROLE", {
    fallback: 1_000,
    min: 1,
    max: 100_000,
  }),
  /** How long a client may read nothing of an answer before its session ends. */
  pgReadTimeoutMs: integer("GATEWAY_PG_READ_TIMEOUT_MS", {
    fallback: 300_000,
    min: 1_000,
    max: 24 * HOUR_MS,
  }),
  /** How long a client may send nothing outside of a transaction before its session ends. */
  pgIdleTimeoutMs: integer("GATEWAY_PG_IDLE_TIMEOUT_MS", { fallback: 0, min: 0, max: 24 * HOUR_MS }),
  /** Base URLs of the other gateways. A client's cancel may reach another one than its session. */
  peers: urls("GATEWAY_PEERS"),
  /** Origins of the pages that may call from a browser. */
  corsOrigins: origins("GATEWAY_CORS_ORIGINS"),
  region: name("GATEWAY_REGION"),
  ...DEPLOYMENT_SETTINGS,
  ...LISTENER_TLS_SETTINGS,
  /** Base URLs of the trackers, nearest first. */
  trackers: urls("GATEWAY_TRACKERS"),
  tlsAuthority,
  ...STORE_SETTINGS,
  /** Interactive transactions: all of them, and of one key. Each holds a database session. */
  maxOpen: integer("GATEWAY_MAX_OPEN", { fallback: 256, min: 0, max: 100_000 }),
  maxOpenPerKey: integer("GATEWAY_MAX_OPEN_PER_KEY", { fallback: 32, min: 0, max: 100_000 }),
  /**
   * An open transaction is rolled back when no call has come for `idleTimeoutMs`, and when it has
   * been open for `totalTimeoutMs`.
   */
  idleTimeoutMs: integer("GATEWAY_IDLE_TIMEOUT_MS", { fallback: 10_000, min: 1, max: HOUR_MS }),
  totalTimeoutMs: integer("GATEWAY_TOTAL_TIMEOUT_MS", { fallback: 60_000, min: 1, max: HOUR_MS }),
  /**
   * Tickets of transactions on the applications' own connections that may be open; of one owner
   * half as many.
   */
  maxTickets: integer("GATEWAY_MAX_TICKETS", { fallback: 20_000, min: 2, max: 1_000_000 }),
  /**
   * Safe transactions that may wait for their marks at a time. More are refused before they run.
   */
  maxWaiting: integer("GATEWAY_MAX_WAITING", { fallback: 20_000, min: 1, max: 1_000_000 }),
  bodyLimitBytes: integer("GATEWAY_BODY_LIMIT_BYTES", {
    fallback: 4 * MEBIBYTE,
    min: 1_024,
    max: 1_024 * MEBIBYTE,
  }),
  /** Rows per statement. More are left out, and the result is marked as truncated. */
  maxRows: integer("GATEWAY_MAX_ROWS", { fallback: 100_000, min: 1, max: 10_000_000 }),
  /** Bytes of all results of a transaction together. */
  maxResultBytes: integer("GATEWAY_MAX_RESULT_BYTES", {
    fallback: 64 * MEBIBYTE,
    min: 1_024,
    max: 512 * MEBIBYTE,
  }),
  /** Memory of all results that the process holds. A value takes up to three times its bytes. */
  resultMemoryBytes: integer("GATEWAY_RESULT_MEMORY_BYTES", {
    fallback: 512 * MEBIBYTE,
    min: 8_192,
    max: 1_024 * 1_024 * MEBIBYTE,
  }),
  /** How long a client may read nothing of a large answer before it is disconnected. */
  readTimeoutMs: integer("GATEWAY_READ_TIMEOUT_MS", { fallback: 30_000, min: 100, max: HOUR_MS }),
  probeIntervalMs: integer("GATEWAY_PROBE_INTERVAL_MS", { fallback: 250, min: 10, max: 60_000 }),
  maxPendingAnnouncements: integer("GATEWAY_MAX_PENDING_ANNOUNCEMENTS", {
    fallback: 100_000,
    min: 1,
    max: 10_000_000,
  }),
  /** Whether contents are kept of transactions whose request does not say. */
  keep: flag("GATEWAY_KEEP"),
  /** Bytes of the statements and parameters of one transaction that is kept. */
  keepBytes: integer("GATEWAY_KEEP_BYTES", { fallback: 65_536, min: 1_024, max: 4 * MEBIBYTE }),
  /** Bytes of sealed contents that no tracker has acknowledged. */
  keepPendingBytes: integer("GATEWAY_KEEP_PENDING_BYTES", {
    fallback: 64 * MEBIBYTE,
    min: 8 * MEBIBYTE,
    max: 1_024 * MEBIBYTE,
  }),
  /** How long an answer waits until a tracker has the contents. */
  keepWaitMs: integer("GATEWAY_KEEP_WAIT_MS", { fallback: 1_000, min: 0, max: 60_000 }),
  replayIndependent,
  /** How far ahead of the server's clock the time inside an id may be. */
  idFutureMs: integer("GATEWAY_ID_FUTURE_MS", { fallback: 300_000, min: 0, max: 24 * HOUR_MS }),
  /** How long a safe transaction waits if its request does not say. */
  maxWaitMs: integer("GATEWAY_MAX_WAIT_MS", { fallback: 30_000, min: 0, max: 60_000 }),
  /** The secret by which trackers and other gateways know the gateway. */
  internalSecret: secret("HIGHWATER_INTERNAL_SECRET"),
} as const;

export type Config = ValuesOf<typeof SETTINGS> & {
  /** The rule that makes a node the primary. Several variables define it together. */
  readonly authority: AuthoritySettings;
  readonly identity: IdentitySettings;
  readonly exposure: ExposureSettings;
};

/** The settings that makeStore() and the rule of authority need. */
export type StoreConfig = ValuesOf<typeof STORE_SETTINGS> & { readonly authority: AuthoritySettings };

export function loadStoreConfig(env: Env, readFile: ReadFile): Loaded<StoreConfig> {
  const { values, faults } = readSettings(STORE_SETTINGS, env, readFile);
  const authority = readAuthority(env);
  faults.push(...authority.faults);
  if (faults.length > 0) return { ok: false, faults };
  return { ok: true, config: Object.freeze({ ...values, authority: authority.settings }) };
}

/** Every variable that the service reads, in the order of the reference. */
export const VARIABLES: readonly string[] = [
  ...variablesOf(SETTINGS),
  ...EXPOSURE_VARIABLES,
  ...AUTHORITY_VARIABLES,
  ...identityVariables("GATEWAY"),
];

/** Default and bounds of the variables that are whole numbers, for the reference. */
export const RANGES: ReadonlyMap<string, Range> = new Map([...rangesOf(SETTINGS), ...EXPOSURE_RANGES]);

export type LoadedConfig = Loaded<Config>;

/**
 * Reads the whole configuration. Reports all faults at once, one per line, beginning with the
 * variable.
 */
export function loadConfig(env: Env, readFile: ReadFile): LoadedConfig {
  const { values, faults } = readSettings(SETTINGS, env, readFile);
  const authority = readAuthority(env);
  const identity = readIdentity(env, { prefix: "GATEWAY", host: values.host });
  const exposure = readExposure(env, readFile, values.topology);
  faults.push(...authority.faults, ...identity.faults, ...exposure.faults);
  if (faults.length === 0) faults.push(...tlsFaults(values));
  if (faults.length === 0 && values.pgAuth === "passthrough") faults.push(...relayFaults(values.topology));
  if (values.peers.length > 0 && values.internalSecret === null && !isAnonymous(identity.settings))
    faults.push("HIGHWATER_INTERNAL_SECRET is required with GATEWAY_PEERS, where callers need credentials");
  if (faults.length === 0 && isAnonymous(identity.settings) && !isLoopback(values.host))
    faults.push(...openFaults(values.topology));
  const { maxResultBytes, resultMemoryBytes } = values;
  const leastBytes = RESULT_MEMORY_FACTOR * maxResultBytes;
  if (faults.length === 0 && resultMemoryBytes < leastBytes)
    faults.push(
      `GATEWAY_RESULT_MEMORY_BYTES is ${String(resultMemoryBytes)}; one result of GATEWAY_MAX_RESULT_BYTES (${String(maxResultBytes)}) needs at least ${String(leastBytes)}`,
    );
  if (values.keep && values.contentsKeys === null)
    faults.push("HIGHWATER_CONTENTS_KEYS is required with GATEWAY_KEEP");
  if (faults.length > 0) return { ok: false, faults };
  const shared = { authority: authority.settings, identity: identity.settings };
  const config = { ...values, ...shared, exposure: exposure.settings };
  return { ok: true, config: Object.freeze(config) };
}

/**
 * Returns a fault for nodes to which no password's proof can be relayed. The proof names the
 * certificate that the client sees, and the server would compare it with its own. So the gateway's
 * connection to the server must have no certificate.
 */
function relayFaults({ nodes }: Topology): string[] {
  const encrypted = nodes.filter(({ url, appUrl }) => addressOf(appUrl ?? url).tls !== null);
  if (encrypted.length === 0) return [];
  const names = encrypted.map(({ id }) => id).join(", ");
  return [
    `GATEWAY_PG_AUTH is passthrough, and HIGHWATER_TOPOLOGY reaches ${names} by TLS: clients' passwords would be refused for their channel binding. Reach the nodes by a socket or a mesh with sslmode=disable, or use keys`,
  ];
}

/**
 * Returns a fault for nodes without an application role. Without authentication, requests run as
 * the role of `appUrl`, or else as the service's own role, which may change all of its tables.
 */
function openFaults({ nodes }: Topology): string[] {
  const userOf = (url: string): string => (URL.canParse(url) ? new URL(url).username : "");
  const bare = nodes.filter(({ url, appUrl }) => appUrl === undefined || userOf(appUrl) === userOf(url));
  if (bare.length === 0) return [];
  const names = bare.map(({ id }) => id).join(", ");
  return [
    `HIGHWATER_TOPOLOGY has no appUrl with a role other than the service's own for ${names}: GATEWAY_AUTH is none and GATEWAY_HOST is not loopback, so every client that can connect would run SQL as that role. Set appUrl, or GATEWAY_AUTH to keys or jwt`,
  ];
}

/**
 * Returns the configuration without its secrets: node names instead of connection strings, and
 * trackers and peers without credentials.
 */
export function describeConfig(config: Config): Record<string, unknown> {
  const { topology: cluster, trackers, peers, authority, rolePasswords: passwords, ...others } = config;
  const {
    internalSecret,
    deploymentKeys,
    contentsKeys,
    tlsCertificate,
    tlsKey: _key,
    tlsAuthority: authorities,
    ...rest
  } = others;
  return {
    ...rest,
    hasTls: tlsCertificate !== null,
    hasTlsAuthority: authorities !== null,
    deploymentKeys: describeSchedule(deploymentKeys),
    contentsKeys: contentsKeys === null ? null : describeSchedule(contentsKeys),
    authority: describeAuthority(authority),
    rolesWithPassword: [...passwords.keys()],
    hasInternalSecret: internalSecret !== null,
    nodes: cluster.nodes.map(({ id, region, zone }) => ({ id, region, zone })),
    levels: Object.keys(cluster.levels),
    trackers: trackers.map(hostOf),
    peers: peers.map(hostOf),
  };
}
