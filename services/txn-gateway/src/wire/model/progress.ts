// What the session's transaction has done so far, according to the server's answers.
import { type SessionState } from "./state.ts";

export class Progress {
  readonly #state: SessionState;
  isInBlock = false;
  /** Since the last ReadyForQuery, or the last commit after it. */
  hasWritten = false;
  hasCommitted = false;
  /** A function may have changed settings since they were last read. */
  hasCalled = false;
  /** A setting may have changed since the block began. */
  hasSet = false;
  /** CommandComplete of a Query sent in another form: its transaction has yet to commit. */
  result: Buffer | null = null;

  constructor(state: SessionState) {
    this.#state = state;
  }

  begin(): void {
    this.isInBlock = true;
    this.hasSet = false;
  }

  /** Undoes SET LOCAL with its block, and SET in a block that was rolled back. */
  endBlock(): void {
    if (this.hasSet) this.#state.isStale = true;
    this.hasSet = false;
    this.#state.reverted();
    this.#state.hasWrittenInBlock = false;
  }

  /** The server waits for the next message. */
  ready(): void {
    this.isInBlock = this.#state.status !== "I";
    if (!this.isInBlock) this.endBlock();
    this.hasWritten = false;
    this.hasCommitted = false;
    if (this.hasCalled) this.#state.isStale = true;
    this.hasCalled = false;
  }
}
