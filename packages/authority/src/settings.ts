// Reads the environment variables that choose the rule for the primary. Every service of a system
// needs the same values.
import { type Clock } from "@highwater/runtime";
import { type AuthorityRule } from "./watch.ts";
import { EtcdClient, fetchPost, type HttpPost } from "./lease/etcd.ts";
import { LeaseReader } from "./lease/reader.ts";

interface LeaseSettings {
  /** Base URLs of etcd's members. The user and password in a URL are used to log in. */
  readonly endpoints: readonly string[];
  readonly key: string;
  readonly members: Readonly<Record<string, string>>;
  readonly pollMs: number;
  readonly timeoutMs: number;
}

export type AuthoritySettings =
  | { readonly kind: "ancestry" }
  | { readonly kind: "operator" }
  | { readonly kind: "lease"; readonly lease: LeaseSettings };

const VARIABLE = "HIGHWATER_AUTHORITY";
const LEASE_VARIABLES = {
  etcd: "HIGHWATER_LEASE_ETCD",
  scope: "HIGHWATER_LEASE_SCOPE",
  namespace: "HIGHWATER_LEASE_NAMESPACE",
  members: "HIGHWATER_LEASE_MEMBERS",
  pollMs: "HIGHWATER_LEASE_POLL_MS",
  timeoutMs: "HIGHWATER_LEASE_TIMEOUT_MS",
} as const;

export const AUTHORITY_VARIABLES: readonly string[] = [VARIABLE, ...Object.values(LEASE_VARIABLES)];

type Env = Readonly<Record<string, string | undefined>>;

/**
 * The settings, and one line for each fault in them. A line begins with the variable and never
 * quotes the value.
 */
export function readAuthority(env: Env): { readonly settings: AuthoritySettings; readonly faults: string[] } {
  const kind = env[VARIABLE] ?? "ancestry";
  if (kind === "lease") {
    const faults: string[] = [];
    return { settings: { kind, lease: readLease(env, faults) }, faults };
  }
  const strays = Object.values(LEASE_VARIABLES).filter((variable) => env[variable] !== undefined);
  const faults = strays.map(
    (variable) => `${variable} is set, but ${VARIABLE} is not lease; remove it or set ${VARIABLE}=lease`,
  );
  if (kind === "ancestry" || kind === "operator") return { settings: { kind }, faults };
  return {
    settings: { kind: "ancestry" },
    faults: [`${VARIABLE} must be ancestry, operator or lease`, ...faults],
  };
}

function readLease(env: Env, faults: string[]): LeaseSettings {
  const endpoints = listOf(env[LEASE_VARIABLES.etcd]);
  if (endpoints.length === 0) faults.push(`${LEASE_VARIABLES.etcd} is required`);
  for (const [index, url] of endpoints.entries())
    if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
      faults.push(`${LEASE_VARIABLES.etcd} entry ${String(index)} is not an http or https URL`);
  const scope = env[LEASE_VARIABLES.scope] ?? "";
  if (scope === "") faults.push(`${LEASE_VARIABLES.scope} is required`);
  const namespace = (env[LEASE_VARIABLES.namespace] ?? "/service/").replace(/^\/+|\/+$/g, "");
  const members: Record<string, string> = {};
  for (const [index, pair] of listOf(env[LEASE_VARIABLES.members]).entries()) {
    const [member, node, ...more] = pair.split("=");
    if (!member || !node || more.length > 0)
      faults.push(`${LEASE_VARIABLES.members} entry ${String(index)} is not MEMBER=NODE`);
    else members[member] = node;
  }
  return {
    endpoints,
    key: `/${namespace === "" ? "" : `${namespace}/`}${scope}/leader`,
    members,
    pollMs: milliseconds(env, LEASE_VARIABLES.pollMs, { fallback: 500, min: 10, max: 10_000 }, faults),
    timeoutMs: milliseconds(
      env,
      LEASE_VARIABLES.timeoutMs,
      { fallback: 1_000, min: 10, max: 10_000 },
      faults,
    ),
  };
}

function listOf(value: string | undefined): string[] {
  return (value ?? "")
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
}

function milliseconds(
  env: Env,
  variable: string,
  range: { readonly fallback: number; readonly min: number; readonly max: number },
  faults: string[],
): number {
  const text = env[variable];
  if (text === undefined || text === "") return range.fallback;
  const value = Number(text);
  if (!/^[0-9]+$/.test(text) || value < range.min || value > range.max)
    faults.push(`${variable} must be a whole number from ${String(range.min)} to ${String(range.max)}`);
  return value;
}

/** The settings without secrets, for the log. */
export function describeAuthority(settings: AuthoritySettings): Record<string, unknown> {
  if (settings.kind !== "lease") return settings;
  const { endpoints, ...rest } = settings.lease;
  return { kind: settings.kind, ...rest, endpoints: endpoints.map((url) => new URL(url).host) };
}

export function makeAuthorityRule(
  settings: AuthoritySettings,
  clock: Clock,
  post: HttpPost = fetchPost,
): AuthorityRule {
  if (settings.kind !== "lease") return settings;
  const { endpoints, timeoutMs, ...rest } = settings.lease;
  const etcd = new EtcdClient({ endpoints, timeoutMs, clock, post });
  return { kind: "lease", lease: new LeaseReader({ etcd, clock, ...rest }) };
}
