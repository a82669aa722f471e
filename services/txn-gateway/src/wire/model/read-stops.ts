// On the read port: what a read waits for before it takes its snapshot, or the error that it gets
// in its place. A SET or RESET does not wait, so that a client can take back what it waits for.
import { type Report } from "../frames/build.ts";
import { type SessionState } from "./state.ts";

/** `wait`: ask again when the server has answered, or the shell. */
type Next = "pass" | "wait" | { readonly refusal: Report };

export class ReadStops {
  readonly #state: SessionState;
  /** The look of the open batch is taken; its later messages need no other. */
  #hasLooked = false;

  constructor(state: SessionState) {
    this.#state = state;
  }

  /** The next message may have to stop if it takes a snapshot. `isFirst`: no batch is open. */
  mayStop(isFirst: boolean): boolean {
    const { isAwaiting, refusal, wantsLook, nextLook } = this.#state;
    if (isFirst) this.#hasLooked = false;
    if (this.#hasLooked) return false;
    return isAwaiting || refusal !== null || wantsLook || nextLook !== null;
  }

  /** All messages before it are at the server. Only after `mayStop`. */
  next(isFirst: boolean): Next {
    const state = this.#state;
    const { expected, refusal, isAwaiting } = state;
    if (!isFirst && (expected.isSkipping || expected.isCopying)) return "pass";
    if (!isFirst && !expected.isEmpty) {
      state.collect();
      return "wait";
    }
    if (isAwaiting || (state.wantsLook && refusal === null)) {
      state.outside.await(isAwaiting ? state.after : "");
      return "wait";
    }
    if (refusal !== null) {
      state.refusal = null;
      // The client's next message asks for the token again.
      state.after = "";
      state.isStale = true;
      return { refusal };
    }
    state.look = state.nextLook?.found ?? null;
    state.nextLook = null;
    this.#hasLooked = true;
    return "pass";
  }
}
