// The environment as a frozen Config: every variable in one table, every fault reported at once, no fault quoting a value.
import { Topology, topologyFaults, validate } from "@highwater/protocol";
import {
  AUTHORITY_VARIABLES,
  type AuthoritySettings,
  describeAuthority,
  POSTGRES_DEFAULTS,
  readAuthority,
} from "@highwater/store";

import {
  describeIdentity,
  IDENTITY_VARIABLES,
  type IdentitySettings,
  readIdentity,
} from "./identity/settings.ts";

type Read<T> = (text: string | undefined, readFile: ReadFile) => T;
export type ReadFile = (path: string) => string;

interface Range {
  readonly fallback: number;
  readonly min: number;
  readonly max: number;
}

interface Setting<T> {
  readonly variable: string;
  readonly read: Read<T>;
  /** Of a whole number. */
  readonly range?: Range;
}

/** What is wrong with one variable; a variable can have several faults. */
class Faults extends Error {
  readonly faults: readonly string[];

  constructor(...faults: string[]) {
    super(faults.join("; "));
    this.faults = faults;
  }
}

function text(variable: string, fallback?: string): Setting<string> {
  return {
    variable,
    read: (value) => {
      const found = value === undefined || value === "" ? fallback : value;
      if (found === undefined) throw new Faults("is required");
      return found;
    },
  };
}

function name(variable: string): Setting<string> {
  const { read } = text(variable);
  return {
    variable,
    read: (value, readFile) => {
      const found = read(value, readFile);
      if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$/.test(found))
        throw new Faults(
          "must be 1 to 40 letters, digits, '.', '_' or '-', beginning with a letter or digit",
        );
      return found;
    },
  };
}

function integer(variable: string, range: Range): Setting<number> {
  return {
    variable,
    range,
    read: (value) => {
      if (value === undefined || value === "") return range.fallback;
      const number = Number(value);
      if (!/^[0-9]+$/.test(value) || number < range.min || number > range.max)
        throw new Faults(`must be a whole number from ${String(range.min)} to ${String(range.max)}`);
      return number;
    },
  };
}

const trackers: Setting<readonly string[]> = {
  variable: "GATEWAY_TRACKERS",
  read: (value) => {
    const urls = (value ?? "")
      .split(",")
      .map((url) => url.trim())
      .filter((url) => url !== "");
    const faults = urls.flatMap((url, index) =>
      isHttpUrl(url) ? [] : [`entry ${String(index)} is not an http or https URL`],
    );
    if (faults.length > 0) throw new Faults(...faults);
    return Object.freeze([...new Set(urls.map((url) => url.replace(/\/+$/, "")))]);
  },
};

function isHttpUrl(url: string): boolean {
  return URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
}

const topology: Setting<Topology> = {
  variable: "HIGHWATER_TOPOLOGY",
  read: (value, readFile) => {
    if (value === undefined || value === "") throw new Faults("is required");
    const json = value.startsWith("@") ? readTopologyFile(value.slice(1), readFile) : value;
    let parsed: unknown;
    try {
      parsed = JSON.parse(json);
    } catch {
      // The parser's message quotes the text, which holds passwords.
      throw new Faults("is not JSON");
    }
    const checked = validate(Topology, parsed);
    if (!checked.ok) throw new Faults(...checked.faults);
    const faults = topologyFaults(checked.value);
    if (faults.length > 0) throw new Faults(...faults);
    return checked.value;
  },
};

function readTopologyFile(path: string, readFile: ReadFile): string {
  try {
    return readFile(path);
  } catch (cause) {
    throw new Faults(`the file cannot be read: ${String((cause as { code?: unknown }).code)}`);
  }
}

const HOUR_MS = 3_600_000;
const MEBIBYTE = 1_048_576;

