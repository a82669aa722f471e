// API keys as the store keeps them: the port through which gateways read them and an operator
// changes them. The gateway defines the text of a key and the rights of its holder.
import { type Act, type AuditEntry, type AuditQuestion } from "./audit.ts";
import { type StoreNode } from "./port.ts";

export const SCOPES = ["read", "write", "webhooks", "admin", "contents:read", "contents:replay"] as const;
export type Scope = (typeof SCOPES)[number];

/** Each is a number above zero, or null: the service's default. */
export interface KeyLimits {
  readonly ratePerSecond: number | null;
  /** Requests that may come at once after a pause. */
  readonly burst: number | null;
  /** Requests in flight. */
  readonly concurrency: number | null;
  readonly openTransactions: number | null;
  readonly idleTimeoutMs: number | null;
  readonly totalTimeoutMs: number | null;
  readonly statementTimeoutMs: number | null;
  readonly lockTimeoutMs: number | null;
  /** Set: the contents of its transactions are kept by default, up to so many bytes. */
  readonly keepBytes: number | null;
}

export const DEFAULT_LIMITS: KeyLimits = Object.freeze({
  ratePerSecond: null,
  burst: null,
  concurrency: null,
  openTransactions: null,
  idleTimeoutMs: null,
  totalTimeoutMs: null,
  statementTimeoutMs: null,
  lockTimeoutMs: null,
  keepBytes: null,
});

export interface NewApiKey {
  readonly id: string;
  /** SHA-256 of the secret. The secret itself is nowhere but with its holder. */
  readonly secretHash: Uint8Array;
  readonly name: string;
  /** Keys of one owner see each other's transactions. */
  readonly owner: string;
  /** The database's login role. */
  readonly role: string;
  readonly scopes: readonly Scope[];
  readonly limits: KeyLimits;
  /** The lowest level at which its commits may be answered. Absent: any. */
  readonly minLevel?: string | undefined;
  /** What becomes of its transactions that are lost. Absent: their client decides. */
  readonly onLost?: "replay" | undefined;
  readonly expiresAtMs: number | null;
}

export interface ApiKey extends NewApiKey {
  readonly createdAtMs: number;
  readonly revokedAtMs: number | null;
  /** Larger than that of every change before it in the same history. */
  readonly changed: bigint;
}

export interface KeyReader {
  readonly nodes: readonly StoreNode[];
  /**
   * The keys that were created or changed after `after`, or all of them. Rejects when the node
   * cannot be asked in time.
   */
  readKeys(node: string, after: bigint | null): Promise<readonly ApiKey[]>;
  close(): void;
}

/**
 * What a key's transactions may do. A login role has one of the two, and PostgreSQL holds it to
 * that.
 */
export type RoleAccess = "read" | "write";

export function accessOf(scopes: readonly Scope[]): RoleAccess {
  return scopes.includes("write") ? "write" : "read";
}

/** Whose keys a login role is for. */
export interface RoleClaim {
  readonly owner: string;
  readonly access: RoleAccess;
}

/** What a database says of one of its roles, as far as it matters to a key. */
export interface RoleFacts {
  readonly canLogin: boolean;
  /**
   * Why requests of keys with the access must not run as it, each as what follows "the role x".
   * None: they may.
   */
  readonly faults: readonly string[];
}

export interface KeyAdmin extends KeyReader {
  /** Whether the node has the table of keys at all. */
  hasKeys(node: string): Promise<boolean>;
  /**
   * Why the login role must not make the service's tables, which would be its own; null: it may.
   */
  whyNotPrepare(node: string): Promise<string | null>;
  /**
   * Changes are entered into the audit log as the act of whom they say; without one as the login
   * role's.
   */
  insertKey(node: string, key: NewApiKey, act?: Act): Promise<ApiKey>;
  /**
   * The key as it is then, or null when there is none. A revoked key stays revoked, since when it
   * was first.
   */
  revokeKey(node: string, id: string, act?: Act): Promise<ApiKey | null>;
  expireKey(node: string, id: string, expiresAtMs: number, act?: Act): Promise<ApiKey | null>;
  /** Null: there is no such role. */
  readRole(node: string, role: string, access: RoleAccess): Promise<RoleFacts | null>;
  /**
   * A login role with the rights that the access needs, and no other. The password is hashed before
   * it is sent.
   */
  createRole(node: string, role: string, access: RoleAccess, password: string | null): Promise<void>;
  /**
   * Records whose keys the role is for, once and for all. Resolves with what is recorded: another
   * claim may have been first.
   */
  claimRole(node: string, role: string, claim: RoleClaim, act?: Act): Promise<RoleClaim>;
  /**
   * Takes from PUBLIC what roles that only read must not have, if it can. Resolves with those that
   * the role still has.
   */
  protect(node: string, role: string): Promise<readonly string[]>;
  readAudit(node: string, question: AuditQuestion): Promise<readonly AuditEntry[]>;
}
