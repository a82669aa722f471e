// The prepared statements of one connection, by SQL text. The least recently used one is dropped
// first.

const MAX_STATEMENTS = 256;
const ORDERED_ABOVE = MAX_STATEMENTS / 2;
/** Very long texts are seldom repeated and would keep much memory on both sides. */
const MAX_KEPT_CHARS = 16_384;

export class PreparedStatements {
  readonly #names = new Map<string, string>();
  #unconfirmed: string[] = [];
  #evicted: string[] = [];
  #next = 0;

  /** The statement's name, and whether it has to be parsed first. */
  use(sql: string): { name: string; isNew: boolean } {
    if (sql.length > MAX_KEPT_CHARS) {
      // The unnamed statement; it confirms like any other, so it takes a place in the queue.
      this.#unconfirmed.push("");
      return { name: "", isNew: true };
    }
    const known = this.#names.get(sql);
    if (known !== undefined) {
      // Who was used last matters only where somebody may have to go.
      if (this.#names.size > ORDERED_ABOVE) {
        this.#names.delete(sql);
        this.#names.set(sql, known);
      }
      return { name: known, isNew: false };
    }
    const name = `hw${String(this.#next++)}`;
    this.#names.set(sql, name);
    this.#unconfirmed.push(sql);
    this.#evictOldest();
    return { name, isNew: true };
  }

  /**
   * A statement without a name: it is parsed in every use, and no SQL can run, list or replace it.
   */
  useUnnamed(): void {
    this.#unconfirmed.push("");
  }

  #evictOldest(): void {
    if (this.#names.size <= MAX_STATEMENTS) return;
    for (const [sql, name] of this.#names) {
      if (this.#unconfirmed.includes(sql)) continue;
      this.#names.delete(sql);
      this.#evicted.push(name);
      return;
    }
  }

  /** Names whose statements the server may forget. */
  takeEvicted(): string[] {
    const evicted = this.#evicted;
    this.#evicted = [];
    return evicted;
  }

  /** The server has parsed the oldest statement that was new. */
  confirmOne(): void {
    this.#unconfirmed.shift();
  }

  /** After an error: so many of the oldest that were new, those behind it, were never parsed. */
  dropUnconfirmed(count: number): void {
    for (const sql of this.#unconfirmed.splice(0, count)) this.#names.delete(sql);
  }

  /** The server has none any more. */
  forget(): void {
    this.#names.clear();
    this.#evicted = [];
    this.#unconfirmed = [];
  }

  /**
   * None may be used again. The server has to forget them; that it may have done so already is no
   * error.
   */
  clear(): void {
    this.#evicted.push(...this.#names.values());
    this.#names.clear();
    this.#unconfirmed = [];
  }
}
