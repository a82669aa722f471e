// Where the outbox keeps events that are not safe in the store yet: rows of the tracker's ledger
// file, in the order of their keys.

export interface OutboxStore {
  /**
   * Queues only. Everything that is queued in one tick, here and of the ledger's entries, goes to
   * disk in one transaction, so that a verdict is never remembered without its events.
   */
  save(key: string, body: string): void;
  remove(key: string): void;
  /** Everything queued so far is on disk when it resolves. */
  flush(): Promise<void>;
  /**
   * At most `limit` of the entries on disk whose keys come behind `after` (as plain text), in the
   * order of their keys.
   */
  load(after: string, limit: number): Promise<ReadonlyMap<string, string>>;
}
