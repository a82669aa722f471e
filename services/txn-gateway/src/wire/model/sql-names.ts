// Tracks the statements and cursors that a session names in SQL, to know whether EXECUTE or FETCH
// may lock rows. Bounded: an unknown name counts as one that locks.
import { type NameUse } from "./statement.ts";

const NAMES_MAX = 2_000;

interface Cursor {
  readonly isLocking: boolean;
  /** The cursor outlives its transaction. */
  readonly isHoldable: boolean;
}

export class SqlNames {
  /** By name: whether the statement locks rows. */
  readonly #prepared = new Map<string, boolean>();
  readonly #cursors = new Map<string, Cursor>();

  /** The statement goes to the server. True: by its name, it may lock the rows it returns. */
  used(use: NameUse): boolean {
    switch (use.does) {
      case "prepare":
        this.#prepare(use.name, use.isLocking);
        return false;
      case "declare":
        this.#declare(use.name, use);
        return false;
      case "execute":
        return use.name === null || (this.#prepared.get(use.name) ?? true);
      case "fetch":
        return use.name === null || (this.#cursors.get(use.name)?.isLocking ?? true);
      case "anything":
        this.#prepared.clear();
        this.#cursors.clear();
        return false;
    }
  }

  /** A Parse of the extended protocol, which shares its names with SQL. */
  parsed(name: string): void {
    if (this.#prepared.has(name)) this.#prepared.set(name, true);
  }

  /** The same for a portal. */
  bound(name: string): void {
    if (this.#cursors.has(name)) this.#declare(name, { isLocking: true, isHoldable: false });
  }

  /** Cursors end with their transaction. */
  transactionEnded(): void {
    for (const [name, { isHoldable }] of this.#cursors) if (!isHoldable) this.#cursors.delete(name);
  }

  /** The server keeps a name's first statement, so a name that has locked once still counts. */
  #prepare(name: string, isLocking: boolean): void {
    makeRoom(this.#prepared);
    this.#prepared.set(name, isLocking || this.#prepared.get(name) === true);
  }

  #declare(name: string, { isLocking, isHoldable }: Cursor): void {
    makeRoom(this.#cursors);
    const before = this.#cursors.get(name);
    this.#cursors.set(name, {
      isLocking: isLocking || before?.isLocking === true,
      isHoldable: isHoldable || before?.isHoldable === true,
    });
  }
}

function makeRoom(names: Map<string, unknown>): void {
  if (names.size >= NAMES_MAX) names.clear();
}
