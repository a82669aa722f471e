// For tests: an outbox in memory that keeps what was flushed when its process dies.
import { type OutboxStore } from "./outbox-store.ts";

export class MemoryOutbox implements OutboxStore {
  /** What a next process finds. */
  readonly disk: Map<string, string>;
  #queued: [key: string, body: string | null][] = [];
  #isDead = false;
  loaded = 0;

  constructor(disk = new Map<string, string>()) {
    this.disk = disk;
  }

  save(key: string, body: string): void {
    this.#queued.push([key, body]);
  }

  remove(key: string): void {
    this.#queued.push([key, null]);
  }

  flush(): Promise<void> {
    this.flushNow();
    return Promise.resolve();
  }

  flushNow(): void {
    if (this.#isDead) return;
    for (const [key, body] of this.#queued) {
      if (body === null) this.disk.delete(key);
      else this.disk.set(key, body);
    }
    this.#queued = [];
  }

  async load(after: string, limit: number): Promise<ReadonlyMap<string, string>> {
    // As a worker thread would: the answer comes later than whatever happens in this tick.
    await Promise.resolve();
    const found = [...this.disk]
      .filter(([key]) => key > after)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .slice(0, limit);
    this.loaded += found.length;
    return new Map(found);
  }

  /** From now on nothing of this process gets to the disk; what was not flushed is gone. */
  die(): void {
    this.#isDead = true;
  }
}
