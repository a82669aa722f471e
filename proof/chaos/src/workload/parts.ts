// What the clients of one process share.
import { type Endpoint } from "../parts.ts";
import { type Journal } from "./journal.ts";
import { type Promises } from "./promises.ts";
import { type RecentTokens } from "./asker.ts";
import { type Late } from "./late.ts";
import { type Reruns } from "./reruns.ts";
import { type Resolver } from "./resolver.ts";

export interface Shared {
  readonly journal: Journal;
  readonly promises: Promises;
  readonly reruns: Reruns;
  readonly late: Late;
  readonly resolver: Resolver;
  readonly recent: RecentTokens;
  /** Nearest first. */
  readonly endpoints: readonly Endpoint[];
  /** True once there are to be no new transactions. */
  readonly isStopping: () => boolean;
}

/** One line of work: it does one thing after the other. */
export interface Actor {
  readonly kind: "sdk" | "interactive" | "replica" | "wire";
  act(): Promise<void>;
  close?(): void;
}
