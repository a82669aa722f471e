// One budget for all results that the process holds, from the database's first row until the answer
// is written. An owner gets at most half of it, so that others can continue.
import { HighwaterError } from "@highwater/protocol";
import { type ResultMeter } from "@highwater/store";
import { RETRY_MS } from "../retry.ts";

/** What one owner may have of the whole. */
const OWNER_SHARE = 1 / 2;
/** Above this part of a bound nothing new is admitted; the rest is for what already runs. */
const ADMITTED_TO = 3 / 4;

export class ResultMemory {
  readonly #maxBytes: number;
  /** Bytes by owner; those who hold nothing are not in it. */
  readonly #owners = new Map<bigint, number>();
  #used = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get usedBytes(): number {
    return this.#used;
  }

  /**
   * Throws `overloaded` when so much is held that another transaction might find no room for its
   * results.
   */
  refuse(owner: bigint): void {
    if (!this.#isBelow(ADMITTED_TO, owner, 0)) throw this.full();
  }

  hold(owner: bigint): ResultHold {
    return new ResultHold(this, owner);
  }

  fits(owner: bigint, bytes: number): boolean {
    return this.#isBelow(1, owner, bytes);
  }

  #isBelow(part: number, owner: bigint, more: number): boolean {
    const limit = part * this.#maxBytes;
    const own = this.#owners.get(owner) ?? 0;
    return this.#used + more <= limit && own + more <= limit * OWNER_SHARE;
  }

  add(owner: bigint, bytes: number): void {
    const own = (this.#owners.get(owner) ?? 0) + bytes;
    this.#used += bytes;
    if (own === 0) this.#owners.delete(owner);
    else this.#owners.set(owner, own);
  }

  full(): HighwaterError {
    const most = String(this.#maxBytes);
    return new HighwaterError("overloaded", {
      detail: `Unread results fill the memory for results (resultMemoryBytes): ${most} bytes for all callers, half of that for one owner. Read results faster, or retry later.`,
      limit: { name: "resultMemoryBytes", value: this.#maxBytes },
      retryAfterMs: RETRY_MS.room,
    });
  }
}

/**
 * The memory of one transaction's or call's results. It is given back when all who use them have
 * released it.
 */
export class ResultHold implements ResultMeter {
  readonly #memory: ResultMemory;
  readonly #owner: bigint;
  #bytes = 0;
  #users = 1;
  #refusal: HighwaterError | null = null;

  constructor(memory: ResultMemory, owner: bigint) {
    this.#memory = memory;
    this.#owner = owner;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get refusal(): HighwaterError | null {
    return this.#refusal;
  }

  take(bytes: number): boolean {
    if (this.#memory.fits(this.#owner, bytes)) {
      this.note(bytes);
      return true;
    }
    this.#refusal ??= this.#memory.full();
    return false;
  }

  note(bytes: number): void {
    // The results are dropped as they come.
    if (this.#users === 0) return;
    this.#bytes += bytes;
    this.#memory.add(this.#owner, bytes);
  }

  /**
   * Another user, who has to release it once; also of what was released and is cached elsewhere.
   */
  keep(): this {
    if (this.#users === 0) this.#memory.add(this.#owner, this.#bytes);
    this.#users++;
    return this;
  }

  release(): void {
    if (this.#users === 0) throw new Error("results were released twice");
    this.#users--;
    if (this.#users === 0) this.#memory.add(this.#owner, -this.#bytes);
  }
}
