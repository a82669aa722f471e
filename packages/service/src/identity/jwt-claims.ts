// Turns the claims of a verified token into a principal.
import { hash } from "node:crypto";
import { type JWTPayload } from "jose";
import { HighwaterError } from "@highwater/protocol";
import {
  DEFAULT_LIMITS,
  ownerTag,
  type Principal,
  type Scope,
  SCOPES,
  unauthenticated,
} from "./principal.ts";

export interface TokenClaims {
  readonly issuer: string;
  /** Prefix of scope names in tokens; may be empty. */
  readonly scopePrefix: string;
  /** The claim that names the database's login role. */
  readonly roleClaim: string;
  /**
   * Roles that a token may name. The issuer decides who may use the service, but not who becomes a
   * superuser.
   */
  readonly roles: readonly string[];
  /** The claim that names the owner. Principals of an owner share transactions. Null: `sub`. */
  readonly ownerClaim: string | null;
}

const SHOWN_CHARS = 40;

export function jwtPrincipal(payload: JWTPayload, claims: TokenClaims): Principal {
  const { issuer, ownerClaim } = claims;
  const subject = textOf(payload, "sub");
  const owner = ownerClaim === null ? subject : textOf(payload, ownerClaim);
  return Object.freeze({
    id: shownId(issuer, subject),
    // The owner names of API keys contain no `#`, so no token can get access to a key's
    // transactions.
    owner: ownerTag(`jwt:${issuer}#${owner}`),
    role: roleOf(payload, claims),
    scopes: scopesOf(payload, claims.scopePrefix),
    limits: DEFAULT_LIMITS,
  });
}

function textOf(payload: JWTPayload, claim: string): string {
  const value = payload[claim];
  if (typeof value === "string" && value !== "") return value;
  throw unauthenticated(`The token's claim ${claim} is missing or not a string.`);
}

/** There is no default: without a role, the service's own role would run the statements. */
function roleOf(payload: JWTPayload, { roleClaim, roles }: TokenClaims): string {
  const role = payload[roleClaim];
  if (typeof role === "string" && roles.includes(role)) return role;
  throw new HighwaterError("forbidden", {
    detail: `The token's claim ${roleClaim} names no database role that tokens may use.`,
  });
}

/**
 * `scope` is a list of words in one text (RFC 8693); `scp` is such a text or an array. Unknown
 * scopes are ignored.
 */
function scopesOf(payload: JWTPayload, prefix: string): ReadonlySet<Scope> {
  const words = [payload["scope"], payload["scp"]].flatMap((claim) => {
    if (typeof claim === "string") return claim.split(" ");
    return Array.isArray(claim) ? (claim as unknown[]) : [];
  });
  return new Set(SCOPES.filter((scope) => words.includes(`${prefix}${scope}`)));
}

/**
 * Issuer and subject, if they are short and plain. Otherwise their beginnings and a hash, which
 * keeps the id unique.
 */
function shownId(issuer: string, subject: string): string {
  const issuerHost = URL.canParse(issuer) ? new URL(issuer).host : issuer;
  const shown = `${issuerHost}#${subject}`;
  if (/^[\w.@|:/#-]+$/.test(shown) && subject.length <= SHOWN_CHARS && issuerHost.length <= SHOWN_CHARS)
    return `jwt:${shown}`;
  const clean = (text: string): string => text.slice(0, SHOWN_CHARS).replaceAll(/[^\w.@|:/#-]/g, "?");
  return `jwt:${clean(issuerHost)}#${clean(subject)}~${hash("sha256", shown, "hex").slice(0, 16)}`;
}
