// The gateway's statements that stand alone before a message of the client: what the settings are,
// what the role can do, and whether a block has written. The caller has sent all that came before.
import { SYNC } from "../frames/build.ts";
import { type Expected, OWN } from "./expected.ts";
import { type SessionState } from "./state.ts";

const OWN_PROBED: Expected = { message: "execute", whose: "own", purpose: "probe" };

export class Questions {
  readonly #state: SessionState;
  /** The settings have been asked for. They apply from the next message on. */
  isReading = false;
  /** The batch that is open has begun in a block with what takes no snapshot, so it comes later. */
  isOwed = false;
  /** They have been asked for a second time, because the first question failed. */
  #isSecond = false;

  constructor(state: SessionState) {
    this.#state = state;
  }

  /**
   * Only while the server is idle: after a Query that turns out to be a COPY, our statement would
   * end the session.
   */
  get canRead(): boolean {
    const { expected, status } = this.#state;
    return expected.isEmpty && !expected.isSkipping && status !== "E";
  }

  readSettings(): void {
    const state = this.#state;
    state.isStale = false;
    this.isReading = true;
    this.#isSecond = state.unread !== null;
    state.unread = null;
    const mayProbe = state.status === "I" && !state.expected.isUnsynced;
    if (mayProbe && !state.isProbed && !state.isReader) this.#probe();
    this.#send("settings");
  }

  /**
   * Before a later message of the batch, which takes a snapshot. The answers before it come first:
   * behind an error the server would skip the question. True: the message waits.
   */
  readLate(): boolean {
    const state = this.#state;
    const { expected } = state;
    if (expected.isSkipping || expected.isCopying) return false;
    if (expected.isEmpty) {
      this.isOwed = false;
      state.isStale = false;
      state.sendCheck("settings", false);
    }
    state.collect();
    return true;
  }

  /** Before a COMMIT. */
  checkBlock(): void {
    this.#state.isReadOnlyCommit = null;
    this.#send("commit");
  }

  /** An idle server has answered the questions. */
  seeIdle(): void {
    const state = this.#state;
    if (!state.expected.isEmpty) return;
    this.isReading = false;
    if (!state.isStale) state.mayHaveSet = false;
  }

  /**
   * The error that the client's message gets, because the question for the settings failed. Null:
   * it is asked once more, because the client may have dropped its statement, unless the failure
   * has undone the client's block.
   */
  takeError(): Buffer | null {
    const state = this.#state;
    const { unread } = state;
    if (state.status !== "E" && !this.#isSecond) return null;
    state.unread = null;
    return unread;
  }

  #probe(): void {
    const { outside, own, expected } = this.#state;
    this.#state.isPrepared = false;
    outside.toServer(own.probe);
    for (const answer of [OWN.close, OWN.parse, OWN.bind, OWN_PROBED, OWN.sync]) expected.push(answer);
  }

  #send(purpose: "settings" | "commit"): void {
    const { hasWrittenInBlock, hasId, expected, outside } = this.#state;
    // Our Sync would end a transaction that the client has yet to end.
    const isUnsynced = expected.isUnsynced;
    this.#state.sendCheck(purpose, purpose === "commit" && (hasWrittenInBlock || hasId));
    if (isUnsynced) this.#state.collect();
    else {
      outside.toServer(SYNC);
      expected.push(OWN.sync);
    }
  }
}
