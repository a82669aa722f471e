// What the tracker needs from the world: time, the log, the store and its ledger on disk.
import { type Log, type TopologyFile } from "@highwater/service";
import { type Clock, type KeyReader, type Store } from "@highwater/store";
import { type LedgerFile } from "./shell/ledger-file.ts";

export interface TrackerDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly ledger: LedgerFile;
  readonly log: Log;
  /** Opens the store of the API keys; wanted only where keys are accepted. */
  readonly keys: () => KeyReader;
  /** Where levels may change while the tracker runs. */
  readonly topologyFile?: TopologyFile | undefined;
}
