// Runs a whole transaction in one round trip: BEGIN, receipt, statements, COMMIT and the query for
// the position, in one write.
import { type DatabaseError } from "pg";
import { type EpochId, HighwaterError, type Offset, type StatementResult } from "@highwater/protocol";
import { type CommitOrder, type Execution, type TransactionSpec } from "../port.ts";
import { cutShort, failureOf, receiptRefusal, unconfirmed } from "./failures.ts";
import { type PipelineOutcome } from "./pipeline.ts";
import {
  bodyOf,
  type Head,
  headOf,
  type TransactionOptions,
  POSITION_STEP,
  type Tail,
  tailOf,
} from "./plan.ts";
import { type ReadPositions } from "./read-positions.ts";
import { type Canceller, type PipelineRun, rollBack, runPipeline, type Session } from "./session.ts";
import { DISCARD_ALL } from "./reset.ts";
import { CANCELLED, endsSession, isStalePlan } from "./sqlstate.ts";
import { endOfLog, parseLsn } from "./lsn.ts";

/**
 * A statement prepared before a change of the schema fails once. Another change may follow at once.
 */
export const MAX_REPLANS = 3;
/** A late cancellation may cancel the read of the position, too. */
const MAX_POSITION_READS = 3;

export interface ExecutionContext {
  readonly canceller: Canceller;
  readonly readPositions: ReadPositions;
  readonly signal: AbortSignal | undefined;
}

/** The position, in a message of its own. */
export const READ_POSITION: PipelineRun = {
  steps: [POSITION_STEP],
  maxBytes: 0,
  fieldDetails: false,
  signal: undefined,
  leaves: "I",
};

/** A transaction, and all messages that are sent for it. */
export interface Planned {
  readonly spec: TransactionSpec;
  readonly head: Head;
  readonly tail: Tail;
  readonly run: PipelineRun;
}

/** `sharesPosition`: what is sent does not read the position of a write; see `withShared`. */
export function planOf(
  spec: TransactionSpec,
  signal: AbortSignal | undefined,
  sharesPosition = false,
): Planned {
  const head = headOf(spec);
  const tail = tailOf(spec, sharesPosition);
  const steps = [...head.steps, ...bodyOf(spec.statements, spec), ...tail.steps];
  const { maxBytes, fieldDetails, meter, readOnly } = spec;
  const limits = { maxBytes, fieldDetails, meter, leaves: "I" as const };
  return { spec, head, tail, run: { ...limits, steps, signal, cancelWhenCut: readOnly } };
}

/**
 * Runs the transaction on the session. Errors: HighwaterError, with `outcome` unknown when the
 * connection ended before the server's last answer.
 */
export async function executeOn(
  session: Session,
  spec: TransactionSpec,
  parts: ExecutionContext,
): Promise<Execution> {
  for (let attempt = 0; attempt < MAX_REPLANS; attempt++) {
    const planned = planOf(spec, parts.signal);
    spec.onBeforeSend?.();
    const running = runPipeline(session, parts.canceller, planned.run);
    const outcome = await outcomeOf(session, planned, running, parts.canceller);
    if (outcome.status !== "I") await rollBack(session, parts.canceller);
    const done = await concludeOn(session, planned, outcome, parts);
    if (done.kind !== "stale") return done;
  }
  throw replannedTooOften(spec);
}

export function replannedTooOften({ id }: TransactionSpec): HighwaterError {
  return new HighwaterError("statement_failed", {
    detail: "The schema kept changing while the transaction ran; run it again when the schema is stable.",
    transactionId: id,
  });
}

/**
 * Waits for the server's answers. COMMIT is in the same write, so after a lost connection it is
 * unknown how far the server came.
 */
export async function outcomeOf(
  session: Session,
  { spec }: Planned,
  running: Promise<PipelineOutcome>,
  canceller: Canceller,
): Promise<PipelineOutcome> {
  try {
    return await running;
  } catch (cause) {
    if (!spec.readOnly) canceller.giveUp(spec, session.holder);
    throw unconfirmed(spec.id, spec.readOnly, cause);
  }
}

/**
 * Interprets the server's answer. `stale`: a prepared statement no longer fits the schema; nothing
 * was applied, and the caller may run the same work again at once. Errors: HighwaterError.
 */
export async function concludeOn(
  session: Session,
  { spec, head, tail }: Planned,
  outcome: PipelineOutcome,
  parts: Pick<ExecutionContext, "canceller" | "readPositions">,
): Promise<Execution | { readonly kind: "stale" }> {
  const first = head.steps.length;
  const tailAt = first + spec.statements.length;
  const { results, error } = await withPosition(session, parts.canceller, outcome, tailAt + tail.commit);
  if (error !== null) {
    if (isUndone(session, error, results.length <= tailAt + tail.commit)) return { kind: "stale" };
    // Cancelled because of it. A read was to be undone anyway.
    if (outcome.isCut && spec.readOnly && error.code === CANCELLED)
      throw cutShort(spec, { id: spec.id, statement: cutStatement(results.slice(first, tailAt)) });
    return refused(spec, error, { head, failed: results.length, commit: tailAt + tail.commit });
  }
  const ended = endedAt(session, spec, parts.readPositions, {
    tail,
    results: results.slice(tailAt),
    ...openedBy(head, results),
  });
  return { kind: "committed", exact: false, ...ended, results: results.slice(first, tailAt) };
}

