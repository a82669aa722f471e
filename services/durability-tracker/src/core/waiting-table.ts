// The attempts of the backlog by number ("slot") and by owner and id, in columns: some fifty bytes
// for each instead of two hundred as objects, so that memory holds a million of them. Does not know
// their order.
import { formatUuid, type Offset, type OwnedId, type TxnId } from "@highwater/protocol";
import { type OwnerAccount, type Source } from "./accounts.ts";

export interface Waiting {
  readonly id: TxnId;
  readonly offset: Offset;
  readonly atMs: number;
  readonly owner: OwnerAccount;
  readonly source: Source | null;
  readonly metadata: Readonly<Record<string, string>> | null;
  /** An amount and its unit; null: none. */
  readonly atRisk: string | null;
}

const MIN_SLOTS = 1_024;
const WORDS = 4;
/** Of the hash table: at most half full. */
const SPREAD = 2;
const MAX_64 = (1n << 64n) - 1n;

/** Values that many share, by number; an unused one leaves. */
class Shared<T> {
  readonly #numbers = new Map<T, number>();
  #values: T[] = [];
  #uses: number[] = [];
  #free: number[] = [];

  take(value: T): number {
    let number = this.#numbers.get(value);
    if (number === undefined) {
      number = this.#free.pop() ?? this.#values.length;
      this.#values[number] = value;
      this.#uses[number] = 0;
      this.#numbers.set(value, number);
    }
    this.#uses[number] = (this.#uses[number] ?? 0) + 1;
    return number;
  }

  get(number: number): T {
    return this.#values[number] as T;
  }

