// Warns of tables that no level covers, when the tracker starts and whenever an epoch begins.
import { type EpochId } from "@highwater/protocol";
import { type Log } from "@highwater/service";
import { type Store } from "@highwater/store";
import { type TrackerState } from "../core/index.ts";
import { type Subscriber } from "./reports.ts";

export class UnloggedTables implements Subscriber {
  readonly #store: Pick<Store, "unloggedTables">;
  readonly #log: Log;
  #looked: EpochId | null = null;

  constructor(store: Pick<Store, "unloggedTables">, log: Log) {
    this.#store = store;
    this.#log = log;
  }

  onEpochs({ topology: { standing } }: TrackerState): void {
    if (standing.kind !== "following" || standing.epoch === this.#looked) return;
    const { node, epoch } = standing;
    this.#looked = epoch;
    this.#store.unloggedTables(node).then(
      (tables) => {
        if (tables.length > 0) this.#log.warn("tables_unlogged", { node, tables });
      },
      // The next epoch is soon enough.
      () => undefined,
    );
  }
}
