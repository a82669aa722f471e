// What to do after a failed attempt. Pure: a table of (error, situation) -> decision, and nothing else.
import { type HighwaterError, stateError } from "./errors.ts";
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
  | { readonly action: "throw" }
  | { readonly action: "give_up" };

/** Codes that say more about the endpoint than about the request: another one may do better. */
export function isEndpointFault(error: HighwaterError): boolean {
  return isConnectionFault(error) || error.code === "primary_unavailable" || error.code === "overloaded";
}

/** No answer, or none of the service. */
export function isConnectionFault({ code }: HighwaterError): boolean {
  return code === "connection_failed" || code === "request_timeout" || code === "bad_answer";
}

export function decide(error: HighwaterError, situation: Situation, tuning: Tuning): Decision {
  switch (error.retry) {
    case "never":
    case "transaction":
      // A resend can fail on what its own first attempt did: ask before the caller believes "not applied".
      if (!situation.uncertain || isSettled(error)) return { action: "throw" };
      return later("resolve", 0, situation, tuning);
    case "wait": {
      const atOnce = isEndpointFault(error) && situation.elsewhere;
      return later("send", atOnce ? 0 : delay(error, situation, tuning), situation, tuning);
    }
    case "resolve_outcome":
      return later("resolve", delay(error, situation, tuning), situation, tuning);
  }
}

const SETTLED = new Set([
  "transaction_aborted",
  "transaction_expired",
  "transaction_lost",
  "promise_broken",
  "id_expired",
  "id_reused",
  "client_closed",
]);

/** Errors that are about the id, not about the attempt. */
export function isSettled(error: HighwaterError): boolean {
  return SETTLED.has(error.code);
}

function delay(error: HighwaterError, situation: Situation, tuning: Tuning): number {
  const jitterMs = fullJitter(situation.attempt, {
    baseMs: tuning.backoffBaseMs,
    maxMs: tuning.backoffMaxMs,
    random: situation.random,
  });
  // On top of the service's own wish, so that those whom it sent away together do not come back together.
  return (error.retryAfterMs ?? 0) + jitterMs;
}

function later(action: "send" | "resolve", delayMs: number, situation: Situation, tuning: Tuning): Decision {
  return delayMs + tuning.attemptMinMs > situation.remainingMs ? { action: "give_up" } : { action, delayMs };
}

/**
 * `adopt`: the transaction committed and the state says where. `ask`: not settled yet. `send`: nobody has heard of
 * the id, so sending it again is its first run or is refused by its receipt. `throw`: settled otherwise.
 *
 * A conflict of a resend is sent again as well: the copy that was never answered may still be on its way and commit, and
 * whoever is told of a conflict runs the whole body again under a new id. A copy that commits meanwhile refuses the resend.
 */
export type Resolution =
  | { readonly action: "adopt" }
  | { readonly action: "ask" }
  | { readonly action: "send" }
  | { readonly action: "throw"; readonly error: HighwaterError };

/** What the state of an id means for a transaction whose attempt failed; `held` is the definite error of a resend. */
export function resolve(state: TransactionStateResponse, held: HighwaterError | undefined): Resolution {
  const error = stateError(state.id, state.state);
  if (error !== undefined) return { action: "throw", error };
  switch (state.state) {
    case "committed":
    case "pending":
    case "durable":
      return state.token !== undefined && state.position !== undefined
        ? { action: "adopt" }
        : { action: "ask" };
    case "unknown":
      return held === undefined || held.retry === "transaction"
        ? { action: "send" }
        : { action: "throw", error: held };
    default:
      return { action: "ask" };
  }
}
