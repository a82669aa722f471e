// The principal of a request: who it is, what it may do, and how a request names it. The other
// files of this folder authenticate it.
import { hash } from "node:crypto";
import { HighwaterError } from "@highwater/protocol";
import { type KeyLimits, type Scope } from "@highwater/store";

export { DEFAULT_LIMITS, type KeyLimits, type Scope, SCOPES } from "@highwater/store";

export interface Principal {
  /** For logs and metrics. Unique, because the limits count by it. */
  readonly id: string;
  /**
   * Tokens contain it, and receipt tags depend on it. All keys of one owner share it. `NOBODY`:
   * without authentication.
   */
  readonly owner: bigint;
  /** The database's login role; null: the service's own. */
  readonly role: string | null;
  readonly scopes: ReadonlySet<Scope>;
  readonly limits: KeyLimits;
  /** The lowest level at which its commits may be answered. Absent: any. */
  readonly minLevel?: string | undefined;
  /** What becomes of its transactions that are lost, unless a request says. */
  readonly onLost?: "replay" | undefined;
  /**
   * May read the transactions of every owner: another service of the cluster, or any caller without
   * authentication.
   */
  readonly isEveryOwner?: true;
  /** Another service of the cluster. */
  readonly isService?: true;
}

export interface Authenticator {
  /**
   * `isKnownOnly`: refuses credentials that were not verified before, without checking them.
   * Errors: HighwaterError `unauthenticated`, `authentication_unavailable`, `forbidden`,
   * `rate_limited`.
   */
  authenticate(authorization: string | undefined, isKnownOnly?: boolean): Promise<Principal>;
  /**
   * Calls back with the id of each principal whose credential was changed or removed from now on.
   */
  watch?(onChanged: (id: string) => void): void;
  start(): void;
  stop(): void;
}

export const NOBODY = 0n;

const TAG_DIGITS = 32;

/**
 * 128 bits of a digest of the owner's name. A name with another owner's tag takes 2^127 tries to
 * find, and no name has the tag of `NOBODY`.
 */
export function ownerTag(owner: string): bigint {
  return BigInt(`0x${hash("sha256", owner).slice(0, TAG_DIGITS)}`);
}

/** Scopes are independent: `admin` does not include the others. */
export function requireScope(principal: Principal, scope: Scope): void {
  if (principal.scopes.has(scope)) return;
  throw new HighwaterError("forbidden", { detail: `The credential lacks the scope ${scope}.` });
}

/** Errors: `forbidden` if the principal has none of the scopes. */
export function requireSomeScope(principal: Principal, scopes: readonly Scope[]): void {
  if (scopes.some((scope) => principal.scopes.has(scope))) return;
  throw new HighwaterError("forbidden", {
    detail: `The credential has none of the scopes ${scopes.join(", ")}.`,
  });
}

/** Whether they may do the same to the same data; limits aside. */
export function haveSameRights(one: Principal, other: Principal): boolean {
  return (
    one.id === other.id &&
    one.owner === other.owner &&
    one.role === other.role &&
    one.scopes.size === other.scopes.size &&
    [...one.scopes].every((scope) => other.scopes.has(scope))
  );
}

export function mayReadOf(principal: Principal, owner: bigint): boolean {
  return principal.isEveryOwner === true || principal.owner === owner;
}

/**
 * Identifies whose database session it is, so that principals never share the state of a session.
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
