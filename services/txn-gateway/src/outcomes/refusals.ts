// A refusal is an answer too: "already paid" can rest on a row that a failover discards. Owns the
// content and the time of such an error. A safe transaction gets it when that row is durable, a
// fast one at once, with a token for it.
import { formatOffset, HighwaterError, type TxnId } from "@highwater/protocol";
import { type Kept } from "../contents/keeper.ts";
import { type FlushHelp } from "../primary/flush.ts";
import { type PrimaryEpoch } from "../primary/primary.ts";
import { RETRY_MS } from "../retry.ts";
import { type Acknowledgement } from "../txn/request.ts";
import { type Tokens } from "../txn/tokens.ts";
import { type Durability } from "./durability.ts";
import { type LookUps } from "./look-ups.ts";

export interface RefusalContext {
  readonly lookUps: LookUps;
  readonly durability: Durability;
  readonly flush: FlushHelp;
  readonly tokens: Tokens;
}

/** The transaction that was refused. */
export interface Refused {
  readonly id: TxnId;
  readonly primaryEpoch: PrimaryEpoch;
  readonly owner: bigint;
  readonly kept?: Pick<Kept, "isRedone"> | null;
}

/**
 * SQLSTATEs that say nothing of what is stored: connections, transaction states, resources, limits,
 * operators, the system, faults, what is not supported, and syntax. Every other error of a
 * statement may come from data, or from code that has read some.
 */
const NOT_OF_DATA = /^(?:08|0A|25|53|54|57|58|F0|XX)|^42601$/;

/** True for an error that the same statements may not meet in another history. */
export function mayRestOnData({ code, details }: HighwaterError): boolean {
  if (code !== "constraint_violation" && code !== "statement_failed") return false;
  return details.sqlstate !== undefined && !NOT_OF_DATA.test(details.sqlstate);
}

export class Refusals {
  readonly #parts: RefusalContext;

  constructor(parts: RefusalContext) {
    this.#parts = parts;
  }

  /**
   * The error to answer. Of a safe transaction `refusal_unconfirmed` when what the refusal rests on
   * is not durable in the time, or lost; and `epoch_changed` when the basis of the refusal is not
   * known.
   */
  async answer(
    cause: unknown,
    { id, primaryEpoch, owner, kept }: Refused,
    how: Acknowledgement & { readonly signal?: AbortSignal | undefined },
  ): Promise<unknown> {
    if (!(cause instanceof HighwaterError)) return cause;
    if (cause.code === "transaction_lost" && kept?.isRedone === true)
      return new HighwaterError(cause.code, { ...cause.details, redo: "service" }, { cause });
    if (!mayRestOnData(cause)) return cause;
    const isSafe = how.ack === "durable";
    const { lookUps, flush, durability, tokens } = this.#parts;
    // Read after the error, so nothing that the statement could see lies above it.
    const end = await lookUps.end(primaryEpoch).catch(() => null);
    if (end?.epoch !== primaryEpoch.epoch)
      return isSafe
        ? new HighwaterError("epoch_changed", { transactionId: id, retryAfterMs: RETRY_MS.unsettled })
        : cause;
    const { epoch, offset } = end;
    const token = tokens.of({ kind: "read", id, epoch, offset, attempt: epoch, owner });
    const evidence = { token, position: { epoch, offset: formatOffset(offset) } };
    const withEvidence = (state: "committed" | "durable"): HighwaterError => {
      const level = state === "durable" ? { level: how.level } : {};
      const details = { ...cause.details, evidence: { state, ...evidence, ...level } };
      return new HighwaterError(cause.code, details, { cause: cause.cause });
    };
    if (!isSafe) return withEvidence("committed");
    flush.committed(primaryEpoch);
    const { level, maxWaitMs, signal } = how;
    const verdict = await durability.await({ token, epoch, offset, level }, maxWaitMs, signal);
    if (verdict === "durable") return withEvidence("durable");
    const isOpen = verdict === "pending" || verdict === "expired";
    const why = isOpen ? `is not durable at ${level} yet` : "a failover discarded";
    const { open, statement } = cause.details;
    return new HighwaterError("refusal_unconfirmed", {
      detail: `The statement may have failed because of data that ${why}: ${cause.message}`,
      transactionId: id,
      open,
      statement,
      retryAfterMs: RETRY_MS.unsettled,
      evidence: { state: isOpen ? "pending" : "lost", ...evidence, level },
    });
  }
}