  release(number: number): void {
    const left = (this.#uses[number] ?? 1) - 1;
    this.#uses[number] = left;
    if (left > 0) return;
    this.#numbers.delete(this.get(number));
    this.#free.push(number);
  }

  /** Everybody who shares a value shares its replacement from now on. */
  replace(by: (value: T) => T): void {
    for (const [value, number] of [...this.#numbers]) {
      const next = by(value);
      this.#numbers.delete(value);
      this.#numbers.set(next, number);
      this.#values[number] = next;
    }
  }
}

export class WaitingTable {
  #slots = 0;
  #used = 0;
  #free: number[] = [];
  #ids = new Uint32Array(0);
  #offsets = new BigUint64Array(0);
  /** Those that do not fit in 64 bits. */
  readonly #large = new Map<number, Offset>();
  #times = new Float64Array(0);
  #owners = new Uint32Array(0);
  #sources = new Uint32Array(0);
  readonly #metadata = new Map<number, NonNullable<Waiting["metadata"]>>();
  readonly #atRisk = new Map<number, string>();
  readonly #ownerAccounts = new Shared<OwnerAccount>();
  readonly #sourceAccounts = new Shared<Source | null>();
  /** Slot + 1 by hash of the id, the next free place after a collision; 0: none. */
  #index = new Int32Array(0);

  get size(): number {
    return this.#used - this.#free.length;
  }

  /** The slot of one that it does not hold yet. */
  add(item: Waiting): number {
    let slot = this.#free.pop();
    if (slot === undefined) {
      if (this.#used === this.#slots) this.#grow();
      slot = this.#used++;
    }
    const words = wordsOf(item.id);
    this.#ids.set(words, slot * WORDS);
    this.#offsets[slot] = item.offset;
    if (item.offset > MAX_64) this.#large.set(slot, item.offset);
    this.#times[slot] = item.atMs;
    this.#owners[slot] = this.#ownerAccounts.take(item.owner);
    this.#sources[slot] = this.#sourceAccounts.take(item.source);
    if (item.metadata !== null) this.#metadata.set(slot, item.metadata);
    if (item.atRisk !== null) this.#atRisk.set(slot, item.atRisk);
    this.#enter(slot);
    return slot;
  }

  find({ id, owner }: OwnedId): number | undefined {
    if (this.size === 0) return undefined;
    const words = wordsOf(id);
    const mask = this.#index.length - 1;
    for (let at = hashOf(words, 0) & mask; ; at = (at + 1) & mask) {
      const slot = (this.#index[at] ?? 0) - 1;
      if (slot < 0) return undefined;
      const isSame = words.every((word, n) => this.#ids[slot * WORDS + n] === word);
      if (isSame && this.owner(slot).owner === owner) return slot;
    }
  }

  get(slot: number): Waiting {
    return {
      id: idOf(this.#ids, slot * WORDS),
      offset: this.offset(slot),
      atMs: this.#times[slot] ?? 0,
      owner: this.owner(slot),
      source: this.source(slot),
      metadata: this.#metadata.get(slot) ?? null,
      atRisk: this.atRisk(slot),
    };
  }

  offset(slot: number): Offset {
    if (this.#large.size > 0) {
      const large = this.#large.get(slot);
      if (large !== undefined) return large;
    }
    return (this.#offsets[slot] ?? 0n) as Offset;
  }

  time(slot: number): number {
    return this.#times[slot] ?? 0;
  }

  owner(slot: number): OwnerAccount {
    return this.#ownerAccounts.get(this.#owners[slot] ?? 0);
  }

  source(slot: number): Source | null {
    return this.#sourceAccounts.get(this.#sources[slot] ?? 0);
  }

  atRisk(slot: number): string | null {
    return this.#atRisk.get(slot) ?? null;
  }

  setAtRisk(slot: number, atRisk: string): void {
    this.#atRisk.set(slot, atRisk);
  }

  setMetadata(slot: number, metadata: NonNullable<Waiting["metadata"]>): void {
    this.#metadata.set(slot, metadata);
  }

  remove(slot: number): void {
    this.#leave(slot);
    this.#large.delete(slot);
    this.#metadata.delete(slot);
    this.#atRisk.delete(slot);
    this.#ownerAccounts.release(this.#owners[slot] ?? 0);
    this.#sourceAccounts.release(this.#sources[slot] ?? 0);
    this.#free.push(slot);
  }

  replaceAccounts(owner: (account: OwnerAccount) => OwnerAccount, source: (account: Source) => Source): void {
    this.#ownerAccounts.replace(owner);
    this.#sourceAccounts.replace((account) => (account === null ? null : source(account)));
  }

  #grow(): void {
    this.#slots = Math.max(MIN_SLOTS, 2 * this.#slots);
    this.#ids = copied(new Uint32Array(this.#slots * WORDS), this.#ids);
    const offsets = new BigUint64Array(this.#slots);
    offsets.set(this.#offsets);
    this.#offsets = offsets;
    this.#times = copied(new Float64Array(this.#slots), this.#times);
    this.#owners = copied(new Uint32Array(this.#slots), this.#owners);
    this.#sources = copied(new Uint32Array(this.#slots), this.#sources);
    this.#index = new Int32Array(this.#slots * SPREAD);
    for (let slot = 0; slot < this.#used; slot++) this.#enter(slot);
  }

  #enter(slot: number): void {
    const mask = this.#index.length - 1;
    let at = hashOf(this.#ids, slot * WORDS) & mask;
    while (this.#index[at] !== 0) at = (at + 1) & mask;
    this.#index[at] = slot + 1;
  }

  /** Closes the gap: whatever had to go past it comes back, so that no search ends too soon. */
  #leave(slot: number): void {
    const mask = this.#index.length - 1;
    let gap = hashOf(this.#ids, slot * WORDS) & mask;
    while (this.#index[gap] !== slot + 1) gap = (gap + 1) & mask;
    this.#index[gap] = 0;
    for (let at = (gap + 1) & mask; ; at = (at + 1) & mask) {
      const other = (this.#index[at] ?? 0) - 1;
      if (other < 0) return;
      const home = hashOf(this.#ids, other * WORDS) & mask;
      if (((at - home) & mask) < ((at - gap) & mask)) continue;
      this.#index[gap] = other + 1;
      this.#index[at] = 0;
      gap = at;
    }
  }
}

function copied<T extends Uint32Array | Float64Array>(to: T, from: T): T {
  to.set(from);
  return to;
}

const HEX = 16;

/** The 128 bits of a UUID's text. */
function wordsOf(id: TxnId): readonly number[] {
  return [
    parseInt(id.slice(0, 8), HEX),
    parseInt(id.slice(9, 13) + id.slice(14, 18), HEX),
    parseInt(id.slice(19, 23) + id.slice(24, 28), HEX),
    parseInt(id.slice(28), HEX),
  ];
}

const ID = new DataView(new ArrayBuffer(WORDS * Uint32Array.BYTES_PER_ELEMENT));
const ID_BYTES = new Uint8Array(ID.buffer);

/** In one piece: after a failover every id of the backlog is written out. */
function idOf(words: Uint32Array, at: number): TxnId {
  for (let n = 0; n < WORDS; n++) ID.setUint32(n * Uint32Array.BYTES_PER_ELEMENT, words[at + n] ?? 0);
  return formatUuid(ID_BYTES) as TxnId;
}

/** The last 62 bits of a UUIDv7 are random; a mix makes do with less. */
function hashOf(words: ArrayLike<number>, at: number): number {
  let hash = Math.imul(words[at + 3] ?? 0, 0x9e3779b1) ^ Math.imul(words[at + 2] ?? 0, 0x85ebca6b);
  hash ^= Math.imul(words[at + 1] ?? 0, 0xc2b2ae35) ^ (words[at] ?? 0);
  hash ^= hash >>> 15;
  return Math.imul(hash, 0x2c1b3c6d) >>> 1;
}
