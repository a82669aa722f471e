// A load generator for each way of load: code that has been optimized for one kind of client would
// be slower with another.

export class Processes<T extends { end(): void }> {
  readonly #known = new Map<string, T>();

  /** `isNew`: the compiler has not seen its code. */
  of(way: string, make: () => T): { readonly process: T; readonly isNew: boolean } {
    const known = this.#known.get(way);
    const process = known ?? make();
    this.#known.set(way, process);
    return { process, isNew: known === undefined };
  }

  [Symbol.dispose](): void {
    for (const process of this.#known.values()) process.end();
  }
}
