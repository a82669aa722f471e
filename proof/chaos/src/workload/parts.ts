// The objects that the actors of one process share.
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
  /** True once no more transactions may start. */
  readonly isStopping: () => boolean;
}

/** Does one thing after another, like one thread of an application. */
export interface Actor {
  readonly kind: "sdk" | "interactive" | "replica" | "wire";
  act(): Promise<void>;
  close?(): void;
}
