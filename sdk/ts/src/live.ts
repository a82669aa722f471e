// How things stand, for whoever watches a client.
import { type Marks } from "./wire.ts";

/** Promises that are waited for. */
export interface Exposure {
  readonly count: number;
  /** Age of the oldest in milliseconds, 0 when there is none. */
  readonly oldestMs: number;
}

/** How things stand: the newest marks, and what this client waits for. */
export interface LiveState {
  readonly marks: Marks | null;
  readonly exposure: Exposure;
}
export type Subscriber = (state: LiveState) => void;
