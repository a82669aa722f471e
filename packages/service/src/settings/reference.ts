// The table of variables for docs/reference. Defaults and bounds of numbers come from the settings.
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
  HIGHWATER_TOPOLOGY: about("nodes and levels as JSON, or `@file`", REQUIRED),
  HIGHWATER_DEPLOYMENT: about(
    "name of the deployment; the same for all its services: [keys.md](keys.md#deployment-keys)",
    REQUIRED,
  ),
  HIGHWATER_DEPLOYMENT_KEYS: about(
    "schedule of the secrets that sign tokens and tag receipts, as JSON, or `@file`; the same for all services: [keys.md](keys.md#deployment-keys)",
    REQUIRED,
  ),
  HIGHWATER_TLS_CERTIFICATE: about(
    "certificate that the service shows, PEM or `@file`; with it the port speaks TLS only: [keys.md](keys.md#tls-between-services)",
    "none: plain HTTP",
  ),
  HIGHWATER_TLS_KEY: about("its private key, PEM or `@file`", NONE),
  HIGHWATER_RETENTION_MS: about(
    "how long receipts are kept, and so how old an id may be; the same everywhere",
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
      `\`keys\`, \`jwt\`, \`keys,jwt\` or \`none\`; required unless ${prefix}_HOST is loopback`,
      "`none`",
    ),
    [`${prefix}_KEY_REFRESH_MS`]: about("how often changed keys are read", "1000"),
    [`${prefix}_RATE_PER_SECOND`]: about("requests of one id per second", "unlimited"),
    [`${prefix}_RATE_BURST`]: about("requests at once after a pause", "one second's worth"),
    [`${prefix}_CONCURRENCY`]: about(
      "requests of one id in flight, transactions of batches counted each",
      "512; unlimited with `none`",
    ),
    [`${prefix}_ADDRESS_HEADER`]: about(
      "header in which the proxy in front says a client's address, such as `x-envoy-external-address`: [keys.md](keys.md#refused-credentials)",
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
