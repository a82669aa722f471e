// The events that the core receives. Plain data, so that every incident can be replayed.
import { type EpochId, type EpochRecord, type Offset, type TokenKind, type TxnId } from "@highwater/protocol";
import { type Published } from "./effects.ts";
import { type Candidates, type LogPosition, type Level } from "./types.ts";

export interface AnnouncedItem {
  readonly kind: "intent" | "position" | "withdrawn";
  readonly id: TxnId;
  readonly epoch: EpochId;
  readonly offset?: Offset;
  readonly owner?: bigint;
  /** The attempt of an intent or a withdrawal. */
  readonly by?: string;
  /** For an intent. Absent: 0. */
  readonly endsWithinMs?: number;
  readonly maxDelayMs?: number;
  /** The level of `maxDelayMs`. Absent: the strongest. */
  readonly level?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  /** An amount and its unit. */
  readonly atRisk?: string;
}

export type ReceiptFact =
  | { readonly kind: "commit" | "aborted" | "lost"; readonly epoch: EpochId }
  | { readonly kind: "absent" | "expired" | "out_of_window" }
  /** Another attempt has the id, and may still commit. */
  | { readonly kind: "held" };

export interface SurvivorsWord {
  readonly epoch: EpochId;
  readonly reached: ReadonlyMap<string, Offset>;
  readonly marks: ReadonlyMap<string, Offset>;
}

export type TrackerEvent =
  | {
      readonly kind: "node_reported";
      readonly nowMs: number;
      readonly askedAtMs: number;
      readonly node: string;
      readonly role: "primary" | "replica";
      readonly incarnation: string;
      readonly epochs: readonly EpochRecord[];
      readonly unfit: boolean;
      readonly upstream: { readonly session: string; readonly flushed: Offset } | null;
      /** False: no stream feeds it now, whatever the primary shows. */
      readonly isFed?: boolean;
    }
  | { readonly kind: "node_unreachable"; readonly nowMs: number; readonly node: string }
  | {
      readonly kind: "positions_reported";
      readonly nowMs: number;
      readonly askedAtMs: number;
      readonly node: string;
      readonly epoch: EpochId;
      /** Null while the server flushes nothing. */
      readonly flushed: Offset | null;
      readonly replicas: readonly {
        readonly node: string;
        readonly session: string;
        readonly flushed: Offset;
        /**
         * The primary took this stream for a synchronous one when it reported this position of it.
         * Absent: no.
         */
        readonly synchronous?: boolean;
      }[];
      /**
       * The nodes that the HA manager might have promoted at some moment after this report. Absent:
       * no manager was asked.
       */
      readonly candidates?: Candidates;
    }
  | {
      readonly kind: "epoch_followed";
      readonly nowMs: number;
      readonly epoch: EpochId;
      readonly node: string;
    }
  | {
      readonly kind: "authority_unsettled";
      readonly nowMs: number;
      readonly reason: string;
      readonly split: boolean;
    }
  | {
      readonly kind: "announced";
      readonly nowMs: number;
      /** The gateway that announces, and its region. */
      readonly from?: { readonly gateway: string; readonly region: string };
      readonly items: readonly AnnouncedItem[];
      /** By epoch of the items, its parent. */
      readonly parents?: Readonly<Record<EpochId, EpochId>>;
    }
  | {
      readonly kind: "token_presented";
      readonly nowMs: number;
      readonly id: TxnId;
      readonly owner: bigint;
      readonly attempt: EpochId;
      readonly tokenKind: TokenKind;
      readonly position: LogPosition;
      /** The parent of its position's epoch, from the token. */
      readonly parent?: EpochId | null;
      /** False: its holder may only ask, so no entry is added. */
      readonly mayEnter?: boolean;
    }
  | {
      readonly kind: "receipts_read";
      readonly nowMs: number;
      readonly request: number;
      readonly epoch: EpochId;
      readonly asOf: Offset;
      /** By `ownedName`. */
      readonly receipts: ReadonlyMap<string, ReceiptFact>;
    }
  | { readonly kind: "receipts_unread"; readonly nowMs: number; readonly request: number }
  /** Another tracker has reported them as broken: see peer-verdicts.ts. */
  | {
      readonly kind: "peer_verdicts_received";
      readonly nowMs: number;
      readonly peerVerdicts: readonly Published[];
    }
  /**
   * What replicas that followed no later epoch have of an ended epoch: up to where each has its
   * log, and the marks by level that services had written there.
   */
  | ({ readonly kind: "witnesses_read"; readonly nowMs: number } & SurvivorsWord)
  /** `epoch`: of the help that has ended; when it is left out, the help that is in flight. */
  | { readonly kind: "flush_helped"; readonly nowMs: number; readonly epoch?: EpochId }
  /**
   * The levels or their rules have changed. A level whose rule has changed keeps its mark, which
   * was true by the old rule.
   */
  | {
      readonly kind: "configured";
      readonly nowMs: number;
      readonly levels: readonly Level[];
      readonly exposureLevel: string;
    }
  | { readonly kind: "durable_wanted"; readonly nowMs: number; readonly wanted: boolean }
  | { readonly kind: "ticked"; readonly nowMs: number };
