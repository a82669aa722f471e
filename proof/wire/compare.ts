// Plays a script on a server and compares the answers with those of another server. Ignores what
// differs between two sessions of one server, and what the contract lets the gateway add.
import { setTimeout as pause } from "node:timers/promises";
import * as frames from "./frames.ts";
import { type Frame, show } from "./frames.ts";
import { type Script, piecesOf } from "./script.ts";
import { type Place, RawSession } from "./session.ts";

export interface Played {
  readonly frames: readonly Frame[];
  readonly end: "answered" | "closed" | "reset" | "silent";
}

const MARK = "the script has ended";
/** After a broken script: no more answers come if this time passes without one. */
const QUIET_MS = 400;
const LIMIT_MS = 30_000;

/**
 * Ends a COPY, the skipping after an error, and a block. Then asks for a text that no script asks
 * for.
 */
const EPILOGUE = Buffer.concat([
  frames.copyFail("over"),
  frames.sync(),
  frames.query("ROLLBACK"),
  frames.query(`SELECT '${MARK}'`),
]);

export async function play(place: Place, script: Script): Promise<Played> {
  const session = await RawSession.logIn(place, script.parameters);
  try {
    // The server may refuse the script's options. The gateway then shows only the error.
    const refused = session.frames.filter(({ type }) => type === "E");
    if (refused.length > 0) {
      await session.untilEnd();
      return { frames: refused, end: session.end ?? "silent" };
    }
    const bytes = Buffer.concat([...script.messages, ...(script.isBroken ? [] : [EPILOGUE])]);
    for (const piece of piecesOf(bytes)) {
      if (piece.pauseMs > 0) await pause(piece.pauseMs);
      if (session.end !== null) break;
      session.send(piece.bytes);
    }
    const end = script.isBroken ? await untilQuiet(session) : await untilAnswered(session);
    return { frames: session.frames, end };
  } finally {
    session.destroy();
  }
}

async function untilAnswered(session: RawSession): Promise<Played["end"]> {
  const isMark = ({ type, body }: Frame): boolean => type === "D" && body.includes(MARK);
  const end = await session
    .until((all) => {
      const mark = all.findLastIndex(isMark);
      return mark >= 0 && all.slice(mark).some(({ type }) => type === "Z") ? "answered" : null;
    }, LIMIT_MS)
    .catch(() => null);
  return end === null ? (session.end ?? "silent") : "answered";
}

async function untilQuiet(session: RawSession): Promise<Played["end"]> {
  for (let seen = -1; session.end === null && seen < session.frames.length;) {
    seen = session.frames.length;
    await pause(QUIET_MS);
  }
  return session.end ?? "silent";
}

/** The server's own objects have lower numbers. */
const FIRST_OID = 16_384;

/** Differs between sessions, or is added by the contract. */
function isOurs({ type, body }: Frame): boolean {
  if (type === "K") return true;
  return type === "S" && frames.textsOf(body)[0]?.startsWith("highwater.") === true;
}

/** A warning of the gateway. */
function isWarning({ type, body }: Frame): boolean {
  if (type !== "N") return false;
  const fields = frames.fieldsOf(body);
  return fields.get("V") === "WARNING" && /highwater/i.test(fields.get("M") ?? "");
}

/**
 * If an EXPLAIN in a simple Query fails when it runs, PostgreSQL has not sent the description of
 * its rows. The gateway sends a read by the extended protocol, where the description comes first.
 */
function isPlanHead({ type, body }: Frame): boolean {
  return type === "T" && frames.textsOf(body.subarray(2))[0] === "QUERY PLAN";
}

/** Renumbers objects that each run makes anew, in the order of their appearance. */
function comparable(played: readonly Frame[]): Frame[] {
  const names = new Map<number, number>();
  const renamed = (oid: number): number => {
    if (oid < FIRST_OID) return oid;
    const known = names.get(oid) ?? FIRST_OID + names.size;
    names.set(oid, known);
    return known;
  };
  return played
    .filter((frame) => !isOurs(frame) && !isWarning(frame))
    .filter((frame, at, all) => !isPlanHead(frame) || all[at + 1]?.type !== "E")
    .map((frame) => {
      const body = Buffer.from(frame.body);
      if (frame.type === "A") body.writeInt32BE(0, 0);
      if (frame.type === "T") renameTables(body, renamed);
      return { type: frame.type, body: withoutLine(frame.type, body) };
    });
}

