// Events that a client reports as they happen, for logs, traces and metrics. Their names are the
// same in every language.
import { type TokenVerdict } from "./wire.ts";

/**
 * One event of a client. Fields that do not apply to an event are absent. Events contain neither
 * values nor statement text.
 *
 * `begin`, `statements`, `commit`: a call begins; if the observer returns a function, that is
 * called when the call ends. `retry`: an attempt failed, and another one follows. `durable`,
 * `lost`, `broken`: a promise that was waited for is settled at a level. `timeout`: a wait ended
 * before that. `stream_open`, `stream_closed`, `polling`: how the client gets marks. `stalled`,
 * `recovered`: the marks of a level stopped rising, or rise again.
 */
export interface ObservedEvent {
  /** Kind of event. */
  readonly type:
    | "begin"
    | "statements"
    | "commit"
    | "retry"
    | "durable"
    | "lost"
    | "broken"
    | "timeout"
    | "stream_open"
    | "stream_closed"
    | "polling"
    | "stalled"
    | "recovered";
  /** Id of the transaction. */
  readonly id?: string | undefined;
  /** Level of the verdict, of the wait, or of the stall. */
  readonly level?: string | undefined;
  /** Number of statements in the call. */
  readonly statements?: number | undefined;
  /** For a call: headers that the observer adds; they go out with each of its requests. */
  readonly headers?: Record<string, string>;
  /** URL of the failed attempt, of the stream or of the request for marks. */
  readonly url?: string | undefined;
  /** Number of the failed attempt, from 1. */
  readonly attempt?: number | undefined;
  /** Why the attempt failed or the stream was closed. */
  readonly error?: unknown;
  /** Verdict by which the promise was settled. */
  readonly verdict?: TokenVerdict | undefined;
  /** How long the promise was waited for, in milliseconds. */
  readonly waitedMs?: number | undefined;
}

/** How a call ended: with the state of its transaction, or with an error. */
export interface ObservedEnd {
  /** State of the transaction, if the call was answered. */
  readonly state?: string | undefined;
  /** Why the call failed. */
  readonly error?: unknown;
}

/**
 * Type of `HighwaterOptions.observe`. It must return at once. An error that it, or the function
 * that it returned, throws is printed by `console.error` and disturbs nothing.
 */
export type Observer = (event: ObservedEvent) => ((end: ObservedEnd) => void) | void;
