// What holds for all positions of an epoch alike, worked out once for each epoch: a failover places
// a hundred thousand of them in one step. It holds until the step ends.
import { type EpochId, type Offset } from "@highwater/protocol";
import { levelBit } from "./levels.ts";
import { currentEpoch } from "./topology.ts";
import { type LogPosition, type TrackerState } from "./types.ts";
import { carry, hasEnded, knownMark, provenEnd } from "./verdict.ts";

interface Fate {
  /** The levels at which a part of the epoch was durable, as bits, and up to where. */
  readonly reached: readonly { readonly bit: number; readonly mark: Offset }[];
  /** `here`: in the current epoch a position stays where it is. Null: nothing is carried over. */
  readonly carried: "here" | { readonly upTo: Offset; readonly to: LogPosition } | null;
  readonly hasEnded: boolean;
}

export class Fates {
  readonly #state: TrackerState;
  readonly #known = new Map<EpochId, Fate>();

  constructor(state: TrackerState) {
    this.#state = state;
  }

  /** As reachedBits(). */
  reachedBits({ epoch, offset }: LogPosition): number {
    let bits = 0;
    for (const { bit, mark } of this.#of(epoch).reached) if (offset <= mark) bits |= bit;
    return bits;
  }

  /** As carry(). */
  carry(position: LogPosition): LogPosition | null {
    const { carried } = this.#of(position.epoch);
    if (carried === "here") return position;
    return carried !== null && position.offset <= carried.upTo ? carried.to : null;
  }

  /** As hasEnded(). */
  hasEnded(epoch: EpochId): boolean {
    return this.#of(epoch).hasEnded;
  }

  #of(epoch: EpochId): Fate {
    let fate = this.#known.get(epoch);
    if (fate === undefined) this.#known.set(epoch, (fate = fateOf(this.#state, epoch)));
    return fate;
  }
}

function fateOf(state: TrackerState, epoch: EpochId): Fate {
  const reached = state.config.levels.flatMap(({ name }) => {
    const mark = knownMark(state, epoch, name);
    return mark === null ? [] : [{ bit: levelBit(state, name), mark }];
  });
  return { reached, carried: carriedOf(state, epoch), hasEnded: hasEnded(state, epoch) };
}

/** Wherever it stood, what a step carries over continues at the successor's record. */
function carriedOf(state: TrackerState, epoch: EpochId): Fate["carried"] {
  const { ancestry } = state.topology;
  const at = ancestry.findIndex(({ id }) => id === epoch);
  const successor = at < 0 ? undefined : ancestry[at + 1];
  if (successor === undefined) return at >= 0 || currentEpoch(state) === epoch ? "here" : null;
  const upTo = provenEnd(state, epoch, successor);
  const to = upTo === null ? null : carry(state, { epoch, offset: upTo });
  return upTo === null || to === null ? null : { upTo, to };
}
