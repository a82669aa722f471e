// What to do after a failed attempt. Pure: a table of (error, situation) -> decision, and nothing else.
import { ConnectionError, type HighwaterError, stateError } from "./errors.ts";
import { fullJitter } from "./runtime.ts";
import { type Tuning } from "./tuning.ts";
import { type TransactionStateResponse } from "./wire.ts";

export interface Situation {
  /** Attempts that have failed before this one. */
  readonly attempt: number;
  /** Time that is left for all attempts together. */
  readonly remainingMs: number;
  /** An earlier attempt may have been applied: an error of this one says nothing about that one. */
  readonly uncertain: boolean;
  /** Another endpoint is there that has not failed lately. */
  readonly elsewhere: boolean;
  readonly random: number;
}

/**
 * `send`: the same id and body again. `resolve`: ask what became of the id. `throw`: the error is the answer.
 * `give_up`: the time is over; what is thrown depends on whether an attempt may have been applied.
 */
export type Decision =
  | { readonly action: "send"; readonly delayMs: number }
  | { readonly action: "resolve"; readonly delayMs: number }
  | { readonly action: "throw"; readonly delayMs?: undefined }
  | { readonly action: "give_up"; readonly delayMs?: undefined };

/** Codes that say more about the endpoint than about the request: another one may do better. */
export function isEndpointFault(error: HighwaterError): boolean {
  return isConnectionFault(error) || error.code === "primary_unavailable" || error.code === "overloaded";
}

/** No answer, or none of the service. */
export function isConnectionFault(error: HighwaterError): boolean {
  return error instanceof ConnectionError;
}

export function decide(error: HighwaterError, situation: Situation, tuning: Tuning): Decision {
  const { attempt, remainingMs, uncertain, elsewhere, random } = situation;
  const isWait = error.retry === "wait";
  const isFinal = !isWait && error.retry !== "resolve_outcome";
  // A resend can fail on what its own first attempt did: ask before the caller believes "not applied".
  if (isFinal && (!uncertain || isSettled(error))) return { action: "throw" };
  const atOnce = isFinal || (isWait && elsewhere && isEndpointFault(error));
  // On top of the service's own wish, so that those whom it sent away together do not come back together.
  const jitterMs = fullJitter(attempt, tuning.backoffBaseMs, tuning.backoffMaxMs, random);
  const delayMs = atOnce ? 0 : (error.retryAfterMs ?? 0) + jitterMs;
  if (delayMs + tuning.attemptMinMs > remainingMs) return { action: "give_up" };
  return { action: isWait ? "send" : "resolve", delayMs };
}

/** Errors that are about the id, not about the attempt. */
export function isSettled({ code }: HighwaterError): boolean {
  return /^(transaction_(aborted|expired|lost)|promise_broken|id_(expired|reused))$/.test(code);
}

/**
 * `adopt`: the transaction committed and the state says where. `ask`: not settled yet. `send`: the
 * id is unknown, so sending it again is its first run or is refused by its receipt. `throw`:
 * settled otherwise.
 *
 * A conflict of a resend is sent again as well: the copy that was never answered may still be on
 * its way and commit, and a client that gets a conflict runs the whole body again under a new id. A
 * copy that commits meanwhile refuses the resend.
 */
export type Resolution =
  | { readonly action: "adopt" }
  | { readonly action: "ask" }
  | { readonly action: "send" }
  | { readonly action: "throw"; readonly error: HighwaterError };

/** What the state of an id means for a transaction whose attempt failed; `held` is the definite error of a resend. */
export function resolve(
  { id, state, token, position }: TransactionStateResponse,
  held: HighwaterError | undefined,
): Resolution {
  if (state === "unknown") {
    if (held === undefined || held.retry === "transaction") return { action: "send" };
    return { action: "throw", error: held };
  }
  const error = stateError(id, state);
  if (error !== undefined) return { action: "throw", error };
  return { action: state !== "active" && token && position ? "adopt" : "ask" };
}
