// The variables that configure who may use a service and how it authenticates them. Each service
// has its own, with its prefix.
import { isLoopback, listOf } from "../settings/readers.ts";
import { type Env } from "../settings/setting.ts";
import { type AdmissionDefaults } from "./admission.ts";

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
  /** Whether API keys are accepted. */
  readonly keys: boolean;
  readonly keyRefreshMs: number;
  /** Null: tokens are not accepted. Without keys and tokens there is no authentication. */
  readonly jwt: JwtSettings | null;
  /** For principals without limits of their own. */
  readonly limits: AdmissionDefaults;
  /** The header in which the proxy gives a client's address; empty: clients connect directly. */
  readonly addressHeader: string;
}

/** Without authentication, every client that can connect may do everything. */
export function isAnonymous({ keys, jwt }: Pick<IdentitySettings, "keys" | "jwt">): boolean {
  return !keys && jwt === null;
}

const KEY_REFRESH_MS = 1_000;
/** Per principal and in flight: two whole batches. */
const CONCURRENCY = 512;

/**
 * An attacker who can change the key set in transit can sign tokens. Inside the machine no one can.
 */
function isTrusted(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const { protocol, hostname } = new URL(url);
  return protocol === "https:" || (protocol === "http:" && isLoopback(hostname.replace(/^\[|\]$/g, "")));
}

/** `prefix`: `GATEWAY`, `TRACKER`. */
export function identityVariables(prefix: string): string[] {
  return [
    ...["AUTH", "KEY_REFRESH_MS", "RATE_PER_SECOND", "RATE_BURST", "CONCURRENCY", "ADDRESS_HEADER"],
    ...["JWT_JWKS_URL", "JWT_ISSUER", "JWT_AUDIENCE", "JWT_ROLES"],
    ...["JWT_ROLE_CLAIM", "JWT_OWNER_CLAIM", "JWT_SCOPE_PREFIX"],
  ].map((name) => `${prefix}_${name}`);
}

/** The settings, and all faults. Each fault begins with the variable and never quotes a value. */
export function readIdentity(
  env: Env,
  { prefix, host }: { readonly prefix: string; readonly host: unknown },
): { readonly settings: IdentitySettings; readonly faults: readonly string[] } {
  const reader = new Reader(env, prefix);
  const ways = reader.ways(host);
  const settings: IdentitySettings = {
    keys: ways.includes("keys"),
    keyRefreshMs: reader.whole("KEY_REFRESH_MS") ?? KEY_REFRESH_MS,
    jwt: ways.includes("jwt") ? reader.jwt() : null,
    limits: {
      ratePerSecond: reader.whole("RATE_PER_SECOND"),
      burst: reader.whole("RATE_BURST"),
      // Without authentication there are no other principals to protect.
      concurrency:
        reader.whole("CONCURRENCY") ?? (ways.length === 0 || ways.includes("none") ? null : CONCURRENCY),
    },
    addressHeader: reader.headerName("ADDRESS_HEADER"),
  };
  return { settings, faults: reader.faults };
}

class Reader {
  readonly faults: string[] = [];
  readonly #env: Env;
  readonly #prefix: string;

  constructor(env: Env, prefix: string) {
    this.#env = env;
    this.#prefix = prefix;
  }

  ways(host: unknown): readonly string[] {
    const ways = listOf(this.#text("AUTH") ?? "");
    if (ways.length === 0) {
      // No authentication by default on loopback only; elsewhere the operator has to choose it.
      if (!isLoopback(host))
        this.#fault(
          "AUTH",
          `is required because ${this.#prefix}_HOST is not loopback: keys, jwt, keys,jwt or none`,
        );
      return [];
    }
    const isKnown =
      ways.every((way) => way === "keys" || way === "jwt") || (ways.length === 1 && ways[0] === "none");
    if (!isKnown) this.#fault("AUTH", "must be keys, jwt, keys,jwt or none");
    return ways;
  }

  jwt(): JwtSettings {
    const required = (name: string): string => {
      const value = this.#text(name);
      if (value === null) this.#fault(name, `is required because ${this.#prefix}_AUTH accepts jwt`);
      return value ?? "";
    };
    const jwksUrl = required("JWT_JWKS_URL");
    if (jwksUrl !== "" && !isTrusted(jwksUrl)) this.#fault("JWT_JWKS_URL", "must be an https URL");
    return {
      jwksUrl,
      issuer: required("JWT_ISSUER"),
      audiences: listOf(required("JWT_AUDIENCE")),
      roles: listOf(required("JWT_ROLES")),
      roleClaim: this.#text("JWT_ROLE_CLAIM") ?? "highwater_role",
      ownerClaim: this.#text("JWT_OWNER_CLAIM"),
      scopePrefix: this.#text("JWT_SCOPE_PREFIX") ?? "",
    };
  }

  /** Null when the variable is not set. */
  whole(name: string): number | null {
    const text = this.#text(name);
    if (text === null) return null;
    if (/^[1-9][0-9]{0,8}$/.test(text)) return Number(text);
    this.#fault(name, "must be a whole number from 1 to 999999999");
    return null;
  }

  headerName(name: string): string {
    const text = this.#text(name)?.toLowerCase() ?? "";
    if (!/^[a-z0-9-]{0,64}$/.test(text)) this.#fault(name, "must be the name of a header");
    return text;
  }

  #text(name: string): string | null {
    const value = this.#env[`${this.#prefix}_${name}`];
    return value === undefined || value === "" ? null : value;
  }

  #fault(name: string, fault: string): void {
    this.faults.push(`${this.#prefix}_${name} ${fault}`);
  }
}
