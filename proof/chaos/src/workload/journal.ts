// Writes one process's part of the history, one line at a time, and separately the notes that only
// the run needs: tokens, and epochs that trackers reported. The operating system has each line
// before the writer continues, so lines outlive the process.
import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import {
  type ClientReply,
  type EpochId,
  type HistoryRecord,
  type Invocation,
  type Resolution,
  type VerdictReport,
  type TxnId,
} from "@highwater/checker";
import { nowMs } from "../clock.ts";
import { type EpochSummary, type Progress } from "../parts.ts";

export interface TokenNote {
  readonly kind: "token";
  readonly txn: TxnId;
  readonly token: string;
  /** The epoch of the token's attempt, if it is known. */
  readonly attempt: EpochId | null;
}

export type EpochNote = EpochSummary & { readonly kind: "epoch" };

export type Note = TokenNote | EpochNote;

type Untimed<T> = Omit<T, "type" | "atMs">;

export class Journal {
  readonly #history: number;
  readonly #notes: number;
  readonly #owner: { readonly owner?: string };
  readonly #lost = new Set<TxnId>();
  readonly #counts = { invoked: 0, committed: 0, unknown: 0 };

  /** Writes `NAME.jsonl` and `NAME.notes`. `owner`: the owner of the recorded transactions. */
  constructor(dir: string, name: string, owner?: string) {
    this.#owner = owner === undefined ? {} : { owner };
    this.#history = openSync(join(dir, `${name}.jsonl`), "a");
    this.#notes = openSync(join(dir, `${name}.notes`), "a");
  }

  get progress(): Progress {
    return { ...this.#counts, lost: this.#lost.size };
  }

  invoked(invocation: Untimed<Invocation>): void {
    this.#counts.invoked += 1;
    this.#write({ type: "invocation", atMs: nowMs(), ...this.#owner, ...invocation });
  }

  answered(answer: Untimed<ClientReply>): void {
    if (answer.outcome === "committed") this.#counts.committed += 1;
    if (answer.outcome === "unknown") this.#counts.unknown += 1;
    if (answer.outcome === "lost") this.#lost.add(answer.txn);
    this.#write({ type: "answer", atMs: nowMs(), ...answer });
  }

  resolved(resolution: Untimed<Resolution>): void {
    this.#write({ type: "resolution", atMs: nowMs(), ...resolution });
  }

  report(report: Untimed<VerdictReport>): void {
    if (report.by === "promise" && report.verdict === "lost") this.#lost.add(report.txn);
    this.#write({ type: "report", atMs: nowMs(), ...report });
  }

  write(record: HistoryRecord): void {
    this.#write(record);
  }

  note(note: Note): void {
    writeLine(this.#notes, note);
  }

  close(): void {
    closeSync(this.#history);
    closeSync(this.#notes);
  }

  #write(record: HistoryRecord): void {
    writeLine(this.#history, record);
  }
}

function writeLine(file: number, value: unknown): void {
  const bytes = Buffer.from(`${JSON.stringify(value)}\n`);
  for (let at = 0; at < bytes.length;) at += writeSync(file, bytes, at);
}
