// The measured calls, the same for every client.
export interface Client {
  /** False: refused for a conflict with another transaction, and nothing was applied. */
  commit(row: number): Promise<boolean>;
  /** Resolves when the stream has sent the current state. */
  connect(): Promise<void>;
  /** Resolves when the token's transaction is durable. */
  durable(token: string): Promise<unknown>;
}
