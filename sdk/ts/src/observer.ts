// A client's reports of its life, for logs, traces and metrics: one function, called as things
// happen. The names of the events are the same in every language.
import { type TokenVerdict } from "./wire.ts";

/**
 * One thing that happened. Fields that an event does not have are absent; neither values nor text
 * of statements are in it.
 *
 * `begin`, `statements`, `commit`: a call begins; what the observer returns is called when it ends.
 * `retry`: an attempt failed, and another one follows. `durable`, `lost`, `broken`: what somebody
 * waited for is settled at a level. `timeout`: a wait ended before. `stream_open`, `stream_closed`,
 * `polling`: how the client gets marks. `stalled`, `recovered`: a level's marks have ceased to
 * rise, or rise again.
 */
export interface ObservedEvent {
  /** What happened. */
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
  /** Of the transaction. */
  readonly id?: string | undefined;
  /** At which something is durable or gone, was waited for, or has stalled. */
  readonly level?: string | undefined;
  /** Number of statements of the call. */
  readonly statements?: number | undefined;
  /** Of a call: what is put here goes out with each of its requests. */
  readonly headers?: Record<string, string>;
  /** Where the attempt that failed, the stream or the question for marks went to. */
  readonly url?: string | undefined;
  /** Number of the attempt that failed, from 1. */
  readonly attempt?: number | undefined;
  /** Why an attempt failed, or why a stream was closed. */
  readonly error?: unknown;
  /** By which it is durable or gone. */
  readonly verdict?: TokenVerdict | undefined;
  /** How long it was waited for, in milliseconds. */
  readonly waitedMs?: number | undefined;
}

/** How a call ended: with its transaction's state, or with an error. */
export interface ObservedEnd {
  /** Of the transaction, where the call has answered. */
  readonly state?: string | undefined;
  /** Why the call failed. */
  readonly error?: unknown;
}

/**
 * The type of `HighwaterOptions.observe`. Must return at once. An error that it throws surfaces as
 * an uncaught error, and disturbs nothing.
 */
export type Observer = (event: ObservedEvent) => ((end: ObservedEnd) => void) | void;
