// What the run and its client processes say to each other.
import { type Level } from "@highwater/checker";
import { type Endpoint, type Owner, type Progress } from "../parts.ts";

export interface NamedTracker {
  readonly name: string;
  readonly url: string;
}

export interface ClientOptions {
  readonly name: string;
  /** Among all client processes: their values are told apart by it. */
  readonly ordinal: number;
  readonly seed: number;
  readonly dir: string;
  /** Weakest first. */
  readonly levels: readonly Level[];
  /** Whose transactions it runs. */
  readonly owner: Owner | undefined;
  readonly retentionMs: number;
  /** Transactions a second of this process. */
  readonly rate: number;
  /** As seen from where this process is, nearest first. */
  readonly endpoints: readonly Endpoint[];
  /** Past all links. */
  readonly trackers: readonly NamedTracker[];
  /** Those of them whose events this process records. */
  readonly listenTo: readonly NamedTracker[];
  /** As each of them. */
  readonly listenAs: readonly Owner[];
}

/** `stop`: no new transactions. `finish`: wait for every promise, then end. */
export type Command =
  | { readonly do: "start"; readonly options: ClientOptions }
  | { readonly do: "stop" | "finish" };

export type Report =
  | { readonly kind: "progress"; readonly progress: Progress }
  | { readonly kind: "done"; readonly what: Command["do"] }
  | { readonly kind: "failed"; readonly error: string };
