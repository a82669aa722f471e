// How long a refusal asks its client to wait before it sends the request again (`retryAfterMs`), by
// what the client waits for. Two refusals compute it: for exposure, from the rate at which that
// drains (exposure/exposure.ts), and for an id that is held until a deadline (late-calls.ts).
export const RETRY_MS = {
  /** Nothing: another gateway has the transaction, or a failover took back what refused it here. */
  atOnce: 100,
  /** A few round trips: the transaction's last call still runs, or trackers settle an epoch. */
  soon: 200,
  /** A request under the same id that runs on this gateway. */
  sameId: 500,
  /** A place among the transactions under way, or among those that wait for durability. */
  place: 500,
  /** An answer of the primary, or one that no failover can undo. */
  unsettled: 500,
  /** An attempt on another gateway, which holds the id. */
  held: 1_000,
  /** A primary, or what only it can say of an unknown outcome. A failover takes seconds. */
  primary: 1_000,
  /** Room: open transactions, unread results or announcements have to go first. */
  room: 1_000,
  /** Another gateway, as this one ends. */
  shutdown: 1_000,
  /** The error does not say; for a wire that has to name a time. */
  unsaid: 1_000,
} as const;
