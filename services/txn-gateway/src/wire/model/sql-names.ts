// Tracks the statements and cursors that a session names in SQL, to know whether EXECUTE or FETCH
// may lock rows or change settings. Bounded: an unknown name counts as one that locks.
import { ANY_CHANGE, type Change } from "./doubts.ts";
import { type NameUse, type StatementInfo } from "./statement.ts";

const NAMES_MAX = 2_000;

interface Named {
  readonly isLocking: boolean;
  readonly changes: Change | null;
}

interface Cursor extends Named {
  /** The cursor outlives its transaction. */
  readonly isHoldable: boolean;
}

/** What running a statement by its name adds to what its text shows. */
type Added = Named;

const NOTHING: Added = { isLocking: false, changes: null };

export class SqlNames {
  readonly #prepared = new Map<string, Named>();
  readonly #cursors = new Map<string, Cursor>();
  /** A statement that may change settings has a name, so an unknown name may be that one's. */
  mayHide = false;

  /** The statement goes to the server. */
  used(use: NameUse, changes: Change | null): Added {
    switch (use.does) {
      case "prepare":
        this.#prepare(use.name, { isLocking: use.isLocking, changes });
        return NOTHING;
      case "declare":
        this.#declare(use.name, { ...use, changes });
        return NOTHING;
      case "execute":
        return this.#named(use.name === null ? undefined : this.#prepared.get(use.name));
      case "fetch":
        return this.#named(use.name === null ? undefined : this.#cursors.get(use.name));
      case "anything": {
        this.#prepared.clear();
        this.#cursors.clear();
        const added = { isLocking: false, changes: this.#hidden };
        if (changes?.when === "always") this.mayHide = true;
        return added;
      }
    }
  }

  #named(named: Named | undefined): Added {
    return named ?? { isLocking: true, changes: this.#hidden };
  }

  get #hidden(): Change | null {
    return this.mayHide ? ANY_CHANGE : null;
  }

  /** A Parse of the extended protocol, which shares its names with SQL. */
  parsed(name: string, { changes }: StatementInfo): void {
    if (changes !== null) this.mayHide = true;
    if (this.#prepared.has(name)) this.#prepared.set(name, this.#named(undefined));
  }

  /** The same for a portal. */
  bound(name: string): void {
    if (this.#cursors.has(name)) this.#declare(name, { ...this.#named(undefined), isHoldable: false });
  }

  /** Cursors end with their transaction. */
  transactionEnded(): void {
    for (const [name, { isHoldable }] of this.#cursors) if (!isHoldable) this.#cursors.delete(name);
  }

  /** The server keeps a name's first statement, so what one of a name's statements does counts. */
  #prepare(name: string, { isLocking, changes }: Named): void {
    if (changes !== null) this.mayHide = true;
    makeRoom(this.#prepared);
    const before = this.#prepared.get(name);
    this.#prepared.set(name, both({ isLocking, changes }, before));
  }

  #declare(name: string, { isLocking, changes, isHoldable }: Cursor): void {
    if (changes !== null) this.mayHide = true;
    makeRoom(this.#cursors);
    const before = this.#cursors.get(name);
    this.#cursors.set(name, {
      ...both({ isLocking, changes }, before),
      isHoldable: isHoldable || before?.isHoldable === true,
    });
  }
}

function both({ isLocking, changes }: Named, before: Named | undefined): Named {
  if (before === undefined) return { isLocking, changes };
  return {
    isLocking: isLocking || before.isLocking,
    changes: changes === null || before.changes === null ? (changes ?? before.changes) : ANY_CHANGE,
  };
}

function makeRoom(names: Map<string, unknown>): void {
  if (names.size >= NAMES_MAX) names.clear();
}
