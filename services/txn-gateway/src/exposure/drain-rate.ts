// How fast something drains, as an average that forgets: what came in the last few seconds counts
// most.

const FORGET_MS = 2_000;

export class DrainRate {
  #amount = 0;
  #atMs = 0;

  note(amount: number, nowMs: number): void {
    this.#amount = this.#amount * this.#faded(nowMs) + amount;
    this.#atMs = nowMs;
  }

  perMs(nowMs: number): number {
    return (this.#amount * this.#faded(nowMs)) / FORGET_MS;
  }

  #faded(nowMs: number): number {
    return Math.exp((this.#atMs - nowMs) / FORGET_MS);
  }
}
