// The steps before a COMMIT in the extended protocol. First the server answers all earlier messages
// of the client: if one failed, the server would skip our statement and the COMMIT. Then the
// gateway reads the settings, if the same batch may have changed them, and then writes the receipt.
import { SYNC } from "../frames/build.ts";
import { OWN } from "./expected.ts";
import { type SessionState } from "./state.ts";

/**
 * What to do with the COMMIT. `wait`: ask again when the server has answered everything. `skip`:
 * drop it and everything up to the client's Sync.
 */
type Next = "send" | "wait" | "skip";

export class CommitSteps {
  readonly #state: SessionState;
  #step: "none" | "flushed" | "current" | "asked" = "none";

  constructor(state: SessionState) {
    this.#state = state;
  }

  /** The batch has ended. */
  reset(): void {
    this.#step = "none";
  }

  /**
   * All messages before the COMMIT are at the server. `isFirst`: this batch has executed nothing
   * before it, and the server was idle inside a block.
   */
  next(isFirst: boolean): Next {
    const state = this.#state;
    if (this.#step === "asked" && this.#undoFailed()) return "skip";
    // In a failed block our statement would fail, and the server would skip the COMMIT.
    if (state.expected.isSkipping || state.status === "E") return "send";
    if (!state.wantsReceipts && !state.mayHaveSet && this.#step === "none") {
      // No earlier message can fail in this block, so nothing makes the server skip our check.
      if (isFirst) this.#check("inline", false);
      return "send";
    }
    // If nothing is owed, a Flush brings no answer to wait for.
    if (this.#step === "none" && !state.expected.isEmpty) this.#step = "flushed";
    else if (this.#step === "asked") {
      this.#step = "none";
      return "send";
    } else if (this.#step !== "current" && this.#readsSettings()) this.#step = "current";
    else {
      this.#step = "asked";
      this.#check("awaited", state.hasWrittenInBlock || state.hasId);
    }
    state.collect();
    return "wait";
  }

  #check(purpose: "inline" | "awaited", mayHaveReceipt: boolean): void {
    this.#state.isReadOnlyCommit = null;
    this.#state.sendCheck(purpose, mayHaveReceipt);
  }

  /**
   * The batch may have changed the settings, and they decide whether the receipt can be written.
   * False when they are known already.
   */
  #readsSettings(): boolean {
    const state = this.#state;
    state.mayHaveSet = false;
    if (!state.isStale) return false;
    state.isStale = false;
    state.sendCheck("settings", false);
    return true;
  }

  /** If our statement has failed, the transaction is rolled back and the client gets that error. */
  #undoFailed(): boolean {
    const state = this.#state;
    const { failure, outside, expected } = state;
    if (failure === null) return false;
    state.failure = null;
    this.#step = "none";
    outside.toServer(SYNC);
    expected.push(OWN.sync);
    state.undo(failure);
    return true;
  }
}
