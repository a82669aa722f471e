// The messages between the run and its client processes.
import { type Level } from "@highwater/checker";
import { type Endpoint, type Owner, type Progress } from "../parts.ts";

export interface NamedTracker {
  readonly name: string;
  readonly url: string;
}

export interface ClientOptions {
  readonly name: string;
  /** Unique among client processes; keeps their values apart. */
  readonly ordinal: number;
  readonly seed: number;
  readonly dir: string;
  /** Weakest first. */
  readonly levels: readonly Level[];
  /** The owner of its transactions. */
  readonly owner: Owner | undefined;
  readonly retentionMs: number;
  readonly keeps: boolean;
  /** Transactions a second of this process. */
  readonly rate: number;
  /** As clients at this process's place see them, nearest first. */
  readonly endpoints: readonly Endpoint[];
  /** Addresses of the trackers themselves, without links. */
  readonly trackers: readonly NamedTracker[];
  /** The trackers whose events this process records. */
  readonly listenTo: readonly NamedTracker[];
  /** The owners as which it records them. */
  readonly listenAs: readonly Owner[];
}

/** `stop`: starts no more transactions. `finish`: waits for every promise, then ends. */
export type Command =
  | { readonly do: "start"; readonly options: ClientOptions }
  | { readonly do: "stop" | "finish" };

export type Report =
  | { readonly kind: "progress"; readonly progress: Progress }
  | { readonly kind: "done"; readonly what: Command["do"] }
  | { readonly kind: "failed"; readonly error: string };
