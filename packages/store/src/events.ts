// The events of durability as the store keeps them: every tracker tells of the same ones under the same ids, and a failover
// takes them along. The port; what an event means is the tracker's.
import { type DurabilityEventType, type EpochId, type Offset } from "@highwater/protocol";

export interface EventPlace {
  /** Number of the epoch in which it was recorded. */
  readonly seq: number;
  /** Its own number there, from 1, in the order of the commits. */
  readonly n: number;
}

export interface NewEvent {
  /** What it is about: whoever records the same again, on whichever tracker, records nothing. At most 200 characters. */
  readonly key: string;
  readonly type: DurabilityEventType;
  /** Whose; null: everybody's. */
  readonly owner: bigint | null;
  readonly data: Readonly<Record<string, unknown>>;
}

export interface RecordedEvent extends NewEvent, EventPlace {
  /** By the server's clock. */
  readonly atMs: number;
}

export interface Recording {
  /** In the order in which they were asked for; those that somebody had recorded before are as that one recorded them. */
  readonly events: readonly RecordedEvent[];
  /** End of the log in `epoch`, read afterwards: at or below it is everything that was recorded. */
  readonly epoch: EpochId;
  readonly asOf: Offset;
}

export interface EventFilter {
  /** Only later ones; null: from the oldest that is kept. */
  readonly after: EventPlace | null;
  /** That owner's and everybody's; null: all. */
  readonly owner: bigint | null;
  readonly types: readonly DurabilityEventType[] | null;
  readonly limit: number;
}

export interface EventStore {
  /**
   * Records in one transaction, on the primary's disk when this resolves. Runs only in the given epoch.
   * Errors: HighwaterError `epoch_changed`; anything else leaves it open whether they were recorded: record them again.
   */
  record(node: string, epoch: EpochId, events: readonly NewEvent[]): Promise<Recording>;
  /** In the order of their places. Every later call finds later places only: an event never appears below one that was read. */
  read(node: string, filter: EventFilter): Promise<readonly RecordedEvent[]>;
  close(): void;
}
