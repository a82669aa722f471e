// What the core asks its shell to do.
import type { EpochId, EpochRecord, Offset, OwnedId, TxnId, Verdict } from "@highwater/protocol";
import { type Departed, type LedgerEntry, type LogPosition } from "./types.ts";
import { type Waiting } from "./waiting-table.ts";

/** Verdicts of one attempt by level, with the rule and the evidence that gave them. */
export interface Published {
  readonly id: TxnId;
  readonly attempt: EpochId;
  readonly kind: LedgerEntry["kind"];
  /** Its position; null if only its intent is known. */
  readonly origin: LogPosition | null;
  readonly owner: bigint;
  readonly verdicts: Readonly<Record<string, Verdict>>;
  readonly rule: string;
  readonly settledAt: string;
  readonly retriedIn: EpochId | null;
  readonly metadata: Readonly<Record<string, string>> | null;
}

/** An attempt that has become durable at a level. */
export interface BecameDurable {
  readonly id: TxnId;
  readonly attempt: EpochId;
  /** Its position; null if only its look-up has found it. */
  readonly origin: LogPosition | null;
  readonly owner: bigint;
  readonly metadata: Readonly<Record<string, string>> | null;
}

export type Effect =
  | { readonly kind: "publish_marks"; readonly epoch: EpochId }
  | { readonly kind: "publish_epochs" }
  | { readonly kind: "publish_verdict"; readonly published: Published }
  /** Another tracker has published as broken what this one has found in the current history. */
  | { readonly kind: "refuse_peer_verdict"; readonly published: Published }
  /** Emitted only while a client or an endpoint subscribes to single transactions. */
  | { readonly kind: "publish_durable"; readonly level: string; readonly items: readonly BecameDurable[] }
  /**
   * `count` transactions have become durable at the level. The times of some of them stand for all.
   */
  | {
      readonly kind: "publish_lag";
      readonly level: string;
      readonly count: number;
      readonly lagsMs: readonly number[];
    }
  /**
   * A transaction is not durable in the time that its client has set. It has the present verdicts.
   */
  | { readonly kind: "publish_delayed"; readonly published: Published }
  | {
      readonly kind: "publish_stall";
      readonly isStalled: boolean;
      readonly level: string;
      readonly epoch: EpochId;
      readonly offset: bigint;
      readonly pending: number;
    }
  /**
   * The level promised everything of the ended epoch above `from`, up to `to`, and the current
   * history does not have it.
   */
  | {
      readonly kind: "publish_broken_promise";
      readonly level: string;
      readonly epoch: EpochId;
      readonly from: bigint;
      readonly to: bigint;
      /** How many of them the ledger holds. */
      readonly transactions: number;
    }
  /**
   * This many of the owner's transactions of the ended epoch had left the ledger, and may be
   * missing from the current history.
   */
  | {
      readonly kind: "publish_unlisted";
      readonly epoch: EpochId;
      readonly currentEpoch: EpochId;
      readonly owner: bigint;
      readonly transactions: number;
      readonly from: Offset;
      readonly to: Offset;
      readonly firstId: TxnId;
      readonly lastId: TxnId;
    }
  | {
      readonly kind: "read_receipts";
      readonly request: number;
      readonly node: string;
      readonly epoch: EpochId;
      readonly of: readonly OwnedId[];
      readonly tombstone: "lost" | "aborted";
    }
  /**
   * The primary had `was` on disk and has only `now`: another state was put under the running
   * server.
   */
  | {
      readonly kind: "disown_epoch";
      readonly node: string;
      readonly epoch: EpochId;
      readonly was: Offset;
      readonly now: Offset;
    }
  | { readonly kind: "help_flush"; readonly node: string; readonly epoch: EpochId }
  | { readonly kind: "save"; readonly entry: LedgerEntry }
  | { readonly kind: "save_waiting"; readonly item: Waiting }
  /** Forget all attempts of the backlog at or below the offset. */
  | { readonly kind: "forget_waiting"; readonly through: Offset }
  /** The backlog is empty, and from now on holds attempts of this epoch. */
  | { readonly kind: "begin_waiting"; readonly epoch: EpochId }
  | { readonly kind: "save_levels" }
  | { readonly kind: "save_departed"; readonly part: Departed }
  | { readonly kind: "forget_departed"; readonly number: number }
  | { readonly kind: "forget"; readonly key: string }
  | { readonly kind: "save_epochs"; readonly records: readonly EpochRecord[] }
  /** The parent of an epoch whose record was never seen. */
  | { readonly kind: "save_parent"; readonly epoch: EpochId; readonly parent: EpochId }
  /** Verdicts about the epoch may have left the ledger, or the epoch is current again. */
  | { readonly kind: "save_old_epoch"; readonly epoch: EpochId; readonly isOld: boolean }
  | { readonly kind: "save_marks"; readonly epoch: EpochId };
