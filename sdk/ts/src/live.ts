// The current state of a client, for applications that watch it.
import { type Marks } from "./wire.ts";

/** Promises that are waited for. */
export interface Exposure {
  /** Number of promises. */
  readonly count: number;
  /** How long the oldest has been waited for, in milliseconds; 0 if there is none. */
  readonly oldestMs: number;
}

/** Current state of a client: the newest marks, and the promises that it waits for. */
export interface LiveState {
  /** The newest known marks of the current epoch; null before the first. */
  readonly marks: Marks | null;
  /** Promises that are waited for. */
  readonly exposure: Exposure;
}
/** Callback of `Highwater.subscribe`. Its errors are treated as those of a `LostListener`. */
export type Subscriber = (state: LiveState) => unknown;
