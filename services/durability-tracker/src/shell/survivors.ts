// Asks replicas that have not followed the current epoch how much they have of the previous epoch's
// log. Owns when; the core owns the consequences.
import { type NodeReport } from "@highwater/authority";
import { type EpochId, type Offset } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { type Store } from "@highwater/store";
import { type TrackerState } from "../core/index.ts";

export interface SurvivorsDeps {
  readonly store: Pick<Store, "witnessOf">;
  readonly clock: Clock;
  /** More is known of an epoch, by node. */
  readonly onRead: (epoch: EpochId, reached: ReadonlyMap<string, Offset>) => void;
}

const AGAIN_MS = 1_000;

export class Survivors {
  readonly #deps: SurvivorsDeps;
  /** By node, when it was last asked. */
  readonly #askedAtMs = new Map<string, number>();
  /** By epoch and node. The epochs are few: each is the newest one of a node that has reported. */
  readonly #reached = new Map<EpochId, Map<string, Offset>>();

  constructor(deps: SurvivorsDeps) {
    this.#deps = deps;
  }

  look({ node, role, epochs }: NodeReport, { topology: { standing } }: TrackerState): void {
    const { store, clock } = this.#deps;
    const newest = epochs.at(-1)?.id as EpochId | undefined;
    if (role !== "replica" || newest === undefined) return;
    if (standing.kind !== "following" || standing.epoch === newest) return;
    const askedAtMs = this.#askedAtMs.get(node) ?? Number.NEGATIVE_INFINITY;
    if (clock.monotonicMs() - askedAtMs < AGAIN_MS) return;
    this.#askedAtMs.set(node, clock.monotonicMs());
    store.witnessOf(node, newest).then(
      (witness) => {
        if (witness !== null) this.#note(newest, node, witness.reached);
      },
      // It is asked again as long as it reports.
      () => undefined,
    );
  }

  #note(epoch: EpochId, node: string, offset: Offset): void {
    let reached = this.#reached.get(epoch);
    if (reached === undefined) this.#reached.set(epoch, (reached = new Map<string, Offset>()));
    if ((reached.get(node) ?? -1n) >= offset) return;
    reached.set(node, offset);
    this.#deps.onRead(epoch, reached);
  }
}
