// Builds the bodies of answers from what is known about a transaction.
import {
  type EpochId,
  formatOffset,
  type Marks,
  type Offset,
  type Served,
  type StatementResult,
  type TokenKind,
  type TransactionResponse,
  type TransactionStateResponse,
  type TxnId,
} from "@highwater/protocol";
import { type AttemptVerdict } from "../outcomes/durability.ts";

export interface Committed {
  readonly kind: TokenKind;
  readonly id: TxnId;
  readonly epoch: EpochId;
  readonly offset: Offset;
  readonly attempt: EpochId;
  readonly owner: bigint;
  /**
   * Everything below the offset is on the primary's disk; true when that is not known to be
   * otherwise.
   */
  readonly isFlushed: boolean;
  /** Null for a replay: the original results are not kept. */
  readonly results: readonly StatementResult[] | null;
}

export function transactionAnswer(
  committed: Committed,
  extra: {
    readonly state: "committed" | "durable" | "pending";
    readonly token: string;
    readonly level: string;
    readonly achieved: string | null;
    /** The database met that level with its answer to the commit. */
    readonly isMetByCommit: boolean;
    readonly marks: Marks | null;
    readonly announced: boolean;
    readonly served?: Served | undefined;
    readonly kept?: boolean | undefined;
  },
): TransactionResponse {
  const { state, token, level, achieved, isMetByCommit, marks, announced, served, kept } = extra;
  return {
    id: committed.id,
    state,
    token,
    position: { epoch: committed.epoch, offset: formatOffset(committed.offset) },
    ...(state === "committed" ? {} : { level }),
    achieved,
    ...(isMetByCommit ? { metBy: "store" as const } : {}),
    results: committed.results as StatementResult[] | null,
    marks,
    announced,
    ...(committed.results === null ? { replayed: true as const } : {}),
    ...(served === undefined ? {} : { served }),
    ...(kept === undefined ? {} : { kept }),
  };
}

/**
 * `pending` is the verdict on a promise; a look-up reports a transaction, which is then
 * `committed`.
 */
export function stateOf(verdict: Exclude<AttemptVerdict, "retried">): TransactionStateResponse["state"] {
  return verdict === "pending" ? "committed" : verdict;
}
