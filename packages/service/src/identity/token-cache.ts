// Keeps verified tokens by their hash, so that a signature is checked once for each token and not
// for each request. Bounded.
import { hash } from "node:crypto";
import { type Principal } from "./principal.ts";

interface Verified {
  readonly principal: Principal;
  readonly untilMs: number;
}

export class TokenCache {
  readonly #entries = new Map<string, Verified>();
  readonly #sizeMax: number;

  constructor(sizeMax: number) {
    this.#sizeMax = sizeMax;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** A hash, because tokens are secrets and must not be kept. */
  static keyOf(token: string): string {
    return hash("sha256", token, "base64");
  }

  get(key: string, nowMs: number): Principal | null {
    const found = this.#entries.get(key);
    if (found === undefined) return null;
    if (nowMs < found.untilMs) return found.principal;
    this.#entries.delete(key);
    return null;
  }

  /** The oldest make room: with similar lifetimes, they expire first. */
  put(key: string, principal: Principal, untilMs: number): void {
    this.#entries.delete(key);
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size < this.#sizeMax) break;
      this.#entries.delete(oldest);
    }
    this.#entries.set(key, { principal, untilMs });
  }
}
