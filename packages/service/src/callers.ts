// Who a request comes from: proves it, counts it, and tells its work when the client has gone away.
import { type ServerResponse } from "node:http";
import { type ErrorCode, HighwaterError } from "@highwater/protocol";
import { type Caller } from "./caller.ts";
import { type Admission } from "./identity/admission.ts";
import { type Authenticator } from "./identity/principal.ts";

export class Callers {
  readonly #authenticator: Authenticator;
  readonly #admission: Admission;
  readonly #onRefused: (code: ErrorCode) => void;

  constructor(authenticator: Authenticator, admission: Admission, onRefused: (code: ErrorCode) => void) {
    this.#authenticator = authenticator;
    this.#admission = admission;
    this.#onRefused = onRefused;
  }

  start(): void {
    this.#authenticator.start();
  }

  stop(): void {
    this.#authenticator.stop();
  }

  /**
   * The caller of a request whose answer goes to `response`; counted as in flight until that has ended, however it ends.
   * Errors: `unauthenticated`, `authentication_unavailable`, `rate_limited`, `concurrency_limited`.
   */
  async enter(authorization: string | undefined, response: ServerResponse): Promise<Caller> {
    try {
      const principal = await this.#authenticator.authenticate(authorization);
      const gone = new AbortController();
      const admitted = this.#admission.enter(principal);
      let isIn = true;
      const leave = (): void => {
        if (!isIn) return;
        isIn = false;
        this.#admission.leave(admitted);
        if (!response.writableFinished) gone.abort();
      };
      response.once("close", leave);
      // Gone while it was being authenticated.
      if (response.destroyed) leave();
      return { principal, signal: gone.signal };
    } catch (cause) {
      if (cause instanceof HighwaterError) this.#onRefused(cause.code);
      throw cause;
    }
  }
}