const SETTINGS = {
  host: text("GATEWAY_HOST", "127.0.0.1"),
  /** 0: any free one. */
  port: integer("GATEWAY_PORT", { fallback: 0, min: 0, max: 65_535 }),
  /** Unique among the running gateways. */
  name: name("GATEWAY_NAME"),
  region: name("GATEWAY_REGION"),
  topology,
  /** Base URLs, nearest first. */
  trackers,
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
  /** Interactive transactions: all of them, and of one key. Each holds a database session. */
  maxOpen: integer("GATEWAY_MAX_OPEN", { fallback: 64, min: 0, max: 100_000 }),
  maxOpenPerKey: integer("GATEWAY_MAX_OPEN_PER_KEY", { fallback: 8, min: 0, max: 100_000 }),
  /** An open transaction is rolled back when no call has come for so long, and when it has been open for so long. */
  idleTimeoutMs: integer("GATEWAY_IDLE_TIMEOUT_MS", { fallback: 10_000, min: 1, max: HOUR_MS }),
  totalTimeoutMs: integer("GATEWAY_TOTAL_TIMEOUT_MS", { fallback: 60_000, min: 1, max: HOUR_MS }),
  /** Safe transactions that may wait for their marks at a time; more are refused before they run. */
  maxWaiting: integer("GATEWAY_MAX_WAITING", { fallback: 20_000, min: 1, max: 1_000_000 }),
  bodyLimitBytes: integer("GATEWAY_BODY_LIMIT_BYTES", {
    fallback: 4 * MEBIBYTE,
    min: 1_024,
    max: 1_024 * MEBIBYTE,
  }),
  /** Per statement; more are left out and the result is marked truncated. */
  maxRows: integer("GATEWAY_MAX_ROWS", { fallback: 100_000, min: 1, max: 10_000_000 }),
  /** Of all results of a transaction together. */
  maxResultBytes: integer("GATEWAY_MAX_RESULT_BYTES", {
    fallback: 64 * MEBIBYTE,
    min: 1_024,
    max: 512 * MEBIBYTE,
  }),
  probeIntervalMs: integer("GATEWAY_PROBE_INTERVAL_MS", { fallback: 250, min: 10, max: 60_000 }),
  maxPendingAnnouncements: integer("GATEWAY_MAX_PENDING_ANNOUNCEMENTS", {
    fallback: 100_000,
    min: 1,
    max: 10_000_000,
  }),
  retentionMs: integer("HIGHWATER_RETENTION_MS", {
    fallback: 24 * HOUR_MS,
    min: 1_000,
    max: 366 * 24 * HOUR_MS,
  }),
  /** How far ahead of the server's clock the time inside an id may be. */
  idFutureMs: integer("GATEWAY_ID_FUTURE_MS", { fallback: 300_000, min: 0, max: 24 * HOUR_MS }),
  /** How long a safe transaction waits that does not say so itself. */
  maxWaitMs: integer("GATEWAY_MAX_WAIT_MS", { fallback: 30_000, min: 0, max: 60_000 }),
} as const;

export type Config = {
  readonly [Key in keyof typeof SETTINGS]: ReturnType<(typeof SETTINGS)[Key]["read"]>;
} & {
  /** What makes a node the primary; told by several variables together. */
  readonly authority: AuthoritySettings;
  readonly identity: IdentitySettings;
};

/** Every variable that the service reads, in the order of the table; for documentation. */
export const VARIABLES: readonly string[] = [
  ...Object.values(SETTINGS).map((setting) => setting.variable),
  ...AUTHORITY_VARIABLES,
  ...IDENTITY_VARIABLES,
];

/** Default and bounds of the variables that are whole numbers; for documentation. */
export const RANGES: ReadonlyMap<string, Range> = new Map(
  Object.values<Setting<unknown>>(SETTINGS).flatMap(({ variable, range }) =>
    range === undefined ? [] : [[variable, range] as const],
  ),
);

export type LoadedConfig =
  { readonly ok: true; readonly config: Config } | { readonly ok: false; readonly faults: string[] };

/** The whole configuration, or everything that is wrong with it: one line per fault, beginning with the variable. */
export function loadConfig(
  env: Readonly<Record<string, string | undefined>>,
  readFile: ReadFile,
): LoadedConfig {
  const faults: string[] = [];
  const values: Record<string, unknown> = {};
  for (const [key, setting] of Object.entries(SETTINGS)) {
    try {
      values[key] = setting.read(env[setting.variable], readFile);
    } catch (cause) {
      if (!(cause instanceof Faults)) throw cause;
      faults.push(...cause.faults.map((fault) => `${setting.variable} ${fault}`));
    }
  }
  const authority = readAuthority(env);
  faults.push(...authority.faults);
  values["authority"] = authority.settings;
  const identity = readIdentity(env, values["host"], readFile);
  faults.push(...identity.faults);
  values["identity"] = identity.settings;
  return faults.length > 0 ? { ok: false, faults } : { ok: true, config: Object.freeze(values) as Config };
}

/** The configuration without its secrets: connection strings become node names, and trackers lose their credentials. */
export function describeConfig(config: Config): Record<string, unknown> {
  const { topology: cluster, trackers: urls, authority, identity, ...rest } = config;
  return {
    ...rest,
    authority: describeAuthority(authority),
    identity: describeIdentity(identity),
    nodes: cluster.nodes.map(({ id, region, zone }) => ({ id, region, zone })),
    levels: Object.keys(cluster.levels),
    trackers: urls.map(hostOf),
  };
}

/** Host and port of a URL: what may appear in a log or a metric. */
export function hostOf(url: string): string {
  return new URL(url).host;
}
