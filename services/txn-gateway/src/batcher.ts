// Combines many small questions into few large ones. Self-clocked: one batch is in flight, and
// everything asked meanwhile goes in the next. So a lone question does not wait, and many cost a
// few round trips.

interface Entry<Key, Value> {
  readonly key: Key;
  readonly resolve: (value: Value) => void;
  readonly reject: (cause: unknown) => void;
}

export class Batcher<Key, Value> {
  readonly #work: (keys: readonly Key[]) => Promise<(key: Key) => Value>;
  readonly #maxKeys: number;
  #queue: Entry<Key, Value>[] = [];
  #running = false;

  /**
   * `work` answers a whole batch: it resolves to the function that picks each key's value from the
   * answer.
   */
  constructor(work: (keys: readonly Key[]) => Promise<(key: Key) => Value>, maxKeys: number) {
    this.#work = work;
    this.#maxKeys = maxKeys;
  }

  /** The key's value; rejects when the batch that it went in did. */
  ask(key: Key): Promise<Value> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ key, resolve, reject });
      if (!this.#running) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#running = true;
    // Whatever else this tick asks goes along.
    await Promise.resolve();
    while (this.#queue.length > 0) {
      const batch = this.#queue.slice(0, this.#maxKeys);
      this.#queue = this.#queue.slice(batch.length);
      try {
        const pick = await this.#work([...new Set(batch.map(({ key }) => key))]);
        for (const { key, resolve } of batch) resolve(pick(key));
      } catch (cause) {
        for (const { reject } of batch) reject(cause);
      }
    }
    this.#running = false;
  }
}
