// Reads recorded histories line by line, because a file may be larger than memory. Does not
// interpret the records.
import { createReadStream } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { HistoryError, type Origin } from "./faults.ts";
import { type HistoryRecord } from "./history.ts";
import { validate } from "./validate.ts";

export interface ReadResult {
  readonly files: number;
  /** Incomplete last lines, of processes that were killed while they wrote. */
  readonly torn: number;
}

const NEWLINE = 10;

/** Passes on every record of the files, and of every `*.jsonl` in the folders. */
export async function readHistories(
  paths: readonly string[],
  take: (record: HistoryRecord, origin: Origin) => void,
): Promise<ReadResult> {
  const files = (await Promise.all(paths.map(filesOf))).flat();
  let torn = 0;
  for (const file of files) torn += await readFile(file, take);
  return { files: files.length, torn };
}

async function filesOf(path: string): Promise<string[]> {
  try {
    if (!(await stat(path)).isDirectory()) return [path];
    const names = (await readdir(path)).filter((name) => name.endsWith(".jsonl"));
    if (names.length > 0) return names.sort().map((name) => join(path, name));
  } catch (error) {
    throw new HistoryError("unreadable", `cannot read ${path}`, null, error);
  }
  throw new HistoryError("unreadable", `no *.jsonl in ${path}`, null);
}

/** Resolves with 1 if the last line is incomplete. */
async function readFile(
  file: string,
  take: (record: HistoryRecord, origin: Origin) => void,
): Promise<number> {
  let line = 0;
  let rest: Buffer[] = [];
  const takeLine = (bytes: Buffer): void => {
    line += 1;
    const origin = { file, line };
    const record = recordOf(bytes);
    if (typeof record === "string") throw new HistoryError("malformed", record, origin);
    if (record !== null) take(record, origin);
  };
  try {
    for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 })) {
      const bytes = chunk as Buffer;
      let from = 0;
      for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, from)) {
        takeLine(Buffer.concat([...rest, bytes.subarray(from, end)]));
        rest = [];
        from = end + 1;
      }
      if (from < bytes.length) rest.push(bytes.subarray(from));
    }
  } catch (error) {
    if (error instanceof HistoryError) throw error;
    throw new HistoryError("unreadable", `cannot read ${file}`, null, error);
  }
  if (rest.length === 0) return 0;
  // A process that was killed between the two writes leaves the whole line without its newline.
  const last = recordOf(Buffer.concat(rest));
  if (typeof last === "string") return 1;
  if (last !== null) take(last, { file, line: line + 1 });
  return 0;
}

/** Null for an empty line; a string describes the fault. */
function recordOf(bytes: Buffer): HistoryRecord | string | null {
  const text = bytes.toString("utf8");
  if (text.trim() === "") return null;
  try {
    return validate(JSON.parse(text));
  } catch {
    return "the line is no JSON";
  }
}
