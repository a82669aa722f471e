// Decides what to do after a failed attempt. Pure: maps an error and a situation to a decision, and
// nothing else.
import { ConnectionError, type HighwaterError, stateError } from "./errors.ts";
import { fullJitter } from "./runtime.ts";
import { type Tuning } from "./tuning.ts";
import { type TransactionStateResponse } from "./wire.ts";

export interface Situation {
  /** Number of attempts that failed before this one. */
  readonly attempt: number;
  /** Time left for all attempts together. */
  readonly remainingMs: number;
  /** Whether an earlier attempt may have been applied; this error says nothing about it. */
  readonly uncertain: boolean;
  /** Whether another endpoint has not failed recently. */
  readonly elsewhere: boolean;
  readonly random: number;
}

/**
 * `send`: send the same id and body again. `resolve`: ask for the state of the id. `throw`: the
 * error is the answer. `give_up`: time has run out; the error depends on whether an attempt may
 * have been applied.
 */
export type Decision =
  | { readonly action: "send"; readonly delayMs: number }
  | { readonly action: "resolve"; readonly delayMs: number }
  | { readonly action: "throw"; readonly delayMs?: undefined }
  | { readonly action: "give_up"; readonly delayMs?: undefined };

/** Whether the error is about the endpoint, so that another one may do better. */
export function isEndpointFault(error: HighwaterError): boolean {
  return (
    error instanceof ConnectionError || error.code === "primary_unavailable" || error.code === "overloaded"
  );
}

export function decide(error: HighwaterError, situation: Situation, tuning: Tuning): Decision {
  const { attempt, remainingMs, uncertain, elsewhere, random } = situation;
  const isWait = error.retry === "wait";
  const isFinal = !isWait && error.retry !== "resolve_outcome";
  // A resend can fail because of what its own first attempt did: ask before the caller sees "not
  // applied".
  if (isFinal && (!uncertain || isSettled(error))) return { action: "throw" };
  const atOnce = isFinal || (isWait && elsewhere && isEndpointFault(error));
  // In addition to the delay that the service asked for, so that clients it refused together do not
  // return together.
  const jitterMs = fullJitter(attempt, tuning, random);
  const delayMs = atOnce ? 0 : (error.retryAfterMs ?? 0) + jitterMs;
  if (delayMs + tuning.attemptMinMs > remainingMs) return { action: "give_up" };
  return { action: isWait ? "send" : "resolve", delayMs };
}

/** Whether the error is about the id, not about the attempt. */
export function isSettled({ code }: HighwaterError): boolean {
  return /^(transaction_(aborted|expired|lost)|promise_broken|id_(expired|reused))$/.test(code);
}

/**
 * `adopt`: the transaction committed, and the state has its position. `ask`: not settled yet.
 * `send`: the id is unknown, so a resend is its first run, or its receipt refuses it. `settle`: the
 * id is unknown, and a resend was refused. `throw`: settled otherwise.
 *
 * After a refused resend, the copy that got no answer may still commit. If the refusal is a
 * conflict, the transaction is sent again: if that copy commits in the meantime, its receipt
 * refuses the resend. After any other refusal, the id is settled, so that no copy can commit.
 */
export type Resolution =
  | { readonly action: "adopt" }
  | { readonly action: "ask" }
  | { readonly action: "send" }
  | { readonly action: "settle" }
  | { readonly action: "throw"; readonly error: HighwaterError };

/** Applies the state of an id to a failed attempt. `held`: the definite error of a resend. */
export function resolve(
  { id, state, token, position }: TransactionStateResponse,
  held: HighwaterError | undefined,
): Resolution {
  if (state === "unknown")
    return { action: held === undefined || held.retry === "transaction" ? "send" : "settle" };
  const error = stateError(id, state);
  if (error !== undefined) return { action: "throw", error };
  return { action: state !== "active" && token && position ? "adopt" : "ask" };
}