/**
 * Returns the index of the first statement whose rows were cut. If no result says so, it is the
 * statement whose result is not complete yet.
 */
export function cutStatement(results: readonly StatementResult[]): number {
  const found = results.findIndex(({ truncated }) => truncated === true);
  return found < 0 ? results.length : found;
}

/**
 * The outcome of a write that shares its position with others, in the form of a write that has its
 * own.
 */
export async function withShared(
  { spec, head, tail }: Planned,
  own: PipelineOutcome,
  read: Promise<PipelineOutcome>,
): Promise<PipelineOutcome> {
  const isCommitted = own.results.length === head.steps.length + spec.statements.length + tail.steps.length;
  if (spec.readOnly || own.error !== null || !isCommitted) return own;
  const { results, error, status } = await read;
  return { ...own, results: [...own.results, ...results], error, status };
}

function isUndone(session: Session, error: DatabaseError, isBeforeCommit: boolean): boolean {
  if (!isBeforeCommit || endsSession(error.severity)) return false;
  if (error.code === undefined || !isStalePlan(error.code, error.routine)) return false;
  session.prepared.clear();
  return true;
}

function refused(
  spec: TransactionSpec,
  error: DatabaseError,
  at: { readonly head: Head; readonly failed: number; readonly commit: number },
): Execution {
  const { head, failed, commit } = at;
  // An error after COMMIT: the transaction committed, and only the position could not be read.
  if (endsSession(error.severity) || failed > commit) throw unconfirmed(spec.id, spec.readOnly, error);
  if (head.receipt !== null && failed === head.receipt) {
    const refusal = receiptRefusal(error, spec.id);
    if (refusal === null) return { kind: "already_settled" };
    throw refusal;
  }
  const first = head.steps.length;
  const isUsers = failed >= first && failed < first + spec.statements.length;
  throw failureOf(error, { id: spec.id, statement: isUsers ? failed - first : undefined });
}

/** What the first steps of a transaction have returned, for its end. */
export interface Opened {
  /** The order of a write. */
  readonly order?: StatementResult | undefined;
}

export function openedBy(head: Head, results: readonly StatementResult[]): Opened {
  const { order } = head;
  return { order: order === undefined ? undefined : results[order] };
}

/** The position of a transaction whose COMMIT was answered. `results` are those of the tail. */
export function endedAt(
  session: Session,
  spec: TransactionOptions,
  readPositions: ReadPositions,
  answered: Opened & { readonly tail: Tail; readonly results: readonly StatementResult[] },
): { readonly offset: Offset; readonly isFlushed?: boolean; readonly order?: CommitOrder } {
  const { tail, results } = answered;
  const tag = results[tail.commit]?.command;
  if (tag !== "COMMIT")
    throw new HighwaterError("statement_failed", {
      detail: `The server ended the transaction with ${tag ?? "nothing"} instead of COMMIT.`,
      transactionId: spec.id,
    });
  const position = results[tail.position];
  const [lsn, epoch, snapshotText, flushed] = position?.rows[0] ?? [];
  if (epoch !== (spec.epoch as string) || lsn == null) {
    // The receipt of a write proves its epoch, so only its position is unknown. A read has no such
    // proof.
    if (spec.readOnly) throw new HighwaterError("epoch_changed", { transactionId: spec.id });
    const found = new Error(`committed in epoch ${spec.epoch}, found ${String(epoch)} behind it`);
    throw unconfirmed(spec.id, false, found);
  }
  const offset = endOfLog(parseLsn(lsn), session.segmentBytes);
  const order = tail.order === undefined ? answered.order : results[tail.order];
  const [xid, shown] = order?.rows[0] ?? [];
  if (xid != null && shown != null) return { offset, order: { xid, snapshot: shown } };
  if (!spec.readOnly || snapshotText == null || flushed == null) return { offset };
  const tightened = readPositions.tighten({ epoch: epoch as EpochId, snapshot: snapshotText, offset });
  return { offset: tightened, isFlushed: parseLsn(flushed) >= tightened };
}

/**
 * Reads the position again when COMMIT was answered and only the read of the position after it was
 * refused. If another transaction has failed in between, it rolls that one back first. If a
 * cancellation came late, or the transaction has left its session with a role that may not ask, it
 * first removes all traces from the session.
 */
export async function withPosition(
  session: Session,
  canceller: Canceller,
  outcome: PipelineOutcome,
  commitAt: number,
): Promise<PipelineOutcome> {
  const { error, results } = outcome;
  if (error === null || results.length !== commitAt + 1 || endsSession(error.severity)) return outcome;
  for (let attempt = 0; attempt < MAX_POSITION_READS && !session.isLost; attempt++) {
    try {
      if (attempt === 0 && outcome.status === "E") await session.client.query("ROLLBACK");
      else {
        await session.client.query(DISCARD_ALL);
        session.prepared.forget();
      }
      const again = await runPipeline(session, canceller, READ_POSITION);
      if (again.error === null) return { ...again, results: [...results, ...again.results] };
    } catch {
      // The same cancellation may have come in between. A lost connection was reported above.
    }
  }
  return outcome;
}
