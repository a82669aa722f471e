// In front of an extended COMMIT. The server answers what the client has sent before it: behind a
// statement that fails it would skip one of ours, and the COMMIT as well. Then the settings are
// read, if the same batch may have changed them, and then the receipt is written.
import { FLUSH, query, SYNC } from "../frames/build.ts";
import { OWN } from "./expected.ts";
import { type SessionState } from "./state.ts";

const ROLLBACK = query("ROLLBACK");

/**
 * What becomes of the COMMIT. `wait`: it comes again when the server has answered everything.
 * `skip`: it never goes on, nor does anything else up to the client's Sync.
 */
type Next = "send" | "wait" | "skip";

export class CommitSteps {
  readonly #state: SessionState;
  #step: "none" | "flushed" | "current" | "asked" = "none";

  constructor(state: SessionState) {
    this.#state = state;
  }

  /** The batch ends. */
  reset(): void {
    this.#step = "none";
  }

  /**
   * What is in front of the COMMIT has been handed to the server. `isFirst`: nothing of this batch
   * is, and the server was idle, in a block.
   */
  next(isFirst: boolean): Next {
    const state = this.#state;
    if (this.#step === "asked" && this.#undoFailed()) return "skip";
    // In a failed block a statement of ours would fail, and the server skip the COMMIT.
    if (state.expected.isSkipping || state.status === "E") return "send";
    if (!state.wantsReceipts && !state.mayHaveSet && this.#step === "none") {
      // Nothing in front of it can fail in this block, and so our check cannot be in its way.
      if (isFirst) this.#check(false);
      return "send";
    }
    if (this.#step === "none") this.#step = "flushed";
    else if (this.#step === "asked") {
      this.#step = "none";
      return "send";
    } else if (this.#step === "flushed" && this.#readsSettings()) this.#step = "current";
    else {
      this.#step = "asked";
      this.#check(state.hasWrittenInBlock || state.hasId);
    }
    state.outside.toServer(FLUSH);
    return "wait";
  }

  #check(mayHaveReceipt: boolean): void {
    this.#state.isReadOnlyCommit = null;
    this.#state.sendCheck("inline", mayHaveReceipt);
  }

  /**
   * Set in the same batch: whether the receipt can be written is known only when they are read.
   * False: they were read already.
   */
  #readsSettings(): boolean {
    const state = this.#state;
    state.mayHaveSet = false;
    if (!state.isStale) return false;
    state.isStale = false;
    state.sendCheck("settings", false);
    return true;
  }

  /** Our statement has failed: the transaction is undone, and the client gets that error. */
  #undoFailed(): boolean {
    const state = this.#state;
    const { failure, outside, expected } = state;
    if (failure === null) return false;
    state.failure = null;
    this.#step = "none";
    state.sendFailure(failure);
    outside.toServer(SYNC);
    outside.toServer(ROLLBACK);
    expected.push(OWN.sync);
    expected.push(OWN.query);
    return true;
  }
}
