// The audit log: who changed keys, webhooks and authority, when, from where, and why.

/** Who makes a change, as a command or a request says it. */
export interface Act {
  readonly by: string;
  readonly reason: string | null;
}

export interface AuditEntry {
  /**
   * Rises in the order in which the changes were committed. Numbers may be missing: those of
   * changes that failed.
   */
  readonly n: number;
  /** By the server's clock, with microseconds. */
  readonly at: string;
  readonly actor: string;
  /**
   * The session's login role, address and program, as the server knows them. Null: not known, as of
   * a local socket.
   */
  readonly login: string;
  readonly address: string | null;
  readonly program: string | null;
  /** What was done, as `key.revoke`, and to what. */
  readonly action: string;
  readonly target: string;
  readonly reason: string | null;
  /** As it is after the change; of what was deleted, as it was. Never a secret. */
  readonly detail: Readonly<Record<string, unknown>>;
}

export interface AuditQuestion {
  /** Only entries above this number. */
  readonly after: number;
  /** Only those that were made then or later. Null: all. */
  readonly sinceMs: number | null;
  readonly limit: number;
}
