// The tree of epochs: each epoch continues the history of another one. A history is the path from
// the first epoch to another one.
import { HistoryError } from "./faults.ts";
import { type EpochId, type FinalState } from "./history.ts";

interface EpochPath {
  readonly node: string | null;
  readonly depth: number;
  /** The epoch's history, from the first epoch to itself. */
  readonly path: readonly EpochId[];
  readonly members: ReadonlySet<EpochId>;
  readonly hasPath: boolean;
}

export class EpochTree {
  readonly #records: ReadonlyMap<EpochId, FinalState["epochs"][number]>;
  readonly #paths = new Map<EpochId, EpochPath>();
  /** The current epoch at the end. */
  readonly last: EpochId | null;

  constructor(epochs: FinalState["epochs"]) {
    this.#records = new Map(epochs.map((epoch) => [epoch.id, epoch]));
    let last: FinalState["epochs"][number] | null = null;
    for (const epoch of epochs) if (epoch.inHistory && (last === null || epoch.seq > last.seq)) last = epoch;
    this.last = last?.id ?? null;
  }

  /** False if the final state does not show which epoch this one continued. */
  hasPath(epoch: EpochId): boolean {
    return this.#pathOf(epoch).hasPath;
  }

  depth(epoch: EpochId): number {
    return this.#pathOf(epoch).depth;
  }

  node(epoch: EpochId): string | null {
    return this.#pathOf(epoch).node;
  }

  path(epoch: EpochId): readonly EpochId[] {
    return this.#pathOf(epoch).path;
  }

  /** True when the epoch's history contains the other one, or they are the same. */
  contains(epoch: EpochId, earlier: EpochId): boolean {
    return epoch === earlier || this.#pathOf(epoch).members.has(earlier);
  }

  inHistory(epoch: EpochId): boolean {
    return this.last !== null && this.contains(this.last, epoch);
  }

  /** The newest epoch that both histories contain; null if they share none. */
  common(one: EpochId, other: EpochId): EpochId | null {
    if (one === other) return one;
    return this.path(one).findLast((epoch) => this.contains(other, epoch)) ?? null;
  }

  /** Epochs on the node, oldest first. */
  onNode(node: string): EpochId[] {
    const own = [...this.#records.values()].filter((record) => record.node === node);
    return own.sort((one, other) => one.seq - other.seq).map(({ id }) => id);
  }

  /** True if another node has become the primary since this epoch, in the history that counts. */
  hasMoved(epoch: EpochId): boolean {
    if (this.last === null) return false;
    return this.path(this.last).some(
      (later) => !this.contains(epoch, later) && this.node(later) !== this.node(epoch),
    );
  }

  /**
   * True if an operator has since chosen the current history over others that continue the epoch.
   */
  wasChosenSince(epoch: EpochId): boolean {
    if (this.last === null) return false;
    return this.path(this.last).some(
      (later) => !this.contains(epoch, later) && this.#records.get(later)?.commanded === true,
    );
  }

  #pathOf(epoch: EpochId): EpochPath {
    const known = this.#paths.get(epoch);
    if (known !== undefined) return known;
    const path: EpochId[] = [epoch];
    const members = new Set(path);
    let hasPath = this.#records.has(epoch);
    for (let at = this.#records.get(epoch)?.previous ?? null; at !== null;) {
      if (members.has(at)) throw new HistoryError("contradictory", `epoch ${at} comes before itself`, null);
      members.add(at);
      path.push(at);
      const record = this.#records.get(at);
      hasPath &&= record !== undefined;
      at = record?.previous ?? null;
    }
    path.reverse();
    const node = this.#records.get(epoch)?.node ?? null;
    const found = { node, depth: path.length - 1, path, members, hasPath };
    this.#paths.set(epoch, found);
    return found;
  }
}
