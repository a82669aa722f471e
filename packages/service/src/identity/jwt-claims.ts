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
  /** What comes before the names of scopes in the token's scopes; may be empty. */
  readonly scopePrefix: string;
  /** The claim that names the database's login role. */
  readonly roleClaim: string;
  /**
   * Roles that a token may name. An issuer decides who may use the service, not who is a superuser
   * of the database.
   */
  readonly roles: readonly string[];
  /**
   * The claim whose value is the owner: what one has, all who have it may see. Null: the subject.
   */
  readonly ownerClaim: string | null;
}

const SHOWN_CHARS = 40;

export function jwtPrincipal(payload: JWTPayload, claims: TokenClaims): Principal {
  const { issuer, ownerClaim } = claims;
  const subject = textOf(payload, "sub");
  const owner = ownerClaim === null ? subject : textOf(payload, ownerClaim);
  return Object.freeze({
    id: shownId(issuer, subject),
    // Names of keys' owners have no `#`: no token, whatever it claims, gets to see what belongs to
    // a key.
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

/** Without a role the service's own would run the statements: there is no default. */
function roleOf(payload: JWTPayload, { roleClaim, roles }: TokenClaims): string {
  const role = payload[roleClaim];
  if (typeof role === "string" && roles.includes(role)) return role;
  throw new HighwaterError("forbidden", {
    detail: `The token's claim ${roleClaim} names no database role that tokens may use.`,
  });
}

/**
 * `scope` is a text of words (RFC 8693), `scp` such a text or a list; what this service does not
 * know is not for it.
 */
function scopesOf(payload: JWTPayload, prefix: string): ReadonlySet<Scope> {
  const words = [payload["scope"], payload["scp"]].flatMap((claim) => {
    if (typeof claim === "string") return claim.split(" ");
    return Array.isArray(claim) ? (claim as unknown[]) : [];
  });
  return new Set(SCOPES.filter((scope) => words.includes(`${prefix}${scope}`)));
}

/**
 * Issuer and subject, if they are short and plain. Otherwise their beginning and a hash, which
 * keeps it unique.
 */
function shownId(issuer: string, subject: string): string {
  const issuerHost = URL.canParse(issuer) ? new URL(issuer).host : issuer;
  const shown = `${issuerHost}#${subject}`;
  if (/^[\w.@|:/#-]+$/.test(shown) && subject.length <= SHOWN_CHARS && issuerHost.length <= SHOWN_CHARS)
    return `jwt:${shown}`;
  const clean = (text: string): string => text.slice(0, SHOWN_CHARS).replaceAll(/[^\w.@|:/#-]/g, "?");
  return `jwt:${clean(issuerHost)}#${clean(subject)}~${hash("sha256", shown, "hex").slice(0, 16)}`;
}
