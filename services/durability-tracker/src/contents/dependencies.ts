// Which other lost transactions a lost one may have read: those that the snapshot at its end shows,
// and those whose place is not known. A superset. Pure.
// (docs/decisions/0241-lost-transactions-name-what-they-may-have-read.md)
import { CONTENTS_LIMITS, type LostTransaction, mayHaveSeen, type Ordered } from "@highwater/protocol";

/** A lost attempt. */
export interface Placed extends Ordered {
  readonly id: string;
  readonly owner: string;
}

const groupOf = ({ owner, epoch }: Placed): string => `${owner}/${epoch}`;
const xidOf = ({ order }: Placed): bigint => order?.xid ?? -1n;

export class Dependencies {
  /** By owner and epoch; the newest first, those without an order last. */
  readonly #groups: ReadonlyMap<string, readonly Placed[]>;
  readonly #isWhole: boolean;

  /** `isWhole`: there are no other losses. */
  constructor(all: readonly Placed[], isWhole: boolean) {
    const groups = Map.groupBy(all, groupOf);
    for (const group of groups.values()) group.sort((a, b) => Number(xidOf(b) - xidOf(a)));
    this.#groups = groups;
    this.#isWhole = isWhole;
  }

  /** Undefined: not known. */
  of(later: Placed): LostTransaction["dependsOn"] {
    const { order } = later;
    if (order === null) return undefined;
    const ids: string[] = [];
    const group = this.#groups.get(groupOf(later)) ?? [];
    for (let at = firstBelow(group, order.xmax); at < group.length; at++) {
      const each = group[at];
      if (each === undefined || each.id === later.id || !mayHaveSeen(later, each)) continue;
      if (ids.length === CONTENTS_LIMITS.dependsOn) return { ids, more: true };
      ids.push(each.id);
    }
    return { ids, more: !this.#isWhole };
  }
}

/** The index of the first one below `xmax`: the snapshot shows none of those before. */
function firstBelow(group: readonly Placed[], xmax: bigint): number {
  let [low, high] = [0, group.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const each = group[middle];
    if (each !== undefined && xidOf(each) >= xmax) low = middle + 1;
    else high = middle;
  }
  return low;
}
