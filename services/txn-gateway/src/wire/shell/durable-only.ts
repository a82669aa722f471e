// The answers to `highwater.reads = durable`: how old they are, and what a client gets in place of
// rows that must not be shown.
import { errorResponse, parameterStatus, type Report } from "../frames/build.ts";
import { AGE_PARAMETER, FLOOR_PARAMETER } from "../model/holds.ts";
import { Gate, type HoldQueue } from "../model/hold-queue.ts";
import { type Look, type SessionState } from "../model/state.ts";
import { type Position } from "../positions.ts";
import { type Shown } from "../replicas.ts";
import { type SessionOptions } from "./session-options.ts";

/** When the replica's state was the primary's. Null: not known. */
export function asOf(look: Look | null, { epoch, end }: Shown): number | null {
  if (look === null) return null;
  const hadAll = look.epoch === epoch && look.offset >= end;
  const behindMs = hadAll ? 0 : look.ageMs;
  return behindMs === null ? null : look.atMs - behindMs;
}

/** What the next session must not fall behind, and how old this answer is at most. */
export function sayFloor(
  gate: Gate,
  position: Position,
  asOfMs: number | null,
  { attempts, principal, nowMs }: Pick<SessionOptions, "attempts" | "principal" | "nowMs">,
): void {
  const age = asOfMs === null ? "" : String(Math.ceil(nowMs() - asOfMs));
  gate.say(parameterStatus(FLOOR_PARAMETER, attempts.positionToken(principal.owner, position)));
  gate.say(parameterStatus(AGE_PARAMETER, age));
}

const NOT_DURABLE: Report = {
  severity: "ERROR",
  code: "57014",
  message: "canceling statement: what it shows has not become durable within highwater.max_wait",
  detail: "highwater.reads is durable.",
  hint: "Ask again: a newer snapshot may show only what is durable.",
};
/** The session ends, because the transaction behind the answer may have committed. */
const MAY_HAVE_WRITTEN: Report = {
  severity: "FATAL",
  code: "40003",
  message: "the transaction may have committed, and its answer is not durable within highwater.max_wait",
  detail: "highwater.reads is durable.",
};

const HEADER_BYTES = 5;
const LENGTH_AT = 1;
/** Nothing in the server depends on whether the client has seen one of these. */
const MAY_GO = new Set([..."DCETtns23IHdcN"].map((type) => type.charCodeAt(0)));
const [PARAMETER = 0, READY = 0] = [..."SZ"].map((type) => type.charCodeAt(0));

/**
 * Puts an error in the place of what the gate holds. Returns the gates that are gone, or the error
 * with which the session has to end.
 */
export function refuseShown(
  gate: Gate,
  {
    queue,
    state,
    isBetweenFrames,
  }: { readonly queue: HoldQueue; readonly state: SessionState; readonly isBetweenFrames: boolean },
): readonly Gate[] | Report {
  const { status, expected, isAtReplica } = state;
  const behind = queue.behind(gate);
  const gates = [gate, ...behind.filter((entry) => entry instanceof Gate)];
  if (!isAtReplica && gates.some(({ isCommit }) => isCommit)) return MAY_HAVE_WRITTEN;
  const isOver = status === "I" && expected.isEmpty && isBetweenFrames;
  const answer = isOver ? refusedAnswer(behind) : null;
  if (answer === null) return { ...NOT_DURABLE, severity: "FATAL" };
  queue.drop(gate);
  queue.push(answer);
  return gates;
}

/**
 * The error, with the end of the answer that is held. Null: more is held than the rest of one
 * answer, so only the end of the session can take its place.
 */
function refusedAnswer(held: readonly (Buffer | Gate)[]): Buffer | null {
  const bytes = Buffer.concat(held.flatMap((entry) => (entry instanceof Gate ? [] : [entry])));
  const kept: Buffer[] = [];
  for (let at = 0; at < bytes.length;) {
    const type = bytes[at] ?? 0;
    const end = at + LENGTH_AT + bytes.readUInt32BE(at + LENGTH_AT);
    if (type === READY && end === bytes.length && end === at + HEADER_BYTES + 1)
      return Buffer.concat([...kept, errorResponse(NOT_DURABLE), bytes.subarray(at)]);
    if (type === PARAMETER) kept.push(bytes.subarray(at, end));
    else if (!MAY_GO.has(type)) return null;
    at = end;
  }
  return null;
}
