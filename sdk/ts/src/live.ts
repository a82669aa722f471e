// The current state, for programs that watch a client.
import { type Marks } from "./wire.ts";

/** Promises that are waited for. */
export interface Exposure {
  /** How many they are. */
  readonly count: number;
  /** How long the oldest has been waited for, in milliseconds; 0 when there is none. */
  readonly oldestMs: number;
}

/** How things stand: the newest marks, and what this client waits for. */
export interface LiveState {
  /** The newest that are known of the current epoch; null before the first. */
  readonly marks: Marks | null;
  /** What somebody waits for. */
  readonly exposure: Exposure;
}
/** What `Highwater.subscribe` calls. An error that it throws surfaces as an uncaught error. */
export type Subscriber = (state: LiveState) => void;
