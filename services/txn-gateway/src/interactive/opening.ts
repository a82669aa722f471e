// The opening of an interactive transaction on the database, within the time and for as long as its
// client is there.
import { HighwaterError } from "@highwater/protocol";
import { sessionPrincipal } from "@highwater/service";
import { type Opening } from "@highwater/store";
import { type ResultHold } from "../answers/result-memory.ts";
import { lifespanMs, refuseTruncated, withinTime } from "../attempts/bounds.ts";
import { type PrimaryEpoch } from "../primary/primary.ts";
import { type Caller } from "../txn/caller.ts";
import { INTERACTIVE } from "../txn/digest.ts";
import { type AcceptedBegin } from "../txn/request.ts";
import { type LifetimeLimits } from "./lifetime.ts";
import { type InteractiveContext } from "./open.ts";

/** Errors: HighwaterError; nothing is open then. */
export async function openOn(
  primaryEpoch: PrimaryEpoch,
  request: AcceptedBegin,
  { principal, signal }: Caller,
  {
    limits,
    hold,
    tellsOrder,
    ...parts
  }: InteractiveContext & {
    readonly limits: LifetimeLimits;
    readonly hold: ResultHold;
    readonly tellsOrder: boolean;
  },
): Promise<Opening> {
  const { deps, config, active, primary, keys } = parts;
  const { role, owner } = principal;
  const tag = keys.receiptTag(owner, request.id);
  const bounds = withinTime(active, limits.totalTimeoutMs, signal);
  const spec = {
    id: request.id,
    tag,
    epoch: primaryEpoch.epoch,
    statements: request.statements,
    isolation: request.isolation,
    readOnly: request.readOnly,
    deferrable: request.deferrable,
    role,
    digest: INTERACTIVE,
    principal: sessionPrincipal(principal),
    statementTimeoutMs: principal.limits.statementTimeoutMs,
    lockTimeoutMs: principal.limits.lockTimeoutMs,
    limitMs: lifespanMs(limits.totalTimeoutMs, "interactive"),
    maxRows: config.maxRows,
    maxBytes: config.maxResultBytes,
    meter: hold,
    tellsOrder,
  };
  try {
    const opening = await deps.store.begin(primaryEpoch.node, spec, bounds.signal);
    if (opening.kind === "already_settled") return opening;
    try {
      // A request to cancel is on its way, and would hit whatever came next.
      bounds.signal.throwIfAborted();
      refuseTruncated(opening.results, config, { hold, transactionId: request.id, open: false });
    } catch (cause) {
      await opening.transaction.rollback();
      throw cause;
    }
    return opening;
  } catch (cause) {
    const why = bounds.reasonFor(cause);
    const isStoreLost =
      why instanceof HighwaterError && (why.code === "primary_unavailable" || why.code === "epoch_changed");
    if (isStoreLost) primary.wake();
    throw why;
  } finally {
    bounds.end();
  }
}
