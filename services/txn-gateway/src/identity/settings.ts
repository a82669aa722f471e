// The variables that say who may use the service and how it recognises them.
import { type AdmissionDefaults } from "./admission.ts";
import { parseRolePasswords } from "./role-url.ts";

export interface JwtSettings {
  readonly jwksUrl: string;
  readonly issuer: string;
  readonly audiences: readonly string[];
  readonly roles: readonly string[];
  readonly roleClaim: string;
  readonly ownerClaim: string | null;
  readonly scopePrefix: string;
}

export interface IdentitySettings {
  /** API keys are accepted. */
  readonly keys: boolean;
  readonly keyRefreshMs: number;
  /** Null: tokens are not accepted. With neither keys nor tokens nobody is authenticated. */
  readonly jwt: JwtSettings | null;
  /** A role that is not in it is logged in without a password. */
  readonly rolePasswords: ReadonlyMap<string, string>;
  /** Signs the header that pins an open transaction to its gateway. Null: a random one of this process. */
  readonly sessionSecret: string | null;
  /** Of principals that have no limits of their own. */
  readonly limits: AdmissionDefaults;
}

type Env = Readonly<Record<string, string | undefined>>;

export const IDENTITY_VARIABLES: readonly string[] = [
  ...["GATEWAY_AUTH", "GATEWAY_KEY_REFRESH_MS", "GATEWAY_ROLE_PASSWORDS", "GATEWAY_SESSION_SECRET"],
  ...["GATEWAY_RATE_PER_SECOND", "GATEWAY_RATE_BURST", "GATEWAY_CONCURRENCY"],
  ...["GATEWAY_JWT_JWKS_URL", "GATEWAY_JWT_ISSUER", "GATEWAY_JWT_AUDIENCE", "GATEWAY_JWT_ROLES"],
  ...["GATEWAY_JWT_ROLE_CLAIM", "GATEWAY_JWT_OWNER_CLAIM", "GATEWAY_JWT_SCOPE_PREFIX"],
];

const KEY_REFRESH_MS = 1_000;
const SECRET_CHARS_MIN = 16;
const LOOPBACK = new Set(["127.0.0.1", "::1", "localhost"]);

/** The settings, and every fault, beginning with the variable; none quotes a value. */
export function readIdentity(
  env: Env,
  host: unknown,
  readFile: (path: string) => string,
): { readonly settings: IdentitySettings; readonly faults: readonly string[] } {
  const faults: string[] = [];
  const ways = waysOf(env, host, faults);
  const settings: IdentitySettings = {
    keys: ways.includes("keys"),
    keyRefreshMs: whole(env, "GATEWAY_KEY_REFRESH_MS", faults) ?? KEY_REFRESH_MS,
    jwt: ways.includes("jwt") ? readJwt(env, faults) : null,
    rolePasswords: readPasswords(env, readFile, faults),
    sessionSecret: readSecret(env, faults),
    limits: {
      ratePerSecond: whole(env, "GATEWAY_RATE_PER_SECOND", faults),
      burst: whole(env, "GATEWAY_RATE_BURST", faults),
      concurrency: whole(env, "GATEWAY_CONCURRENCY", faults),
    },
  };
  return { settings, faults };
}

/** What may be shown of them. */
export function describeIdentity(settings: IdentitySettings): Record<string, unknown> {
  const { rolePasswords, sessionSecret, ...shown } = settings;
  return { ...shown, rolesWithPassword: [...rolePasswords.keys()], hasSessionSecret: sessionSecret !== null };
}

function waysOf(env: Env, host: unknown, faults: string[]): readonly string[] {
  const ways = listOf(env["GATEWAY_AUTH"]);
  if (ways.length === 0) {
    // Open to everybody only where nobody else can reach it, or where somebody has said so.
    if (!LOOPBACK.has(String(host)))
      faults.push(
        "GATEWAY_AUTH must be said where GATEWAY_HOST is not loopback: keys, jwt, keys,jwt or none",
      );
    return [];
  }
  const isKnown =
    ways.every((way) => way === "keys" || way === "jwt") || (ways.length === 1 && ways[0] === "none");
  if (!isKnown) faults.push("GATEWAY_AUTH must be keys, jwt, keys,jwt or none");
  return ways;
}

function readJwt(env: Env, faults: string[]): JwtSettings {
  const required = (name: string): string => {
    const value = env[name] ?? "";
    if (value === "") faults.push(`${name} is required where tokens are accepted`);
    return value;
  };
  const jwksUrl = required("GATEWAY_JWT_JWKS_URL");
  if (jwksUrl !== "" && !(URL.canParse(jwksUrl) && /^https?:/.test(jwksUrl)))
    faults.push("GATEWAY_JWT_JWKS_URL must be an http or https URL");
  return {
    jwksUrl,
    issuer: required("GATEWAY_JWT_ISSUER"),
    audiences: listOf(required("GATEWAY_JWT_AUDIENCE")),
    roles: listOf(required("GATEWAY_JWT_ROLES")),
    roleClaim: textOf(env, "GATEWAY_JWT_ROLE_CLAIM") ?? "highwater_role",
    ownerClaim: textOf(env, "GATEWAY_JWT_OWNER_CLAIM"),
    scopePrefix: textOf(env, "GATEWAY_JWT_SCOPE_PREFIX") ?? "",
  };
}

function readPasswords(
  env: Env,
  readFile: (path: string) => string,
  faults: string[],
): ReadonlyMap<string, string> {
  const name = "GATEWAY_ROLE_PASSWORDS";
  const value = textOf(env, name);
  if (value === null) return new Map();
  let json = value;
  if (value.startsWith("@")) {
    try {
      json = readFile(value.slice(1));
    } catch (cause) {
      faults.push(`${name} the file cannot be read: ${String((cause as { code?: unknown }).code)}`);
      return new Map();
    }
  }
  const read = parseRolePasswords(json);
  if (read.ok) return read.passwords;
  faults.push(...read.faults.map((fault) => `${name} ${fault}`));
  return new Map();
}

function readSecret(env: Env, faults: string[]): string | null {
  const secret = textOf(env, "GATEWAY_SESSION_SECRET");
  if (secret !== null && secret.length < SECRET_CHARS_MIN)
    faults.push(`GATEWAY_SESSION_SECRET must have at least ${String(SECRET_CHARS_MIN)} characters`);
  return secret;
}

function textOf(env: Env, name: string): string | null {
  const value = env[name];
  return value === undefined || value === "" ? null : value;
}

function listOf(text: string | undefined): readonly string[] {
  return (text ?? "")
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
}

/** Null when it is not given. */
function whole(env: Env, name: string, faults: string[]): number | null {
  const text = textOf(env, name);
  if (text === null) return null;
  if (/^[1-9][0-9]{0,8}$/.test(text)) return Number(text);
  faults.push(`${name} must be a whole number from 1 to 999999999`);
  return null;
}
