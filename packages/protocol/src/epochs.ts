// Derives from epoch records: ancestry, and which history ended another's epoch.
import { type EpochId, type Offset } from "./ids.ts";
import { type EpochCause, type EpochRecord } from "./schemas.ts";

/** Epoch records seen anywhere, by id. None is ever removed. */
export class EpochGraph {
  readonly #records = new Map<EpochId, EpochRecord>();
  /** Parents, from tokens and gateways, of epochs whose own record has not been seen. */
  readonly #parents = new Map<EpochId, EpochId>();

  /**
   * Adds records. A known record keeps the highest final marks: they are raised after it was
   * written, and a replica shows them late.
   */
  add(records: readonly EpochRecord[]): void {
    for (const record of records) {
      const known = this.get(record.id as EpochId);
      // Every report of a node has all records, and nearly all of them are as before.
      if (known !== undefined && !this.isRaised(record) && isSameBesidesMarks(record, known)) continue;
      const finalMarks =
        known === undefined ? record.finalMarks : higher(known.finalMarks, record.finalMarks);
      this.#records.set(record.id as EpochId, { ...record, finalMarks });
    }
  }

  /** Whether the record is known, and has a higher final mark than before. */
  isRaised(record: EpochRecord): boolean {
    const known = this.get(record.id as EpochId)?.finalMarks;
    if (known === undefined) return false;
    if (record.finalMarks === known) return false;
    for (const level in record.finalMarks)
      if (isHigher(record.finalMarks[level] ?? "0", known[level])) return true;
    return false;
  }

  /** Takes in the parent of an epoch whose record is not known. False: it was known. */
  learnParent(id: EpochId, parent: EpochId): boolean {
    if (id === parent || this.#records.has(id) || this.#parents.has(id)) return false;
    this.#parents.set(id, parent);
    return true;
  }

  hasParent(id: EpochId): boolean {
    return this.#parents.has(id);
  }

  get(id: EpochId): EpochRecord | undefined {
    return this.#records.get(id);
  }

  has(id: EpochId): boolean {
    return this.#records.has(id);
  }

  get maxSeq(): number {
    let max = 0;
    for (const record of this.#records.values()) max = Math.max(max, record.seq);
    return max;
  }

  records(): EpochRecord[] {
    return [...this.#records.values()];
  }

  /**
   * Returns the records of the epoch and its ancestors that were seen, newest first. Bounded by the
   * number of epochs, in case they ever form a loop.
   */
  ancestry(id: EpochId): EpochRecord[] {
    const chain: EpochRecord[] = [];
    let next: EpochId | null | undefined = id;
    for (let left = this.#records.size + this.#parents.size; next != null && left >= 0; left--) {
      const record = this.#records.get(next);
      if (record !== undefined) chain.push(record);
      next = record === undefined ? this.#parents.get(next) : (record.previous as EpochId | null);
    }
    return chain;
  }

  /** Returns the epochs whose records were never seen. */
  unseen(): EpochId[] {
    return [...this.#parents.keys()].filter((id) => !this.#records.has(id));
  }

  ids(): EpochId[] {
    return [...this.#records.keys()];
  }
}

function isSameBesidesMarks(record: EpochRecord, known: EpochRecord): boolean {
  for (const name in known) {
    const key = name as keyof EpochRecord;
    if (key !== "finalMarks" && record[key] !== known[key] && !isSameList(record[key], known[key]))
      return false;
  }
  return true;
}

function isSameList(one: unknown, other: unknown): boolean {
  if (!Array.isArray(one) || !Array.isArray(other) || one.length !== other.length) return false;
  return one.every((item, index) => item === other[index]);
}

function isHigher(mark: string, than: string | undefined): boolean {
  return than === undefined || (mark !== than && BigInt(mark) > BigInt(than));
}

function higher(one: EpochRecord["finalMarks"], other: EpochRecord["finalMarks"]): EpochRecord["finalMarks"] {
  const marks = { ...one };
  for (const [level, mark] of Object.entries(other)) if (isHigher(mark, marks[level])) marks[level] = mark;
  return marks;
}

/**
 * Above this offset an epoch's history has nothing of the previous epoch's log, or it is not known
 * to have any. Null: it has all of that log. `fork`, `limit`: as in the epoch's record.
 */
export function keptEnd({
  cause,
  fork,
  limit,
}: {
  readonly cause: EpochCause;
  readonly fork: Offset;
  readonly limit: Offset | null;
}): Offset | null {
  if (limit !== null) return limit;
  // These two have no limit only where the server that wrote the log goes on.
  return cause === "clean_restart" || cause === "reinstated" ? null : fork;
}

/**
 * True when the history `mine` (oldest first) ends the epoch `other`: contains it, supersedes it,
 * or was chosen over it.
 */
export function outranks(mine: readonly EpochRecord[], other: EpochId, graph: EpochGraph): boolean {
  const own = new Set(mine.map((record) => record.id));
  if (own.has(other)) return true;
  if (mine.some((record) => record.supersedes.includes(other))) return true;
  // Neither contains the other. After their last common epoch, a history with an operator's command
  // beats one without.
  const otherChain = graph.ancestry(other);
  const common = otherChain.find((record) => own.has(record.id));
  if (common === undefined) return false;
  const theirs = otherChain.slice(0, otherChain.indexOf(common));
  const ours = mine.slice(mine.findIndex((record) => record.id === common.id) + 1);
  return ours.some((record) => record.commanded) && !theirs.some((record) => record.commanded);
}
