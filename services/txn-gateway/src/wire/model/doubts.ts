// Which settings may be others than those that were read. A text may have changed them, and the end
// of a transaction may change them back. Until they are read, the strictest value counts.
import { DEFAULT_SETTINGS, type Settings } from "./own.ts";

export type Setting = keyof Settings;

export const ALL_SETTINGS: readonly Setting[] = Object.keys(DEFAULT_SETTINGS) as Setting[];

/** What a text may do to the settings. */
export interface Change {
  /** `always`: whatever it answers. `by_tag`: if its tag is of a kind that changes settings. */
  readonly when: "always" | "by_tag";
  readonly settings: readonly Setting[];
  /** It may set all of them back to the session's first values. */
  readonly resets: boolean;
}

/** By what the gateway does not know. */
export const ANY_CHANGE: Change = { when: "always", settings: ALL_SETTINGS, resets: false };

const STRICT_READS = { readsDurably: true, isDurableOnly: true } as const;

export class Doubts {
  /** At this point of the server's answers. */
  readonly #open = new Set<Setting>(ALL_SETTINGS);
  /** Changed since the transaction began, or in doubt since then. */
  readonly #inTransaction = new Set<Setting>();
  /** The session's first values; null: not read yet. */
  #first: Settings | null = null;

  get isEmpty(): boolean {
    return this.#open.size === 0;
  }

  has(name: Setting): boolean {
    return this.#open.has(name);
  }

  /** The transaction's end may change settings back. */
  get mayRevert(): boolean {
    return this.#inTransaction.size > 0;
  }

  add({ settings, resets }: Change, known: Settings): void {
    const isOther = (name: Setting): boolean => this.#first?.[name] !== known[name];
    for (const name of [...settings, ...(resets ? ALL_SETTINGS.filter(isOther) : [])]) {
      this.#open.add(name);
      this.#inTransaction.add(name);
    }
  }

  addAll(): void {
    for (const name of ALL_SETTINGS) this.#open.add(name);
  }

  /** The transaction has ended, or went back to a savepoint. True: that may have changed some. */
  revert(isEnd: boolean): boolean {
    const mayRevert = this.mayRevert;
    for (const name of this.#inTransaction) this.#open.add(name);
    if (isEnd) this.#inTransaction.clear();
    return mayRevert;
  }

  /** All were read. `isInTransaction`: its end may change back what is new. */
  read(before: Settings, now: Settings, isInTransaction: boolean): void {
    this.#first ??= now;
    this.#open.clear();
    if (!isInTransaction) return;
    for (const name of ALL_SETTINGS) if (before[name] !== now[name]) this.#inTransaction.add(name);
  }

  /** The settings, with the strictest value in place of each that is in doubt. */
  inForce(known: Settings, strictestLevel: string): Settings {
    const strictest = { ...DEFAULT_SETTINGS, level: strictestLevel, ...STRICT_READS, id: known.id };
    const entries = ALL_SETTINGS.map((name) => [name, this.#open.has(name) ? strictest[name] : known[name]]);
    return Object.fromEntries(entries) as Settings;
  }
}
