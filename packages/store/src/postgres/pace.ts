// Knows which statements have been quick lately. Only quick transactions share a write, because
// each waits for those before it.

/** By the server's own time, on a busy machine. */
const QUICK_MS = 20;
/** So often in a row a text has to be quick, and has to succeed, before it is called so. */
const STREAK = 8;
const TEXTS_KEPT = 1_024;
const KEPT_CHARS = 16_384;

export class Pace {
  #streaks = new Map<string, number>();

  isQuick(statements: readonly { readonly sql: string }[]): boolean {
    return statements.every(({ sql }) => (this.#streaks.get(sql) ?? 0) >= STREAK);
  }

  /** `tookMs` null: it failed. */
  note(statements: readonly { readonly sql: string }[], tookMs: number | null): void {
    const isQuick = tookMs !== null && tookMs <= QUICK_MS;
    for (const { sql } of statements) {
      if (!isQuick) this.#streaks.delete(sql);
      else if (sql.length <= KEPT_CHARS) this.#count(sql);
    }
  }

  #count(sql: string): void {
    const streak = this.#streaks.get(sql) ?? 0;
    if (streak >= STREAK) return;
    if (streak === 0 && this.#streaks.size >= TEXTS_KEPT) this.#streaks.clear();
    this.#streaks.set(sql, streak + 1);
  }
}
