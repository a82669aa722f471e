// Asks replicas that have not followed the current epoch how much they have of the previous epoch's
// log, and which marks are written in it. Owns when; the core owns the consequences.
import { type NodeReport } from "@highwater/authority";
import { type EpochId, type Offset, parseOffset } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { type Store, type Witness } from "@highwater/store";
import { type SurvivorsWord, type TrackerState } from "../core/index.ts";

export interface SurvivorsDeps {
  readonly store: Pick<Store, "witnessOf">;
  readonly clock: Clock;
  /** More is known of an epoch. */
  readonly onRead: (word: SurvivorsWord) => void;
}

const AGAIN_MS = 1_000;

export class Survivors {
  readonly #deps: SurvivorsDeps;
  /** By node, when it was last asked. */
  readonly #askedAtMs = new Map<string, number>();
  /** The epochs are few: each is the newest one of a node that has reported. */
  readonly #words = new Map<EpochId, { reached: Map<string, Offset>; marks: Map<string, Offset> }>();

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
        if (witness !== null) this.#note(newest, node, witness);
      },
      // It is asked again as long as it reports.
      () => undefined,
    );
  }

  #note(epoch: EpochId, node: string, witness: Witness): void {
    let word = this.#words.get(epoch);
    if (word === undefined) this.#words.set(epoch, (word = { reached: new Map(), marks: new Map() }));
    raise(word.reached, node, witness.reached);
    for (const [level, text] of Object.entries(witness.marks)) raise(word.marks, level, parseOffset(text));
    // Also when nothing is new: the core takes no word while it follows no epoch.
    this.#deps.onRead({ epoch, ...word });
  }
}

function raise(offsets: Map<string, Offset>, name: string, offset: Offset | undefined): void {
  if (offset !== undefined && (offsets.get(name) ?? -1n) < offset) offsets.set(name, offset);
}
