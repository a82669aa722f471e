// Runs a read-only transaction on a replica, after its snapshot has been proven to contain what it
// must.
import { type EpochId, HighwaterError, type Offset } from "@highwater/protocol";
import { type ReplicaRead, type ReplicaReading } from "../port.ts";
import { formatLsn, parseLsn } from "./lsn.ts";
import { type PipelineOutcome, type Step } from "./pipeline.ts";
import { cutStatement } from "./execute.ts";
import { cutShort, failureOf } from "./failures.ts";
import { bodyOf, limitSteps, quiet } from "./plan.ts";
import { type Canceller, type PipelineRun, rollBack, runPipeline, type Session } from "./session.ts";
import { CANCELLED, endsSession, isStalePlan } from "./sqlstate.ts";
import { REPLICA_SNAPSHOT } from "./sql.ts";

const REPLANS_MAX = 2;

/** In two round trips: nothing runs in a snapshot that is too old. */
export async function readOn(
  session: Session,
  read: ReplicaRead,
  canceller: Canceller,
  signal: AbortSignal | undefined,
): Promise<ReplicaReading> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await attemptOn(session, read, canceller, signal);
    } catch (cause) {
      if (!(cause instanceof StalePlan)) throw cause;
      session.prepared.clear();
      if (attempt >= REPLANS_MAX)
        throw new HighwaterError(
          "statement_failed",
          { detail: "The schema kept changing while the read ran; run it again when the schema is stable." },
          { cause },
        );
    }
  }
}

class StalePlan extends Error {}

async function attemptOn(
  session: Session,
  read: ReplicaRead,
  canceller: Canceller,
  signal: AbortSignal | undefined,
): Promise<ReplicaReading> {
  const send = async (steps: PipelineRun["steps"], leaves: "I" | "T"): Promise<PipelineOutcome> => {
    const { maxBytes, fieldDetails, meter } = read;
    try {
      const run = { steps, maxBytes, fieldDetails, meter, signal, leaves, cancelWhenCut: true };
      return await runPipeline(session, canceller, run);
    } catch (cause) {
      throw new HighwaterError(
        "primary_unavailable",
        { detail: "The replica's connection was lost." },
        { cause },
      );
    }
  };
  const { after, isolation, statements } = read;
  const level = isolation === "repeatable read" ? "REPEATABLE READ" : "READ COMMITTED";
  const limits = limitSteps(read);
  const wanted = after === null ? [null, null] : [after.epoch, formatLsn(after.offset)];
  const check: Step = { ...quiet(REPLICA_SNAPSHOT, wanted), isNamed: true };
  const head = [quiet(`BEGIN ISOLATION LEVEL ${level} READ ONLY`), ...limits, check];
  const opened = await send(head, "T");
  let isOpen = opened.status !== "I";
  try {
    if (isUnprepared(opened.error)) return { kind: "behind" };
    if (opened.error !== null) throw refusal(opened, 0);
    const first = snapshotOf(opened.results.at(-1)?.rows[0]);
    if (first === null || (after !== null && !first.hasAfter)) return { kind: "behind" };
    // In READ COMMITTED every statement has a snapshot of its own, and none hides a TRUNCATE: what
    // was shown lies below a last look.
    const body = bodyOf(statements, read);
    const ended = await send([...body, check, quiet("COMMIT")], "I");
    isOpen = ended.status !== "I";
    if (ended.isCut && ended.error?.code === CANCELLED)
      throw cutShort(read, { id: undefined, statement: cutStatement(ended.results.slice(0, body.length)) });
    if (ended.error !== null) throw refusal(ended, body.length);
    const last = snapshotOf(ended.results[body.length]?.rows[0]);
    if (last?.epoch !== first.epoch) return { kind: "behind" };
    const { epoch, ageMs } = last;
    const offset = boundOf(last);
    return { kind: "read", results: ended.results.slice(0, body.length), position: { epoch, offset }, ageMs };
  } finally {
    if (isOpen && !session.isLost) await rollBack(session, canceller);
  }
}

/** `count`: of the caller's statements, which come first. */
function refusal({ error, results }: PipelineOutcome, count: number): Error {
  if (error === null) return new Error("nothing was refused");
  if (endsSession(error.severity))
    return new HighwaterError("primary_unavailable", { detail: error.message }, { cause: error });
  if (error.code !== undefined && isStalePlan(error.code, error.routine)) return new StalePlan();
  const failed = results.length;
  return failureOf(error, { id: undefined, statement: failed < count ? failed : undefined });
}

/**
 * The service's tables have not come this far yet: there is no such schema, or no such function.
 */
function isUnprepared(error: PipelineOutcome["error"]): boolean {
  return error?.code === "3F000" || error?.code === "42883";
}

interface Snapshot {
  readonly epoch: EpochId;
  /** Replayed when it was asked for behind the snapshot, and when it was asked for once more. */
  readonly replayed: Offset;
  readonly replayedNext: Offset;
  /** Between the two, recovery waited for log. */
  readonly waits: boolean;
  /** On the replica's disk, as of the second question. */
  readonly received: Offset;
  readonly hasAfter: boolean;
  readonly ageMs: number | null;
}

/**
 * Null when it is unknown which history it belongs to: no replica, no epoch, or a log that comes
 * from another timeline than the newest epoch's. That is so between a promotion and the next
 * epoch's record.
 */
function snapshotOf(row: readonly (string | null)[] | undefined): Snapshot | null {
  const [inRecovery, epoch, isOnTimeline, replayed, hasAfter, ageMs, waits, next, received] = row ?? [];
  if (inRecovery !== "true" || isOnTimeline !== "true" || epoch == null || replayed == null) return null;
  return {
    epoch: epoch as EpochId,
    replayed: parseLsn(replayed),
    replayedNext: parseLsn(next ?? replayed),
    waits: waits === "true",
    received: parseLsn(received ?? replayed),
    hasAfter: hasAfter === "true",
    ageMs: ageMs == null ? null : Math.max(0, Math.round(Number(ageMs))),
  };
}

/**
 * Above everything that the snapshot shows. A commit can be seen before its record counts as
 * replayed, for as long as it has files to remove: what was replayed behind the snapshot may be
 * that one record short. The record cannot lie above what had been received; once replay has moved
 * on, it is in; and if recovery waits for log, nothing is half done. Each of these bounds it, and
 * the lowest is the best: what was received may end within a record, which a promoted replica does
 * not keep.
 */
function boundOf({ replayed, replayedNext, received, waits }: Snapshot): Offset {
  if (waits || replayedNext > replayed) return replayedNext;
  return received > replayed ? received : replayed;
}
