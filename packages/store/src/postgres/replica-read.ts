// A read-only transaction on a replica, once its snapshot has been proven to contain what it has to.
import { type EpochId, HighwaterError, type Offset } from "@highwater/protocol";
import { type ReplicaRead, type ReplicaReading } from "../port.ts";
import { formatLsn, parseLsn } from "./lsn.ts";
import { type PipelineOutcome } from "./pipeline.ts";
import { failureOf } from "./failures.ts";
import { bodyOf, limitSteps, quiet } from "./plan.ts";
import { type Canceller, runPipeline, type Session } from "./session.ts";
import { endsSession, isStalePlan } from "./sqlstate.ts";
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
        throw new HighwaterError("statement_failed", { detail: "The schema changes too fast." }, { cause });
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
  const send = async (steps: Parameters<typeof runPipeline>[2]["steps"]): Promise<PipelineOutcome> => {
    const { maxBytes, fieldDetails = false } = read;
    try {
      return await runPipeline(session, canceller, { steps, maxBytes, fieldDetails, signal });
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
  const check = quiet(REPLICA_SNAPSHOT, wanted);
  const head = [quiet(`BEGIN ISOLATION LEVEL ${level} READ ONLY`), ...limits, check];
  const opened = await send(head);
  try {
    if (opened.error !== null) throw refusal(opened, 0, 0);
    const snapshot = snapshotOf(opened.results.at(-1)?.rows[0]);
    if (snapshot === null || (after !== null && !snapshot.hasAfter)) return { kind: "behind" };
    // In READ COMMITTED every statement has a snapshot of its own: what the last one showed lies below a last look.
    const body = bodyOf(statements, read);
    const ended = await send([...body, check, quiet("COMMIT")]);
    if (ended.error !== null) throw refusal(ended, 0, body.length);
    const last = snapshotOf(ended.results[body.length]?.rows[0]);
    if (last?.position.epoch !== snapshot.position.epoch) return { kind: "behind" };
    const { position } = isolation === "repeatable read" ? snapshot : last;
    return { kind: "read", results: ended.results.slice(0, body.length), position, ageMs: last.ageMs };
  } finally {
    // After a COMMIT this is a mere warning; everywhere else nothing may stay open.
    if (!session.isLost) await session.client.query("ROLLBACK").catch(() => undefined);
  }
}

function refusal({ error, results }: PipelineOutcome, first: number, count: number): Error {
  if (error === null) return new Error("nothing was refused");
  if (endsSession(error.severity))
    return new HighwaterError("primary_unavailable", { detail: error.message }, { cause: error });
  if (error.code !== undefined && isStalePlan(error.code, error.routine)) return new StalePlan();
  const failed = results.length - first;
  return failureOf(error, { id: undefined, statement: failed < count ? failed : undefined });
}

interface Snapshot {
  readonly position: { readonly epoch: EpochId; readonly offset: Offset };
  readonly hasAfter: boolean;
  readonly ageMs: number | null;
}

/**
 * Null when nobody can tell which history it belongs to: no replica, no epoch, or a log that comes from another timeline than
 * the newest epoch's. That is so between a promotion and the next epoch's record.
 */
function snapshotOf(row: readonly (string | null)[] | undefined): Snapshot | null {
  const [inRecovery, epoch, isOnTimeline, replayed, hasAfter, ageMs] = row ?? [];
  if (inRecovery !== "true" || isOnTimeline !== "true" || epoch == null || replayed == null) return null;
  return {
    position: { epoch: epoch as EpochId, offset: parseLsn(replayed) },
    hasAfter: hasAfter === "true",
    ageMs: ageMs == null ? null : Math.max(0, Math.round(Number(ageMs))),
  };
}
