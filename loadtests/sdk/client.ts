// What is measured, whichever way it is done.
export interface Client {
  /** False: refused for a conflict with another transaction, and nothing was applied. */
  commit(row: number): Promise<boolean>;
  /** Resolves when the stream has told where things stand. */
  connect(): Promise<void>;
  /** Resolves when the token's transaction is durable. */
  durable(token: string): Promise<unknown>;
}
