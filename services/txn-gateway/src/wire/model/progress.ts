// What the session's transaction has done so far, according to the server's answers.
import { type SessionState } from "./state.ts";

export class Progress {
  readonly #state: SessionState;
  isInBlock = false;
  /**
   * Since the last ReadyForQuery, or the last commit after it. In a transaction that ends at its
   * Sync: since it began.
   */
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
    this.#state.reverted(true);
    this.#state.hasWrittenInBlock = false;
  }

  /** The server waits for the next message. */
  ready(): void {
    this.isInBlock = this.#state.status !== "I";
    if (!this.isInBlock) this.endBlock();
    // A Query in a batch without a Sync does not commit, and the Sync that does has no tag.
    this.hasWritten &&= this.isInBlock && this.#state.expected.isUnsynced;
    this.hasCommitted = false;
    if (this.hasCalled) this.#state.isStale = true;
    this.hasCalled = false;
  }
}
