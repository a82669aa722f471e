// Reads back the records of all client processes, including those of a process that was killed.
import { createReadStream } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type ClientReply, type Invocation, type Resolution, type TxnId } from "@highwater/checker";
import { type EpochNote, type Note, type TokenNote } from "./journal.ts";

type Asked = Pick<Invocation, "level" | "readOnly" | "owner">;

export interface Recorded {
  readonly invocations: ReadonlyMap<TxnId, Asked>;
  readonly unanswered: readonly TxnId[];
  /** Ids that may have written: their outcome is unknown, or they committed without a token. */
  readonly unresolved: readonly TxnId[];
  /** One token for each transaction that has any. */
  readonly tokens: ReadonlyMap<TxnId, TokenNote>;
  readonly epochs: readonly EpochNote[];
}

const WANTED = /^\{"type":"(?:invocation|answer|resolution)"/;

export async function readRecorded(dir: string): Promise<Recorded> {
  const invocations = new Map<TxnId, Asked>();
  /** Services do not know these ids. */
  const unreceipted = new Set<TxnId>();
  const answers = new Map<TxnId, ClientReply["outcome"]>();
  const resolved = new Set<TxnId>();
  const tokens = new Map<TxnId, TokenNote>();
  const epochs = new Map<string, EpochNote>();
  const files = await readdir(dir);
  for (const file of files.filter((name) => name.endsWith(".jsonl"))) {
    for await (const line of linesOf(join(dir, file))) {
      // Most lines are verdicts, which this reader does not need.
      if (!WANTED.test(line)) continue;
      const record = JSON.parse(line) as Invocation | ClientReply | Resolution;
      if (record.type === "invocation") {
        const { level, readOnly, owner } = record;
        if (record.receipt === false) unreceipted.add(record.txn);
        invocations.set(record.txn, { level, readOnly, ...(owner !== undefined && { owner }) });
      } else if (record.type === "answer") answers.set(record.txn, record.outcome);
      else resolved.add(record.txn);
    }
  }
  for (const file of files.filter((name) => name.endsWith(".notes"))) {
    for await (const line of linesOf(join(dir, file))) {
      const note = JSON.parse(line) as Note;
      if (note.kind === "epoch") epochs.set(note.id, note);
      else if (!tokens.has(note.txn)) tokens.set(note.txn, note);
    }
  }
  const all = [...invocations.keys()];
  const unanswered = all.filter((txn) => !answers.has(txn));
  return {
    invocations,
    tokens,
    unanswered,
    unresolved: all.filter((txn) => {
      const answer = answers.get(txn);
      const isWrite = invocations.get(txn)?.readOnly === false;
      // A read-only transaction without an answer has no outcome. On the wire, a commit that was
      // not held until it had a token is looked up meanwhile, but not for ever.
      const isOpen =
        answer === "unknown" ||
        (isWrite && (answer === undefined || (answer === "committed" && !tokens.has(txn))));
      return isOpen && !resolved.has(txn) && !unreceipted.has(txn);
    }),
    epochs: [...epochs.values()].sort((a, b) => a.seq - b.seq),
  };
}

/** Skips an incomplete last line. */
async function* linesOf(file: string): AsyncGenerator<string> {
  for await (const line of createInterface({ input: createReadStream(file), crlfDelay: Infinity }))
    if (line.endsWith("}")) yield line;
}
