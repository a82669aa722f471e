// Stores each list that was read as the beginning of a longer one, if there is one: two words for
// most lists. Lists that disagree are stored separately.

/** The longest known list among those with the same beginning. */
export class Spine {
  readonly key: string;
  readonly values: number[];
  #indexes: Map<number, number> | null = null;
  #indexed = 0;

  constructor(key: string, values: number[]) {
    this.key = key;
    this.values = values;
  }

  /** The index at which the value first appears, or -1. */
  indexOf(value: number): number {
    this.#indexes ??= new Map();
    for (; this.#indexed < this.values.length; this.#indexed++) {
      const next = this.values[this.#indexed] ?? Number.NaN;
      if (!this.#indexes.has(next)) this.#indexes.set(next, this.#indexed);
    }
    return this.#indexes.get(value) ?? -1;
  }
}

/** The first `length` values of the spine. */
export interface ListView {
  readonly spine: Spine;
  readonly length: number;
}

export class Lists {
  readonly #spines = new Map<string, Spine[]>();

  intern(key: string, list: readonly number[]): ListView {
    const spines = this.#spines.get(key) ?? [];
    if (spines.length === 0) this.#spines.set(key, spines);
    for (const spine of spines) {
      if (commonLength(spine.values, spine.values.length, list, list.length) < list.length) continue;
      return { spine, length: list.length };
    }
    for (const spine of spines) {
      const { values } = spine;
      if (commonLength(values, values.length, list, list.length) < values.length) continue;
      for (let at = values.length; at < list.length; at++) values.push(list[at] ?? Number.NaN);
      return { spine, length: list.length };
    }
    const spine = new Spine(key, [...list]);
    spines.push(spine);
    return { spine, length: list.length };
  }

  spines(): Iterable<Spine> {
    return [...this.#spines.values()].flat();
  }
}

/** The length of the common beginning. */
function commonLength(
  one: readonly number[],
  oneLength: number,
  other: readonly number[],
  otherLength: number,
): number {
  const limit = Math.min(oneLength, otherLength);
  for (let at = 0; at < limit; at++) if (one[at] !== other[at]) return at;
  return limit;
}

/** True when the shorter list is the beginning of the longer one. */
export function isCompatible(one: ListView, other: ListView): boolean {
  if (one.spine === other.spine) return true;
  const limit = Math.min(one.length, other.length);
  return commonLength(one.spine.values, one.length, other.spine.values, other.length) === limit;
}
