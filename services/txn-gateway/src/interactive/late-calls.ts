// Calls to a transaction of which this gateway knows nothing any more, or not how it ended: another process of this name may
// have committed it. "It was rolled back" is said only when its id is settled, so that it can never commit any more.
import { ERRORS, HighwaterError, type TxnId } from "@highwater/protocol";
import { type Committed } from "../txn/answer.ts";
import { INTERACTIVE } from "../txn/digest.ts";
import { type InteractiveParts } from "./open.ts";

const AUTHORITY_WAIT_MS = 200;
const RETRY_MS = 500;

/**
 * The transaction that was committed under the id.
 * Errors: `transaction_expired` when nothing was; `commit_unconfirmed`, `transaction_in_progress`, `primary_unavailable` when
 * that cannot be told now.
 */
export async function resolveLate(id: TxnId, owner: bigint, parts: InteractiveParts): Promise<Committed> {
  const { active, primary, outcomes } = parts;
  const leave = active.begin(id, owner);
  if (leave === null)
    throw new HighwaterError("transaction_in_progress", { transactionId: id, retryAfterMs: RETRY_MS });
  const held: Promise<unknown>[] = [];
  try {
    const reign = primary.reign ?? (await primary.await(AUTHORITY_WAIT_MS));
    const attempt = {
      id,
      reign,
      readOnly: false,
      owner,
      digest: INTERACTIVE,
      announced: null,
      exposed: null,
      trace: null,
    };
    const unknown = new HighwaterError("commit_unconfirmed", {
      detail: "How it ended is not known here; its receipt could not be read yet.",
      transactionId: id,
    });
    return await outcomes.resolve(attempt, (until) => held.push(until), unknown);
  } catch (cause) {
    if (!(cause instanceof HighwaterError)) throw cause;
    // Nobody could be asked: that says nothing of what was done before.
    if (ERRORS[cause.code].retry === "wait")
      throw new HighwaterError(cause.code, { ...cause.details, outcome: "unknown" }, { cause });
    if (cause.code !== "transaction_aborted") throw cause;
    const detail = "It was open here, has not been for a while, and was rolled back.";
    throw new HighwaterError("transaction_expired", { detail, transactionId: id, open: false }, { cause });
  } finally {
    // An id whose outcome is still being settled is not free for another attempt.
    void Promise.all(held).finally(leave);
  }
}
