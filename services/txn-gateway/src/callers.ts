// Who a request comes from: proves it, counts it, and tells its work when the client has gone away.
import { type ServerResponse } from "node:http";
import { HighwaterError } from "@highwater/protocol";
import { type Admission } from "./identity/admission.ts";
import { type Authenticator } from "./identity/principal.ts";
import { type Metrics } from "./metrics.ts";
import { type Caller } from "./txn/caller.ts";

export class Callers {
  readonly #authenticator: Authenticator;
  readonly #admission: Admission;
  readonly #metrics: Metrics;

  constructor(authenticator: Authenticator, admission: Admission, metrics: Metrics) {
    this.#authenticator = authenticator;
    this.#admission = admission;
    this.#metrics = metrics;
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
      if (cause instanceof HighwaterError) this.#metrics.refusals.add({ code: cause.code });
      throw cause;
    }
  }
}
