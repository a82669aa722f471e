// What the session's transaction has done so far, as the server's answers say.
import { type SessionState } from "./state.ts";

export class Progress {
  readonly #state: SessionState;
  isInBlock = false;
  /** Since the last ReadyForQuery, or the last commit behind it. */
  hasWritten = false;
  hasCommitted = false;
  /** A function may have changed settings, and they were not read since. */
  hasCalled = false;
  /** Something may have been set since the block began. */
  hasSet = false;
  /** The end of a statement sent in another form: its transaction has not committed yet. */
  result: Buffer | null = null;

  constructor(state: SessionState) {
    this.#state = state;
  }

  begin(): void {
    this.isInBlock = true;
    this.hasSet = false;
  }

  /** SET LOCAL ends with its block, and so does SET in one that was rolled back. */
  endBlock(): void {
    if (this.hasSet) this.#state.isStale = true;
    this.hasSet = false;
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
