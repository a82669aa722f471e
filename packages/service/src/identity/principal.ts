// The principal of a request: who it is, what it may do, and how a request names it. The files
// beside this authenticate it.
import { hash } from "node:crypto";
import { HighwaterError } from "@highwater/protocol";
import { type KeyLimits, type Scope } from "@highwater/store";

export { DEFAULT_LIMITS, type KeyLimits, type Scope, SCOPES } from "@highwater/store";

export interface Principal {
  /** What logs and metrics may show. Unique: the limits count by it. */
  readonly id: string;
  /**
   * Tokens carry it, and receipts' tags are made of it; all keys of one owner have the same.
   * `NOBODY` only without authentication.
   */
  readonly owner: bigint;
  /** The database's login role; null: the service's own. */
  readonly role: string | null;
  readonly scopes: ReadonlySet<Scope>;
  readonly limits: KeyLimits;
  /**
   * May read what belongs to any owner: another service of the cluster, and everybody without
   * authentication.
   */
  readonly isEveryOwner?: true;
  /** Another service of the cluster. */
  readonly isService?: true;
}

export interface Authenticator {
  /**
   * `isKnownOnly`: what is not known to be good is refused without being looked at.
   * Errors: HighwaterError `unauthenticated`, `authentication_unavailable`, `forbidden`,
   * `rate_limited`.
   */
  authenticate(authorization: string | undefined, isKnownOnly?: boolean): Promise<Principal>;
  /**
   * From now on the listener gets the id of each principal whose credential was changed or taken
   * away.
   */
  watch?(onChanged: (id: string) => void): void;
  start(): void;
  stop(): void;
}

export const NOBODY = 0n;

const TAG_DIGITS = 32;

/**
 * 128 bits of a digest of the owner's name: to find a name with a stranger's tag takes 2^127 tries,
 * and the tag of `NOBODY` never comes up.
 */
export function ownerTag(owner: string): bigint {
  return BigInt(`0x${hash("sha256", owner).slice(0, TAG_DIGITS)}`);
}

/** Each scope stands for itself; `admin` does not include the others. */
export function requireScope(principal: Principal, scope: Scope): void {
  if (principal.scopes.has(scope)) return;
  throw new HighwaterError("forbidden", { detail: `The credential lacks the scope ${scope}.` });
}

export function mayReadOf(principal: Principal, owner: bigint): boolean {
  return principal.isEveryOwner === true || principal.owner === owner;
}

/**
 * Names whose database session it is: what one principal leaves in a session never reaches another.
 */
export function sessionPrincipal({ id, owner, role, scopes }: Principal): string {
  return `${String(owner)}/${role ?? ""}/${scopes.has("write") ? "write" : "read"}/${id}`;
}

/** RFC 6750, section 2.1. */
const BEARER = /^bearer +([a-z0-9\-._~+/]+=*) *$/i;

/** The credential of an Authorization header. */
export function bearerOf(authorization: string | undefined): string {
  if (authorization === undefined) throw unauthenticated("The request has no Authorization header.");
  const credential = BEARER.exec(authorization)?.[1];
  if (credential === undefined)
    throw unauthenticated("The Authorization header must be Bearer and a key or token.");
  return credential;
}

export function unauthenticated(detail: string, cause?: unknown): HighwaterError {
  return new HighwaterError("unauthenticated", { detail }, { cause });
}

export function authenticationUnavailable(detail: string, cause?: unknown): HighwaterError {
  return new HighwaterError("authentication_unavailable", { detail, retryAfterMs: 1_000 }, { cause });
}
