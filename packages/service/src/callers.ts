// Finds the caller of each request: authenticates it, counts the request against its limits, and
// signals when the client disconnects.
import { type ServerResponse } from "node:http";
import { type ErrorCode, HighwaterError } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { type Caller } from "./caller.ts";
import { type Admission } from "./identity/admission.ts";
import { type Authenticator, haveSameRights, type Principal } from "./identity/principal.ts";
import { RefusedAddresses } from "./identity/refused-addresses.ts";

export interface CallersOptions {
  readonly authenticator: Authenticator;
  readonly admission: Admission;
  readonly clock: Clock;
  /**
   * The header, in lower case, in which the proxy gives a client's address. Absent: clients connect
   * directly.
   */
  readonly addressHeader?: string;
  readonly onRefused: (code: ErrorCode) => void;
}

/**
 * A stream may outlive its credential's expiry by this much; a changed credential is checked at
 * once.
 */
const RECHECK_MS = 60_000;

export class Callers {
  readonly #options: CallersOptions;

  /** By principal: functions that check a credential again. */
  readonly #watching = new Map<string, Set<() => void>>();
  readonly #refused: RefusedAddresses;

  constructor(options: CallersOptions) {
    this.#options = options;
    this.#refused = new RefusedAddresses(options.clock);
    options.authenticator.watch?.((id) => {
      for (const lookAgain of this.#watching.get(id) ?? []) lookAgain();
    });
  }

  start(): void {
    this.#options.authenticator.start();
  }

  stop(): void {
    this.#options.authenticator.stop();
  }

  /**
   * The caller of a request that `response` answers. It counts as in flight until the response has
   * ended in any way. Errors: `unauthenticated`, `authentication_unavailable`, `rate_limited`,
   * `concurrency_limited`.
   */
  enter(authorization: string | undefined, response: ServerResponse): Promise<Caller> {
    return this.#admitted(authorization, response, (principal) => {
      const { admission } = this.#options;
      // A service speaks for many callers, and limits each of them itself.
      const admitted = principal.isService === true ? null : admission.enter(principal);
      const leave = (): void => {
        if (admitted !== null) admission.leave(admitted);
      };
      const watch = (onRevoked: () => void): (() => void) =>
        this.#watch(authorization, principal, { onEnded: onRevoked, recheckMs: null });
      return { principal, signal: goneSignal(response, leave), watch };
    });
  }

  /**
   * Counts another piece of work in the caller's request as if it were a request. Returns a
   * function that ends it. Errors: `rate_limited`, `concurrency_limited`.
   */
  also({ principal }: Caller): () => void {
    const { admission } = this.#options;
    if (principal.isService === true) return () => undefined;
    const admitted = this.#counted(() => admission.enter(principal));
    return () => {
      admission.leave(admitted);
    };
  }

  /**
   * The caller of a stream, which may last for hours: it counts as one request but not as in
   * flight, and ends when its credential is no longer valid or has other rights. Errors:
   * `unauthenticated`, `authentication_unavailable`, `rate_limited`.
   */
  enterStream(authorization: string | undefined, response: ServerResponse): Promise<Caller> {
    return this.#admitted(authorization, response, (principal) => {
      if (principal.isService !== true) this.#options.admission.touch(principal);
      const onEnded = (failure?: unknown): void => {
        if (failure === undefined) response.end();
        else response.destroy();
      };
      const leave = this.#watch(authorization, principal, { onEnded, recheckMs: RECHECK_MS });
      return { principal, signal: goneSignal(response, leave) };
    });
  }

  /**
   * The caller of a connection of another protocol, which may last for days. `onEnded`: called when
   * its credential is no longer valid or has other rights. `leave`: ends the watch. Errors:
   * `unauthenticated`, `authentication_unavailable`, `rate_limited`.
   */
  async enterConnection(
    authorization: string,
    address: string,
    onEnded: () => void,
  ): Promise<{ readonly principal: Principal; readonly leave: () => void }> {
    const principal = await this.#prove(authorization, address);
    this.#counted(() => {
      this.#options.admission.touch(principal);
    });
    return { principal, leave: this.#watch(authorization, principal, { onEnded, recheckMs: RECHECK_MS }) };
  }

  /**
   * Checks the credential again when it is changed, and every `recheckMs`. `onEnded`: called when
   * it is no longer valid or has other rights, and with the failure when the check has failed.
   * Returns the function that ends the watch.
   */
  #watch(
    authorization: string | undefined,
    began: Principal,
    { onEnded, recheckMs }: { onEnded: (failure?: unknown) => void; recheckMs: number | null },
  ): () => void {
    let cancel = (): void => undefined;
    let hasLeft = false;
    const lookAgain = (): void => {
      cancel();
      this.#isStillGood(authorization, began).then((isGood) => {
        if (isGood) wait();
        else onEnded();
      }, onEnded);
    };
    const wait = (): void => {
      cancel();
      // It may have been left while its credential was checked.
      if (!hasLeft && recheckMs !== null) cancel = this.#options.clock.after(recheckMs, lookAgain);
    };
    const watching = this.#watching.get(began.id) ?? new Set();
    this.#watching.set(began.id, watching.add(lookAgain));
    wait();
    return () => {
      hasLeft = true;
      cancel();
      watching.delete(lookAgain);
      if (watching.size === 0) this.#watching.delete(began.id);
    };
  }

  /** `began`: whose stream or connection it is. The key may have changed since. */
  async #isStillGood(authorization: string | undefined, began: Principal): Promise<boolean> {
    try {
      return haveSameRights(await this.#options.authenticator.authenticate(authorization), began);
    } catch (cause) {
      if (!(cause instanceof HighwaterError)) throw cause;
      // A credential that cannot be checked now stays valid.
      return cause.code === "authentication_unavailable";
    }
  }

  async #admitted(
    authorization: string | undefined,
    response: ServerResponse,
    admit: (principal: Principal) => Caller,
  ): Promise<Caller> {
    const principal = await this.#prove(authorization, this.#addressOf(response));
    return this.#counted(() => admit(principal));
  }

  /** Counts a refusal by the work. */
  #counted<T>(work: () => T): T {
    try {
      return work();
    } catch (cause) {
      if (cause instanceof HighwaterError) this.#options.onRefused(cause.code);
      throw cause;
    }
  }

  async #prove(authorization: string | undefined, address: string): Promise<Principal> {
    try {
      const isKnownOnly = this.#refused.isOver(address);
      return await this.#options.authenticator.authenticate(authorization, isKnownOnly);
    } catch (cause) {
      if (!(cause instanceof HighwaterError)) throw cause;
      if (cause.code === "unauthenticated" && authorization !== undefined) this.#refused.add(address);
      this.#options.onRefused(cause.code);
      throw cause;
    }
  }

  /** The client's address; a proxy's header counts only where one is configured. */
  #addressOf({ req }: ServerResponse): string {
    const { addressHeader = "" } = this.#options;
    const said = addressHeader === "" ? undefined : req.headers[addressHeader];
    return typeof said === "string" ? said : (req.socket.remoteAddress ?? "");
  }
}

/**
 * Aborts when the client disconnects before the answer is written. `onEnd`: called once, however
 * the response ended.
 */
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
  // The client disconnected while it was being authenticated.
  if (response.destroyed) end();
  return gone.signal;
}
