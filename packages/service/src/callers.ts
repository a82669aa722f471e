// Who a request comes from: proves it, counts it, and tells its work when the client has gone away.
import { type ServerResponse } from "node:http";
import { type ErrorCode, HighwaterError } from "@highwater/protocol";
import { type Clock } from "@highwater/store";
import { type Caller } from "./caller.ts";
import { type Admission } from "./identity/admission.ts";
import { type Authenticator, type Principal } from "./identity/principal.ts";

export interface CallersOptions {
  readonly authenticator: Authenticator;
  readonly admission: Admission;
  readonly clock: Clock;
  readonly onRefused: (code: ErrorCode) => void;
}

/** A stream outlives its credential by no longer than this. */
const RECHECK_MS = 60_000;

export class Callers {
  readonly #options: CallersOptions;

  constructor(options: CallersOptions) {
    this.#options = options;
  }

  start(): void {
    this.#options.authenticator.start();
  }

  stop(): void {
    this.#options.authenticator.stop();
  }

  /**
   * The caller of a request whose answer goes to `response`; counted as in flight until that has ended, however it ends.
   * Errors: `unauthenticated`, `authentication_unavailable`, `rate_limited`, `concurrency_limited`.
   */
  enter(authorization: string | undefined, response: ServerResponse): Promise<Caller> {
    return this.#admitted(authorization, (principal) => {
      const { admission } = this.#options;
      // A service speaks for many, whose limits are kept where they ask.
      const admitted = principal.isService === true ? null : admission.enter(principal);
      const leave = (): void => {
        if (admitted !== null) admission.leave(admitted);
      };
      return { principal, signal: goneSignal(response, leave) };
    });
  }

  /**
   * Counts another piece of work that came with the caller's request, as if it were a request of its own. Returns what ends it.
   * Errors: `rate_limited`, `concurrency_limited`.
   */
  also({ principal }: Caller): () => void {
    const { admission, onRefused } = this.#options;
    if (principal.isService === true) return () => undefined;
    try {
      const admitted = admission.enter(principal);
      return () => {
        admission.leave(admitted);
      };
    } catch (cause) {
      if (cause instanceof HighwaterError) onRefused(cause.code);
      throw cause;
    }
  }

  /**
   * The caller of a stream, which may stay for hours: it counts as one request and not as being in flight, and ends soon
   * after its credential has ceased to be good. Errors: `unauthenticated`, `authentication_unavailable`, `rate_limited`.
   */
  enterStream(authorization: string | undefined, response: ServerResponse): Promise<Caller> {
    return this.#admitted(authorization, (principal) => {
      if (principal.isService !== true) this.#options.admission.touch(principal);
      let cancel = (): void => undefined;
      const signal = goneSignal(response, () => {
        cancel();
      });
      const lookAgain = (): void => {
        if (signal.aborted) return;
        cancel = this.#options.clock.after(RECHECK_MS, () => {
          this.#isStillGood(authorization).then(
            (isGood) => {
              if (isGood) lookAgain();
              else response.end();
            },
            () => response.destroy(),
          );
        });
      };
      lookAgain();
      return { principal, signal };
    });
  }

  async #isStillGood(authorization: string | undefined): Promise<boolean> {
    try {
      await this.#options.authenticator.authenticate(authorization);
      return true;
    } catch (cause) {
      if (!(cause instanceof HighwaterError)) throw cause;
      // What cannot be checked now goes on working.
      return cause.code === "authentication_unavailable";
    }
  }

  async #admitted(
    authorization: string | undefined,
    admit: (principal: Principal) => Caller,
  ): Promise<Caller> {
    try {
      return admit(await this.#options.authenticator.authenticate(authorization));
    } catch (cause) {
      if (cause instanceof HighwaterError) this.#options.onRefused(cause.code);
      throw cause;
    }
  }
}

/** Aborts when the client went away before the answer was written. `onEnd` is called once, however it ended. */
function goneSignal(response: ServerResponse, onEnd: () => void): AbortSignal {
  const gone = new AbortController();
  let isOver = false;
  const end = (): void => {
    if (isOver) return;
    isOver = true;
    onEnd();
    if (!response.writableFinished) gone.abort();
  };
  response.once("close", end);
  // Gone while it was being authenticated.
  if (response.destroyed) end();
  return gone.signal;
}
