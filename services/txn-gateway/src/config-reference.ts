// What every variable means, for docs/reference/gateway-config.md. Defaults and bounds of numbers come from config.ts itself.
import { RANGES, VARIABLES } from "./config.ts";

interface About {
  /** Of what is not a whole number with bounds of its own. */
  readonly fallback?: string;
  readonly text: string;
}

const about = (text: string, fallback?: string): About =>
  fallback === undefined ? { text } : { text, fallback };

const REQUIRED = "required";
const NONE = "none";
const AUTHORITY = "[authority.md](authority.md)";
const KEYS = "[keys.md](keys.md)";

const ABOUT: Readonly<Record<string, About>> = {
  GATEWAY_HOST: about("where it listens", "`127.0.0.1`"),
  GATEWAY_PORT: about("0: any free port"),
  GATEWAY_NAME: about("unique among the running gateways; the first part of `Highwater-Session`", REQUIRED),
  GATEWAY_REGION: about("where it is; `mode: local` reads there", REQUIRED),
  HIGHWATER_TOPOLOGY: about("nodes and levels as JSON, or `@file`", REQUIRED),
  GATEWAY_TRACKERS: about("base URLs of the trackers, nearest first, separated by commas", NONE),
  GATEWAY_POOL_SIZE: about("database sessions of the service's own role to each node"),
  GATEWAY_POOL_QUEUE: about("transactions that may wait for one of them; more get 503 `overloaded`"),
  GATEWAY_CONNECT_TIMEOUT_MS: about("for a connection to a node"),
  GATEWAY_STATEMENT_TIMEOUT_MS: about("for one statement; a key can have its own"),
  GATEWAY_LOCK_TIMEOUT_MS: about("for a statement's wait for a lock; a key can have its own"),
  GATEWAY_ROLE_POOL_SIZE: about("database sessions of each key's login role to each node"),
  GATEWAY_MAX_OPEN: about("interactive transactions that may be open"),
  GATEWAY_MAX_OPEN_PER_KEY: about("the same of one key; a key can have its own"),
  GATEWAY_IDLE_TIMEOUT_MS: about("an open transaction is rolled back when no call has come for so long"),
  GATEWAY_TOTAL_TIMEOUT_MS: about("what a transaction of either kind may take in all"),
  GATEWAY_MAX_WAITING: about("safe transactions that may wait to become durable at a time"),
  GATEWAY_BODY_LIMIT_BYTES: about("of a request; more is 413 `body_too_large`"),
  GATEWAY_MAX_ROWS: about("of one result"),
  GATEWAY_MAX_RESULT_BYTES: about("of all results of a request together"),
  GATEWAY_PROBE_INTERVAL_MS: about("how often the nodes are looked at"),
  GATEWAY_MAX_PENDING_ANNOUNCEMENTS: about(
    "transactions that no tracker has acknowledged; at the bound 503 `exposure_limit`",
  ),
  HIGHWATER_RETENTION_MS: about(
    "how long receipts are kept, and so how old an id may be; the same everywhere",
  ),
  GATEWAY_ID_FUTURE_MS: about("how far ahead of the server's clock the time inside an id may be"),
  GATEWAY_MAX_WAIT_MS: about("`maxWaitMs` of a safe transaction that does not say it"),
  HIGHWATER_AUTHORITY: about(AUTHORITY, "`ancestry`"),
  HIGHWATER_LEASE_ETCD: about(AUTHORITY, NONE),
  HIGHWATER_LEASE_SCOPE: about(AUTHORITY, NONE),
  HIGHWATER_LEASE_NAMESPACE: about(AUTHORITY, "`/service/`"),
  HIGHWATER_LEASE_MEMBERS: about(AUTHORITY, NONE),
  HIGHWATER_LEASE_POLL_MS: about(AUTHORITY, "500"),
  HIGHWATER_LEASE_TIMEOUT_MS: about(AUTHORITY, "1000"),
  GATEWAY_AUTH: about(
    "`keys`, `jwt`, `keys,jwt` or `none`; must be said where GATEWAY_HOST is not loopback",
    "`none`",
  ),
  GATEWAY_KEY_REFRESH_MS: about("how often changed keys are read", "1000"),
  GATEWAY_ROLE_PASSWORDS: about("passwords of login roles as JSON, by role, or `@file`", NONE),
  GATEWAY_SESSION_SECRET: about(
    "signs `Highwater-Session`, at least 16 characters; the same for all gateways",
    "random, of the process",
  ),
  GATEWAY_RATE_PER_SECOND: about("requests of one id per second", "unlimited"),
  GATEWAY_RATE_BURST: about("requests at once after a pause", "one second's worth"),
  GATEWAY_CONCURRENCY: about("requests of one id in flight", "unlimited"),
  GATEWAY_JWT_JWKS_URL: about(KEYS, NONE),
  GATEWAY_JWT_ISSUER: about(KEYS, NONE),
  GATEWAY_JWT_AUDIENCE: about(KEYS, NONE),
  GATEWAY_JWT_ROLES: about(KEYS, NONE),
  GATEWAY_JWT_ROLE_CLAIM: about(KEYS, "`highwater_role`"),
  GATEWAY_JWT_OWNER_CLAIM: about(KEYS, "the subject"),
  GATEWAY_JWT_SCOPE_PREFIX: about(KEYS, NONE),
};

/** Rows of the table, in the order of the configuration. Throws when it does not know exactly the variables that there are. */
export function configRows(): string[] {
  const strays = Object.keys(ABOUT).filter((variable) => !VARIABLES.includes(variable));
  if (strays.length > 0) throw new Error(`there are no such variables: ${strays.join(", ")}`);
  return VARIABLES.map((variable) => {
    const entry = ABOUT[variable];
    if (entry === undefined) throw new Error(`${variable} is not described`);
    const range = RANGES.get(variable);
    const fallback = range === undefined ? (entry.fallback ?? "") : String(range.fallback);
    const bounds = range === undefined ? "" : `${String(range.min)} to ${String(range.max)}`;
    return `| \`${variable}\` | ${fallback} | ${bounds} | ${entry.text} |`;
  });
}
