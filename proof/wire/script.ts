// Scripts: a client's messages, one per line, so that a script without some lines is still a
// script. The same text gives the same bytes in the same pieces.
import { Random, seedOf } from "../fuzz/src/random.ts";
import * as frames from "./frames.ts";

/** `["Q","SELECT 1"]`: the message's type, then its content. */
type Line = readonly unknown[];

export interface Script {
  readonly parameters: Readonly<Record<string, string>>;
  readonly messages: readonly Buffer[];
  /** It ends with bytes that are not a message, so no answer follows. */
  readonly isBroken: boolean;
}

/** The functions that a script may call by FunctionCall, by name. */
export type Functions = Readonly<Record<string, number>>;

/** Skips invalid lines, so that an input that is changed byte by byte stays a script. */
export function readScript(input: Buffer, functions: Functions): Script {
  const messages: Buffer[] = [];
  let parameters: Record<string, string> = {};
  for (const line of input.toString("utf8").split("\n")) {
    const parsed = lineOf(line);
    if (parsed === null) continue;
    const [type, ...rest] = parsed;
    if (type === "options") parameters = { options: textOf(rest[0]) };
    if (type === "raw")
      return { parameters, messages: [...messages, Buffer.from(textOf(rest[0]), "base64")], isBroken: true };
    const message = encode(type, rest, functions);
    if (message !== null) messages.push(message);
    // The server reads nothing after it.
    if (type === "X") return { parameters, messages, isBroken: true };
  }
  return { parameters, messages, isBroken: false };
}

function lineOf(line: string): Line | null {
  if (!line.startsWith("[")) return null;
  try {
    const parsed: unknown = JSON.parse(line);
    return Array.isArray(parsed) ? parsed : null;
  } catch {
    return null;
  }
}

/** A text of the protocol ends at its first zero byte. */
const textOf = (value: unknown): string =>
  (typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value)).split("\0")[0] ?? "";
const numberOf = (value: unknown): number => (Number.isInteger(value) ? Math.trunc(Number(value)) | 0 : 0);
const kindOf = (value: unknown): "S" | "P" => (value === "P" ? "P" : "S");
const listOf = (value: unknown): (string | null)[] =>
  (Array.isArray(value) ? value : []).map((each) => (each === null ? null : textOf(each)));
const formatOf = (value: unknown): number => (value === 1 ? 1 : 0);

function encode(type: unknown, rest: readonly unknown[], functions: Functions): Buffer | null {
  const [first, second, third, fourth, fifth] = rest;
  switch (type) {
    case "Q":
      return frames.query(textOf(first));
    case "P":
      return frames.parse(textOf(first), textOf(second));
    case "B":
      return frames.message(
        "B",
        ...[frames.text(textOf(first)), frames.text(textOf(second))],
        frames.values(listOf(third), formatOf(fourth)),
        frames.int16(1, formatOf(fifth)),
      );
    case "D":
      return frames.describe(kindOf(first), textOf(second));
    case "E":
      return frames.execute(textOf(first), numberOf(second));
    case "C":
      return frames.close(kindOf(first), textOf(second));
    case "F":
      return frames.call(functions[textOf(first)] ?? numberOf(first), listOf(second));
    case "d":
      return frames.copyData(textOf(first));
    case "c":
      return frames.copyDone();
    case "f":
      return frames.copyFail(textOf(first));
    case "S":
      return frames.sync();
    case "H":
      return frames.flush();
    case "X":
      return frames.terminate();
    default:
      return null;
  }
}

/** A message's type and length. */
const HEADER_BYTES = 5;

/** The script's last message is valid up to where it breaks off. */
export function breaksOff({ messages, isBroken }: Script): boolean {
  const last = messages.at(-1);
  if (!isBroken || last === undefined) return false;
  return last.length < HEADER_BYTES || last.readInt32BE(1) >= last.length;
}

/** Bytes that are sent in one piece, and the pause before them. */
export interface Piece {
  readonly bytes: Buffer;
  readonly pauseMs: number;
}

const PAUSES_MAX = 25;

/** Splits the bytes at points that depend only on the bytes. */
export function piecesOf(bytes: Buffer): Piece[] {
  const random = new Random(seedOf(bytes));
  const pieceMax = random.pick([1, 3, 7, 40, 300, 65_536]);
  const pauses = random.pick([[0], [0, 0, 1], [0, 3, 12]]);
  const pieces: Piece[] = [];
  // A long script in tiny pieces would take minutes.
  for (let at = 0; at < bytes.length;) {
    const most = pieces.length < 400 ? pieceMax : bytes.length;
    const end = Math.min(bytes.length, at + 1 + random.below(most));
    const pauseMs = pieces.length < PAUSES_MAX ? random.pick(pauses) : 0;
    pieces.push({ bytes: bytes.subarray(at, end), pauseMs });
    at = end;
  }
  return pieces;
}
