// Calls to a transaction that this gateway does not know any more, or whose end it does not know:
// another process of this name may have committed it. "It was rolled back" is said only when its id
// is settled, so that it can never commit any more. Only its own principal gets here, with the
// header of its begin. It settles nothing if it did not begin a write or may not write.
import { ERRORS, HighwaterError } from "@highwater/protocol";
import { type Principal, requireScope } from "@highwater/service";
import { idInUse } from "../attempts/active.ts";
import { RETRY_MS } from "../retry.ts";
import { type Committed } from "../txn/answer.ts";
import { INTERACTIVE } from "../txn/digest.ts";
import { endedError } from "./ended.ts";
import { type InteractiveContext } from "./open.ts";
import { type Pinned } from "./session-header.ts";

const RETRY_MS_MAX = 5_000;
const FORGOTTEN = "The transaction was open here, ended some time ago and was rolled back.";

/**
 * The transaction that was committed under the id.
 * Errors: `transaction_expired` when nothing was; `commit_unconfirmed`, `transaction_in_progress`,
 * `primary_unavailable` when that is not known now; `forbidden`.
 */
export async function resolveLate(
  pinned: Pinned,
  principal: Principal,
  parts: InteractiveContext,
): Promise<Committed> {
  const { active, primary, outcomes, deps, keys } = parts;
  const { id } = pinned;
  // It could not have committed anything, so there is nothing to settle.
  if (pinned.access === "read") throw endedError(id, { how: "expired", detail: FORGOTTEN });
  requireScope(principal, "write");
  const { owner } = principal;
  const leave = active.begin({ id, owner });
  if (leave === null) throw idInUse(id);
  const held: Promise<unknown>[] = [];
  try {
    const primaryEpoch = await primary.admit();
    // Its client wants it ended, or its gateway's process is gone. No other session is ended for
    // that.
    const tag = keys.receiptTag(owner, id);
    deps.store.giveUp(primaryEpoch.node, { id, tag }, pinned.holder);
    const attempt = {
      id,
      tag,
      primaryEpoch,
      readOnly: false,
      owner,
      digest: INTERACTIVE,
      announced: null,
      exposed: null,
      trace: null,
    };
    const unknown = new HighwaterError("commit_unconfirmed", {
      detail: "The outcome is not known yet: the receipt could not be read.",
      transactionId: id,
    });
    return await outcomes.resolve(attempt, (until) => held.push(until), unknown, "answer_held");
  } catch (cause) {
    if (!(cause instanceof HighwaterError)) throw cause;
    // Nothing could be found out now: that says nothing of what was done before.
    if (ERRORS[cause.code].retry === "wait")
      throw new HighwaterError(cause.code, waiting(cause, pinned.deadlineMs - primary.serverNowMs()), {
        cause,
      });
    if (cause.code !== "transaction_aborted") throw cause;
    throw new HighwaterError(
      "transaction_expired",
      { detail: FORGOTTEN, transactionId: id, open: false },
      { cause },
    );
  } finally {
    // An id whose outcome is still being settled is not free for another attempt.
    void Promise.all(held).finally(leave);
  }
}

/**
 * Who holds the id will have ended at the transaction's deadline; it makes little sense to ask much
 * sooner.
 */
function waiting({ code, details }: HighwaterError, leftMs: number): HighwaterError["details"] {
  if (code !== "transaction_in_progress") return { ...details, outcome: "unknown" };
  const retryAfterMs = Math.ceil(Math.min(RETRY_MS_MAX, Math.max(RETRY_MS.sameId, leftMs)));
  return { ...details, outcome: "unknown", retryAfterMs };
}