/**
 * Some reports name another line of the server's source than PostgreSQL's own; all else in them is
 * equal. The gateway sends a read in a simple Query by the extended protocol, and then another
 * dispatcher raises its errors. A statement of the gateway before a COMMIT begins an implicit
 * block, and then another branch of the same function warns that there is no transaction.
 */
function withoutLine(type: string, body: Buffer): Buffer {
  if (type !== "E" && type !== "N") return body;
  const routine = frames.fieldsOf(body).get("R") ?? "";
  const isDispatchers = type === "E" && routine.startsWith("exec_");
  if (!isDispatchers && routine !== "EndTransactionBlock") return body;
  const differing = isDispatchers ? "FLR" : "L";
  const kept = frames.textsOf(body).filter((field) => !differing.includes(field.charAt(0)));
  return Buffer.from(kept.join("\0"));
}

function renameTables(body: Buffer, renamed: (oid: number) => number): void {
  for (let at = 2, left = body.readInt16BE(0); left > 0; left--) {
    at = body.indexOf(0, at) + 1;
    body.writeUInt32BE(renamed(body.readUInt32BE(at)), at);
    at += 18;
  }
}

const REFUSED_BY_TYPE =
  /^(?:unexpected message type 0x[0-9A-F]{2} during COPY from stdin|invalid frontend message type \d+)$/;

/**
 * True when the only difference is that PostgreSQL refused the script's last message by its type.
 * The gateway waits for the end of a message, which a broken script does not send.
 */
export function isRefusedByType(expected: Played, seen: Played): boolean {
  const at = expected.frames.findIndex((frame) => isError(frame, "08P01", REFUSED_BY_TYPE));
  if (at < 0 || seen.end !== "silent") return false;
  return difference({ frames: expected.frames.slice(0, at), end: "silent" }, seen) === null;
}

/**
 * True when PostgreSQL itself failed: a Query behind a Sync that ended a transaction without a
 * block finds a state that it does not expect. The gateway's own messages in between avoid that.
 */
export function isServerFault({ frames: all }: Played): boolean {
  return all.some((frame) => isError(frame, "XX000", /unexpected state STARTED$/));
}

function isError({ type, body }: Frame, sqlstate: string, message: RegExp): boolean {
  const fields = type === "E" ? frames.fieldsOf(body) : null;
  return fields?.get("C") === sqlstate && message.test(fields.get("M") ?? "");
}

const isReset = ({ end }: Played): boolean => end === "reset";

/**
 * True when PostgreSQL ended the connection in the middle of a message. It leaves bytes unread
 * then, so a client that is still sending gets a reset, and may lose the last reports. To
 * PostgreSQL the gateway is that client, and it ends the connection to its own client as usual.
 */
function endsOutOfStep({ frames: all }: Played): boolean {
  const last = all.at(-1);
  return last !== undefined && isError(last, "08P01", /protocol synchronization was lost$/);
}

/** The first difference; null if the two are equal. */
export function difference(expected: Played, seen: Played): string | null {
  const [left, right] = [comparable(expected.frames), comparable(seen.frames)];
  const isCut = isReset(expected) || isReset(seen) || (endsOutOfStep(expected) && seen.end === "closed");
  // After a reset the unread rest is missing.
  const length = isCut ? Math.min(left.length, right.length) : Math.max(left.length, right.length);
  for (let at = 0; at < length; at++) {
    const [one, other] = [left[at], right[at]];
    if (one !== undefined && other !== undefined && one.type === other.type && one.body.equals(other.body))
      continue;
    const before = left.slice(Math.max(0, at - 3), at).map(show);
    return [
      `frame ${String(at)} differs, after ${before.join(" | ")}`,
      `  PostgreSQL: ${one === undefined ? `nothing (${expected.end})` : show(one)}`,
      `  gateway:    ${other === undefined ? `nothing (${seen.end})` : show(other)}`,
    ].join("\n");
  }
  const isSame = expected.end === seen.end || (isCut && seen.end !== "silent" && expected.end !== "silent");
  return isSame ? null : `PostgreSQL's connection ends ${expected.end}, the gateway's ${seen.end}`;
}
