// Runs lost bodies again, as applications do at once. A failure loses hundreds together, so only a
// few run at a time, and some are given up.
const AT_A_TIME_MAX = 8;
const WAITING_MAX = 64;

export class Reruns {
  readonly #waiting: (() => Promise<void>)[] = [];
  readonly #running = new Set<Promise<void>>();
  readonly #onFailure: (error: unknown) => void;
  #stopped = false;

  constructor(onFailure: (error: unknown) => void) {
    this.#onFailure = onFailure;
  }

  add(rerun: () => Promise<void>): void {
    if (this.#stopped || this.#waiting.length >= WAITING_MAX) return;
    this.#waiting.push(rerun);
    this.#next();
  }

  /** Starts no more. Resolves when the running ones have ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#waiting.length = 0;
    await Promise.all(this.#running);
  }

  #next(): void {
    while (this.#running.size < AT_A_TIME_MAX) {
      const rerun = this.#waiting.shift();
      if (rerun === undefined) return;
      const running = rerun()
        .catch(this.#onFailure)
        .finally(() => {
          this.#running.delete(running);
          this.#next();
        });
      this.#running.add(running);
    }
  }
}
