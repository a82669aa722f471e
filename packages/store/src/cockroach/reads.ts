// Reads at a position: as of a time a few seconds ago, which the nearest server of the cluster can
// serve by itself. A position is a time, so the snapshot is known exactly, and one round trip is
// enough. (docs/decisions/0248-inside-one-cockroachdb-cluster.md)
import { type EpochId, HighwaterError, maxOffset, type Offset, ZERO } from "@highwater/protocol";
import { type ReplicaRead, type ReplicaReading } from "../port.ts";
import { failureOf } from "../postgres/failures.ts";
import { type PipelineOutcome, type Step } from "../postgres/pipeline.ts";
import { leavesTraces, limitSteps, quiet } from "../postgres/plan.ts";
import { runPipeline, type Session } from "../postgres/session.ts";
import { endsSession } from "../postgres/sqlstate.ts";
import { formatHlc, offsetAtMs, wallMsOf } from "./hlc.ts";
import { type Sessions } from "./sessions.ts";
import { SNAPSHOT } from "./sql.ts";
import { refuse, wholeRows } from "./transactions.ts";

/** Replicas have closed what is older: the default of `follower_read_timestamp()`. */
const CLOSED_AFTER_MS = 4_200;
const BEHIND = { kind: "behind" } as const;
/**
 * The server's clock has not got to the time yet, or versions of then are gone. Without SQLSTATEs
 * of their own.
 */
const NOT_AT_THAT_TIME = /cannot specify timestamp in the future|must be after replica GC threshold/;
/** It has not prepared the service's tables by then. */
const UNPREPARED = new Set(["42P01", "3F000"]);

export async function readAsOf(
  sessions: Sessions,
  read: ReplicaRead,
  nowMs: number,
  signal: AbortSignal | undefined,
): Promise<ReplicaReading> {
  refuse(read.statements);
  const { after } = read;
  const at = maxOffset(after?.offset ?? ZERO, offsetAtMs(nowMs - CLOSED_AFTER_MS));
  const session = await sessions.lease(read, signal);
  let keep = false;
  try {
    // No placeholder may stand for the time, and no other transaction has the same text.
    const { isFixed: _, ...begin } = quiet(`BEGIN AS OF SYSTEM TIME ${formatHlc(at)}`);
    const head = [begin, ...limitSteps(read), quiet(SNAPSHOT, [after?.epoch ?? null])];
    const body = wholeRows(read.statements, read);
    const outcome = await send(session, sessions, read, [...head, ...body, quiet("COMMIT")], signal);
    keep = outcome.status === "I" && !leavesTraces(read.statements);
    const { results, error } = outcome;
    if (error !== null && isElsewhere(error, results.length < head.length)) return BEHIND;
    const [epoch, fork] = results[head.length - 1]?.rows[0] ?? [];
    if (results.length >= head.length && (epoch == null || !has(epoch as EpochId, fork ?? null, after)))
      return BEHIND;
    if (error !== null) throw failed(error, results.length - head.length, read.statements.length);
    const position = { epoch: epoch as EpochId, offset: at };
    const ageMs = Math.max(0, nowMs - wallMsOf(at));
    return { kind: "read", results: results.slice(head.length, -1), position, ageMs };
  } finally {
    sessions.release(session, keep);
  }
}

async function send(
  session: Session,
  { canceller }: Sessions,
  { maxBytes, fieldDetails, meter }: ReplicaRead,
  steps: readonly Step[],
  signal: AbortSignal | undefined,
): Promise<PipelineOutcome> {
  try {
    return await runPipeline(session, canceller, {
      steps,
      maxBytes,
      fieldDetails,
      meter,
      signal,
      leaves: "I",
    });
  } catch (cause) {
    const detail = "The connection of the read was lost.";
    throw new HighwaterError("primary_unavailable", { detail }, { cause });
  }
}

function isElsewhere({ code, message }: Error & { code?: string | undefined }, isInHead: boolean): boolean {
  return NOT_AT_THAT_TIME.test(message) || (isInHead && UNPREPARED.has(code ?? ""));
}

/** `fork`: up to where the history has the log of the epoch in `after`, if that epoch has ended. */
function has(epoch: EpochId, fork: string | null, after: ReplicaRead["after"]): boolean {
  return (
    after === null || after.epoch === epoch || (fork !== null && after.offset <= (BigInt(fork) as Offset))
  );
}

function failed(error: NonNullable<PipelineOutcome["error"]>, at: number, count: number): HighwaterError {
  if (endsSession(error.severity))
    return new HighwaterError("primary_unavailable", { detail: error.message }, { cause: error });
  return failureOf(error, { id: undefined, statement: at >= 0 && at < count ? at : undefined });
}
