// The stream to the client, in order. Bytes after a gate wait until it opens; without gates all
// bytes pass at once.

import { type Position } from "../positions.ts";
import { type OwnAttempt } from "./attempt.ts";

export type Decision = "undecided" | "waits" | "open";

/** A point in the stream to the client. */
export class Gate {
  decision: Decision = "undecided";
  /** The gate comes before the answer to a commit of this session. */
  readonly isCommit: boolean;
  /** The transaction whose answer waits here, if it has a receipt. */
  attempt: OwnAttempt | null = null;
  /** What is behind it is never shown before it is durable, not even when its time is over. */
  isDurableOnly = false;
  /** The level at which everything before the gate has to be durable. */
  level = "";
  /** The end of the log after the commit, once it is known. */
  position: Position | null = null;
  /** Messages that go to the client when the gate opens, before the held bytes. */
  prefix: Buffer | null = null;

  constructor(isCommit: boolean) {
    this.isCommit = isCommit;
  }

  /** Adds a message to the prefix. */
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

  /** Gates that are still in the stream, oldest first. */
  get gates(): readonly Gate[] {
    return this.#entries.filter((entry) => entry instanceof Gate);
  }

  /** The oldest of the gates that wait. */
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

  /** Holds all later bytes until the gate opens. */
  gate(isCommit: boolean): Gate {
    const gate = new Gate(isCommit);
    this.#entries.push(gate);
    return gate;
  }

  /** Returns the gates that are not in the stream any more. */
  open(gate: Gate): readonly Gate[] {
    gate.decision = "open";
    const passed: Gate[] = [];
    let count = 0;
    for (const entry of this.#entries) {
      if (entry instanceof Gate) {
        if (entry.decision !== "open") break;
        if (entry.prefix !== null) this.#write(entry.prefix);
        passed.push(entry);
      } else {
        this.#heldBytes -= entry.length;
        this.#write(entry);
      }
      count++;
    }
    this.#entries = count === this.#entries.length ? [] : this.#entries.slice(count);
    return passed;
  }

  /** What waits behind the gate. */
  behind(gate: Gate): readonly (Buffer | Gate)[] {
    return this.#entries.slice(this.#entries.indexOf(gate) + 1);
  }

  /** Drops the gate, and what waits behind it. */
  drop(gate: Gate): void {
    const behind = this.behind(gate);
    this.#entries.length -= behind.length + 1;
    for (const entry of behind) if (!(entry instanceof Gate)) this.#heldBytes -= entry.length;
  }

  /** Drops everything that is held. */
  clear(): void {
    this.#entries = [];
    this.#heldBytes = 0;
  }
}
