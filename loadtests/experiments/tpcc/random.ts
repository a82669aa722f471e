// TPC-C's own rules for random data (clauses 2.1.6 and 4.3.2 of revision 5.11).
import { type Random, whole } from "../load/random.ts";

/** How much of everything there is. The specification's own numbers are those of `FULL_SCALE`. */
export interface Scale {
  readonly warehouses: number;
  readonly items: number;
  readonly customersPerDistrict: number;
}

export const DISTRICTS = 10;
export const FULL_SCALE = { items: 100_000, customersPerDistrict: 3_000 };
/** The last 900 of 3,000 orders are not delivered yet. */
export const UNDELIVERED_SHARE = 0.3;

const SYLLABLES = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"] as const;
const LAST_NAMES = 1_000;
const LETTERS = "abcdefghijklmnopqrstuvwxyz";

/**
 * The run's constant for last names must differ from the load's by 65 to 119, but not by 96 or 112
 * (clause 2.1.6.1).
 */
const C_LAST = { load: 157, run: 240 };
const C_CUSTOMER = 511;
const C_ITEM = 4_095;

/** NURand: some values are much more likely than others. */
function nonUniform(
  random: Random,
  { a, c }: { readonly a: number; readonly c: number },
  [lowest, highest]: readonly [number, number],
): number {
  const mixed = whole(random, 0, a) | whole(random, lowest, highest);
  return ((mixed + c) % (highest - lowest + 1)) + lowest;
}

export function pickCustomer(random: Random, { customersPerDistrict }: Scale): number {
  return nonUniform(random, { a: 1_023, c: C_CUSTOMER }, [1, customersPerDistrict]);
}

export function pickItem(random: Random, { items }: Scale): number {
  return nonUniform(random, { a: 8_191, c: C_ITEM }, [1, items]);
}

/**
 * With fewer customers there are fewer names, so that every name that is asked for belongs to
 * somebody.
 */
export function namesOf({ customersPerDistrict }: Scale): number {
  return Math.min(LAST_NAMES, customersPerDistrict);
}

export function pickName(random: Random, scale: Scale, phase: "load" | "run"): string {
  return lastName(nonUniform(random, { a: 255, c: C_LAST[phase] }, [0, namesOf(scale) - 1]));
}

export function lastName(number: number): string {
  const digits = [Math.floor(number / 100), Math.floor(number / 10) % 10, number % 10];
  return digits.map((digit) => SYLLABLES[digit] ?? "").join("");
}

export function letters(random: Random, lowest: number, highest: number): string {
  let text = "";
  for (let left = whole(random, lowest, highest); left > 0; left--)
    text += LETTERS[Math.floor(random() * LETTERS.length)] ?? "";
  return text;
}

export function digits(random: Random, count: number): string {
  return String(whole(random, 0, 10 ** count - 1)).padStart(count, "0");
}

/** A tenth of all items and stocks has the word somewhere in its data. */
export function originalData(random: Random): string {
  const data = letters(random, 26, 50);
  if (random() >= 0.1) return data;
  const at = whole(random, 0, data.length - 8);
  return `${data.slice(0, at)}ORIGINAL${data.slice(at + 8)}`;
}

export function shuffled<T>(random: Random, values: readonly T[]): T[] {
  const mixed = [...values];
  for (let at = mixed.length - 1; at > 0; at--) {
    const other = whole(random, 0, at);
    [mixed[at], mixed[other]] = [mixed[other] as T, mixed[at] as T];
  }
  return mixed;
}
