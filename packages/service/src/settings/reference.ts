// The table of variables for docs/reference. The settings give the defaults and bounds of numbers.
import { type Range } from "./setting.ts";

export interface About {
  /** The default of a variable that is not a whole number with bounds. */
  readonly fallback?: string;
  readonly text: string;
}

export type AboutVariables = Readonly<Record<string, About>>;

export const about = (text: string, fallback?: string): About =>
  fallback === undefined ? { text } : { text, fallback };

export const REQUIRED = "required";
export const NONE = "none";
const AUTHORITY = "[authority.md](authority.md)";
const KEYS = "[keys.md](keys.md)";

/** Variables that all services read. */
export const ABOUT_SHARED: AboutVariables = {
  HIGHWATER_TOPOLOGY: about("nodes and levels as JSON, or `@file`: [topology.md](topology.md)", REQUIRED),
  HIGHWATER_DEPLOYMENT: about(
    "name of the deployment; the same on every gateway and tracker: [keys.md](keys.md#deployment-keys)",
    REQUIRED,
  ),
  HIGHWATER_DEPLOYMENT_KEYS: about(
    "schedule of the secrets that sign tokens and tag receipts, as JSON, or `@file`; the same on every gateway and tracker: [keys.md](keys.md#deployment-keys)",
    REQUIRED,
  ),
  HIGHWATER_CONTENTS_KEYS: about(
    "schedule of the secrets that encrypt the contents of kept transactions, in the form of `HIGHWATER_DEPLOYMENT_KEYS`, or `@file`; the same on every gateway and tracker: [keys.md](keys.md#contents-keys)",
    "none: nothing is kept",
  ),
  HIGHWATER_TLS_CERTIFICATE: about(
    "the service's certificate, PEM or `@file`; if set, the port accepts only TLS: [keys.md](keys.md#tls-between-services)",
    "none: plain HTTP",
  ),
  HIGHWATER_TLS_KEY: about("private key of `HIGHWATER_TLS_CERTIFICATE`, PEM or `@file`", NONE),
  HIGHWATER_RETENTION_MS: about(
    "how long the services keep receipts, and so how old an id may be; the same on every gateway and tracker",
  ),
  HIGHWATER_SEQUENCE_RESERVE: about(
    "by how many values every sequence is advanced before an epoch begins, so that none which a lost transaction got is handed out again; 0: by none; the same on every gateway and tracker: [after a loss](../guide/after-a-loss.md#sequences)",
  ),
  HIGHWATER_REPLAY_HOLD_MS: about(
    "how long the writes of a new epoch wait at most for lost transactions with `onLost: replay` to be brought back; part of the failover time; 0: such transactions are refused; the same on every gateway and tracker: [after a loss](../guide/after-a-loss.md#bring-them-back-before-anybody-writes)",
  ),
  HIGHWATER_AUTHORITY: about(AUTHORITY, "`ancestry`"),
  HIGHWATER_LEASE_ETCD: about(AUTHORITY, NONE),
  HIGHWATER_LEASE_SCOPE: about(AUTHORITY, NONE),
  HIGHWATER_LEASE_NAMESPACE: about(AUTHORITY, "`/service/`"),
  HIGHWATER_LEASE_MEMBERS: about(AUTHORITY, NONE),
  HIGHWATER_LEASE_POLL_MS: about(AUTHORITY, "500"),
  HIGHWATER_LEASE_TIMEOUT_MS: about(AUTHORITY, "1000"),
};

/** Variables by which a service authenticates its callers. */
export function aboutIdentity(prefix: string): AboutVariables {
  return {
    [`${prefix}_AUTH`]: about(
      `credentials that the service accepts: \`keys\`, \`jwt\`, \`keys,jwt\` or \`none\`; required unless ${prefix}_HOST is loopback`,
      "`none`",
    ),
    [`${prefix}_KEY_REFRESH_MS`]: about("how often the service reads changed keys", "1000"),
    [`${prefix}_RATE_PER_SECOND`]: about(
      "maximum number of requests per second of one key, or of one subject of a JWT; a key can have its own",
      "unlimited",
    ),
    [`${prefix}_RATE_BURST`]: about(
      "maximum number of requests at once, of one key or subject, after a pause; a key can have its own",
      "one second's worth",
    ),
    [`${prefix}_CONCURRENCY`]: about(
      "maximum number of requests in flight of one key or subject; each transaction of a batch counts; a key can have its own",
      "512; unlimited with `none`",
    ),
    [`${prefix}_ADDRESS_HEADER`]: about(
      "header in which the proxy in front of the service sends the client's address, such as `x-envoy-external-address`: [keys.md](keys.md#refused-credentials)",
      NONE,
    ),
    [`${prefix}_JWT_JWKS_URL`]: about(KEYS, NONE),
    [`${prefix}_JWT_ISSUER`]: about(KEYS, NONE),
    [`${prefix}_JWT_AUDIENCE`]: about(KEYS, NONE),
    [`${prefix}_JWT_ROLES`]: about(KEYS, NONE),
    [`${prefix}_JWT_ROLE_CLAIM`]: about(KEYS, "`highwater_role`"),
    [`${prefix}_JWT_OWNER_CLAIM`]: about(KEYS, "the subject"),
    [`${prefix}_JWT_SCOPE_PREFIX`]: about(KEYS, NONE),
  };
}

/**
 * Rows of the table, in the order of the configuration. Throws unless exactly the existing
 * variables are described.
 */
export function referenceRows(
  variables: readonly string[],
  ranges: ReadonlyMap<string, Range>,
  known: AboutVariables,
): string[] {
  const strays = Object.keys(known).filter((variable) => !variables.includes(variable));
  if (strays.length > 0) throw new Error(`unknown variables: ${strays.join(", ")}`);
  return variables.map((variable) => {
    const entry = known[variable];
    if (entry === undefined) throw new Error(`${variable} is not described`);
    const range = ranges.get(variable);
    const fallback = range === undefined ? (entry.fallback ?? "") : String(range.fallback);
    const bounds = range === undefined ? "" : `${String(range.min)} to ${String(range.max)}`;
    return `| \`${variable}\` | ${fallback} | ${bounds} | ${entry.text} |`;
  });
}
