// What the tracker needs from the world: time, the log, the store and its ledger on disk.
import { type Clock } from "@highwater/runtime";
import { type Log, type TopologyFile, type Tracer } from "@highwater/service";
import {
  type ContentsStore,
  type EventStore,
  type KeyReader,
  type PostgresEventsOptions,
  type Store,
} from "@highwater/store";
import { type ContentsFile } from "./contents/contents-file.ts";
import { type LedgerFile } from "./shell/ledger-file.ts";
import { type Resolve } from "./webhooks/index.ts";

export interface TrackerDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly ledger: LedgerFile;
  readonly contents: ContentsFile;
  readonly log: Log;
  /** Ends the process: the core's state contradicts itself. */
  readonly onCoreFailure: (cause: Error) => void;
  /** Opens the store of the API keys; wanted only where keys are accepted. */
  readonly keys: () => KeyReader;
  /** Opens the store of the events; the hook runs in the transaction that records them. */
  readonly events: (onRecorded: NonNullable<PostgresEventsOptions["onRecorded"]>) => EventStore;
  /** Opens the store's part of contents: the audit log and the marks of erasures. */
  readonly contentsStore: () => ContentsStore;
  /** How the names of webhooks' hosts are looked up. */
  readonly resolve: Resolve;
  /** The folder with the built console; it may be empty. */
  readonly consoleFolder: string;
  /** Evenly distributed in [0, 1). */
  readonly random: () => number;
  /** Where requests are traced. */
  readonly tracer?: Tracer | undefined;
  /** Where levels may change while the tracker runs. */
  readonly topologyFile?: TopologyFile | undefined;
}
