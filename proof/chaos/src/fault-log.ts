// Writes the nemesis's part of the history and counts its faults.
import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { type Failure, type Fault, type HistoryRecord, type WrongClock } from "@highwater/checker";
import { type EpochSummary, type FaultLog } from "./parts.ts";
import { type EpochNote } from "./workload/journal.ts";

export class FaultFile implements FaultLog {
  readonly #file: number;
  readonly #notes: number;
  readonly #counts = new Map<string, number>();
  readonly #failed: string[] = [];

  /** Writes `NAME.jsonl` and `NAME.notes`. */
  constructor(dir: string, name: string) {
    this.#file = openSync(join(dir, `${name}.jsonl`), "a");
    this.#notes = openSync(join(dir, `${name}.notes`), "a");
  }

  /** Faults that took effect, by kind. */
  get counts(): Record<string, number> {
    return Object.fromEntries([...this.#counts].sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  get total(): number {
    return [...this.#counts.values()].reduce((sum, count) => sum + count, 0);
  }

  /** Faults that did not take effect. */
  get failed(): readonly string[] {
    return this.#failed;
  }

  fault(fault: Omit<Fault, "type">): void {
    if (fault.error === null) this.#counts.set(fault.kind, (this.#counts.get(fault.kind) ?? 0) + 1);
    else this.#failed.push(`${fault.kind} (${fault.target}): ${fault.error}`);
    this.#write({ type: "fault", ...fault });
  }

  clock(clock: Omit<WrongClock, "type">): void {
    this.#write({ type: "clock", ...clock });
  }

  failure(failure: Omit<Failure, "type">): void {
    this.#write({ type: "failure", ...failure });
  }

  epoch({ id, seq, previous, node }: EpochSummary): void {
    const note: EpochNote = { kind: "epoch", id, seq, previous, node };
    writeSync(this.#notes, `${JSON.stringify(note)}\n`);
  }

  close(): void {
    closeSync(this.#file);
    closeSync(this.#notes);
  }

  #write(record: HistoryRecord): void {
    writeSync(this.#file, `${JSON.stringify(record)}\n`);
  }
}
