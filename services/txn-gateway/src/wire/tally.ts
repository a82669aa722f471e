// How many things of each name there are now. A name without any takes no memory.
export class Tally {
  readonly #counts = new Map<string, number>();
  #total = 0;

  /** Of all names. */
  get total(): number {
    return this.#total;
  }

  of(name: string): number {
    return this.#counts.get(name) ?? 0;
  }

  /** Returns a function that ends the count of this one. Further calls of it do nothing. */
  add(name: string): () => void {
    this.#counts.set(name, this.of(name) + 1);
    this.#total++;
    let isCounted = true;
    return () => {
      if (!isCounted) return;
      isCounted = false;
      this.#total--;
      const left = this.of(name) - 1;
      if (left > 0) this.#counts.set(name, left);
      else this.#counts.delete(name);
    };
  }
}
