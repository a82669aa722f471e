// Decides what to do after a failed attempt. Pure: maps an error and a situation to a decision, and
// nothing else.
import { NoAnswerError, type HighwaterError, SerializationError, stateError } from "./errors.ts";
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
  /** Whether the same request may run again after a conflict. */
  readonly repeatable?: boolean;
  /** From 0 to 1. Default: any. */
  readonly random?: number;
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
    error instanceof NoAnswerError || error.code === "primary_unavailable" || error.code === "overloaded"
  );
}

export function decide(error: HighwaterError, situation: Situation, tuning: Tuning): Decision {
  const { attempt, remainingMs, uncertain, elsewhere, repeatable, random } = situation;
  const isConflict = repeatable && error instanceof SerializationError;
  const isWait = error.retry === "wait" || isConflict;
  const isFinal = !isWait && error.retry !== "resolve_outcome";
  // A resend can fail because of what its own first attempt did: ask before the caller sees "not
  // applied".
  if (isFinal && (!uncertain || isSettled(error))) return { action: "throw" };
  const atOnce = isFinal || (isWait && elsewhere && isEndpointFault(error));
  // In addition to the delay that the service asked for, so that clients it refused together do not
  // return together.
  const jitterMs = fullJitter(attempt, tuning, random, isConflict ? tuning.conflictBaseMs : undefined);
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
 * id is unknown, and a resend was refused. An error: settled otherwise.
 *
 * After a refused resend, the copy that got no answer may still commit. So the id is settled, and
 * no copy can commit any more.
 */
export type Resolution = "adopt" | "ask" | "send" | "settle" | HighwaterError;

/** Applies the state of an id to a failed attempt. `held`: the definite error of a resend. */
export function resolve(
  { id, state, token, position, redo }: TransactionStateResponse,
  held: HighwaterError | undefined,
): Resolution {
  if (state === "unknown") return held ? "settle" : "send";
  return stateError(id, state, { redo }) ?? (state !== "active" && token && position ? "adopt" : "ask");
}
