// What goes to the client, in order. Behind a gate everything waits until that gate opens; without
// gates bytes pass through untouched.

import { type Position } from "../positions.ts";
import { type OwnAttempt } from "./attempt.ts";

export type Decision = "undecided" | "waits" | "open";

/** A place in the stream to the client. */
export class Gate {
  decision: Decision = "undecided";
  /** It stands before the answer to a commit of this session. */
  readonly isCommit: boolean;
  /** The transaction behind it has its receipt. */
  attempt: OwnAttempt | null = null;
  /** Where it has to be durable. */
  level = "";
  /** Where the log ended behind the answer, once that is known. */
  position: Position | null = null;
  /** Goes to the client when the gate opens, in its place. */
  prefix: Buffer | null = null;

  constructor(isCommit: boolean) {
    this.isCommit = isCommit;
  }

  /** Goes to the client in its place, behind what does so already. */
  say(bytes: Buffer): void {
    this.prefix = this.prefix === null ? bytes : Buffer.concat([this.prefix, bytes]);
  }
}

export class HoldQueue {
  readonly #write: (bytes: Buffer) => void;
  #entries: (Buffer | Gate)[] = [];
  #heldBytes = 0;

  constructor(write: (bytes: Buffer) => void) {
    this.#write = write;
  }

  get isEmpty(): boolean {
    return this.#entries.length === 0;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** Those that have something behind them, oldest first. */
  get gates(): readonly Gate[] {
    return this.#entries.filter((entry) => entry instanceof Gate);
  }

  /** The gate that has waited longest, among those that wait. */
  get oldest(): Gate | null {
    for (const entry of this.#entries) if (entry instanceof Gate && entry.decision === "waits") return entry;
    return null;
  }

  push(bytes: Buffer): void {
    if (this.#entries.length === 0) {
      this.#write(bytes);
      return;
    }
    this.#entries.push(bytes);
    this.#heldBytes += bytes.length;
  }

  /** From here on bytes are held until the gate opens. */
  gate(isCommit: boolean): Gate {
    const gate = new Gate(isCommit);
    this.#entries.push(gate);
    return gate;
  }

  open(gate: Gate): void {
    gate.decision = "open";
    let count = 0;
    for (const entry of this.#entries) {
      if (entry instanceof Gate) {
        if (entry.decision !== "open") break;
        if (entry.prefix !== null) this.#write(entry.prefix);
      } else {
        this.#heldBytes -= entry.length;
        this.#write(entry);
      }
      count++;
    }
    this.#entries = count === this.#entries.length ? [] : this.#entries.slice(count);
  }

  /** What is held will never go out. */
  clear(): void {
    this.#entries = [];
    this.#heldBytes = 0;
  }
}
