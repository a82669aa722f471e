// The nemesis's part of the history, and how often it did what.
import { closeSync, openSync, writeSync } from "node:fs";
import { type Failure, type Fault, type HistoryRecord, type WrongClock } from "@highwater/checker";
import { type FaultLog } from "./parts.ts";

export class FaultFile implements FaultLog {
  readonly #file: number;
  readonly #counts = new Map<string, number>();
  readonly #failed: string[] = [];

  constructor(path: string) {
    this.#file = openSync(path, "a");
  }

  /** Faults that did what they should, by kind. */
  get counts(): Record<string, number> {
    return Object.fromEntries([...this.#counts].sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  get total(): number {
    return [...this.#counts.values()].reduce((sum, count) => sum + count, 0);
  }

  /** Those that did not. */
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

  close(): void {
    closeSync(this.#file);
  }

  #write(record: HistoryRecord): void {
    writeSync(this.#file, `${JSON.stringify(record)}\n`);
  }
}
