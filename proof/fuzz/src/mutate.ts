// Makes new inputs from old ones: changes, cuts, doubles and crosses bytes, and changes JSON by its
// structure.
import { type Random } from "./random.ts";

export interface Material {
  readonly random: Random;
  readonly words: readonly (string | Uint8Array)[];
  /** Another input to cross with. */
  readonly other: Buffer;
  readonly maxBytes: number;
}

const TEXTS = [
  ...[
    "",
    "0",
    "-1",
    "1",
    "00",
    "null",
    "true",
    "NaN",
    "\u0000",
    "\ud800",
    "\u2028",
    "é",
    "💧",
    "%",
    "%zz",
    "'",
  ],
  ...['"', "\\", "{}", "[]", "{", "}", ",", ":", ";", "/", ".", "..", "@", "$1", "--", "/*", "\r\n", "\n\n"],
  ...["__proto__", "constructor", "toString", "hasOwnProperty", "9007199254740993", "18446744073709551616"],
  ...["9223372036854775808", "-9223372036854775809", "1e400", "1e-400", "0x10", "Infinity"],
  ...["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-7fff-bfff-ffffffffffff", "A".repeat(300)],
];
/** As they are written in JSON. */
const VALUES = [
  ...[
    "null",
    "true",
    "false",
    "0",
    "-0",
    "-1",
    "1.5",
    "1e400",
    "9007199254740993",
    "2147483648",
    '""',
    "[]",
    "{}",
  ],
  ...[
    "[null]",
    "[[]]",
    '{"a":1}',
    '{"__proto__":{"a":1}}',
    '"\\u0000"',
    '"\\ud800"',
    `"${"x".repeat(5_000)}"`,
  ],
  ...['{"then":1}', '{"toJSON":1}', '{"length":4294967295}', `${"[".repeat(200)}${"]".repeat(200)}`],
];
const BYTES = [0, 1, 0x0a, 0x0d, 0x20, 0x22, 0x2f, 0x30, 0x39, 0x5c, 0x7b, 0x7f, 0x80, 0xc3, 0xed, 0xff];

export function mutate(input: Buffer, material: Material): Buffer {
  const { random, maxBytes } = material;
  let bytes = input;
  for (let times = 1 + random.below(random.chance(0.2) ? 12 : 3); times > 0; times--) {
    const changed = random.chance(0.6) ? mutateJson(bytes, material) : null;
    bytes = changed ?? mutateBytes(bytes, material);
  }
  return bytes.subarray(0, maxBytes);
}

function mutateBytes(input: Buffer, { random, words, other }: Material): Buffer {
  const at = random.below(input.length + 1);
  const length = random.below(Math.min(64, input.length - at) + 1);
  const insert = (what: Buffer, over = 0): Buffer =>
    Buffer.concat([input.subarray(0, at), what, input.subarray(at + over)]);
  switch (random.below(9)) {
    case 0: {
      const copy = Buffer.from(input);
      if (at < copy.length) copy[at] = (copy[at] ?? 0) ^ (1 << random.below(8));
      return copy;
    }
    case 1: {
      const copy = Buffer.from(input);
      if (at < copy.length) copy[at] = random.chance(0.5) ? random.pick(BYTES) : random.below(256);
      return copy;
    }
    case 2:
      return insert(Buffer.alloc(0), length);
    case 3:
      return insert(Buffer.from([random.below(256)]));
    case 4:
      return insert(input.subarray(at, at + length));
    case 5:
      return insert(Buffer.from(random.pick(words.length > 0 && random.chance(0.7) ? words : TEXTS)), length);
    case 6: {
      const from = random.below(other.length + 1);
      return insert(other.subarray(from, from + random.below(64)), random.chance(0.5) ? length : 0);
    }
    case 7:
      return input.subarray(0, at);
    default: {
      // A binary number, because parsers trust lengths in binary texts.
      const number = Buffer.alloc(random.pick([1, 2, 4]));
      const value = random.pick([0, 1, 4, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff]);
      for (let digit = 0; digit < number.length; digit++)
        number[digit] = Math.floor(value / 256 ** (number.length - 1 - digit)) % 256;
      return insert(number, number.length);
    }
  }
}

/** Marks a text that JSON.stringify would not write. */
const RAW = "\u0001raw\u0001";

/** Null where the input contains no JSON. A head with an empty line at its end may come first. */
function mutateJson(input: Buffer, material: Material): Buffer | null {
  const text = input.toString("utf8");
  const headEnd = text.indexOf("\n\n");
  const [head, body] = headEnd < 0 ? ["", text] : [text.slice(0, headEnd + 2), text.slice(headEnd + 2)];
  // Most other inputs show at once, without an exception.
  if (!/^\s*[[{]/.test(body)) return null;
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return null;
  }
  const raws: string[] = [];
  const changed = changeOne({ root: value }, material, raws);
  const written = JSON.stringify(changed) ?? "null";
  const all = written.replaceAll(
    /"\\u0001raw\\u0001(\d+)"/g,
    (_, index: string) => raws[Number(index)] ?? "0",
  );
  return Buffer.from(head + all);
}

type Holder = Record<string, unknown>;

function changeOne(holder: { root: unknown }, material: Material, raws: string[]): unknown {
  const { random, words } = material;
  const slots: { readonly in: Holder; readonly key: string }[] = [];
  const visit = (node: Holder, key: string): void => {
    slots.push({ in: node, key });
    const value = node[key];
    if (typeof value === "object" && value !== null && slots.length < 500)
      for (const inner of Object.keys(value)) visit(value as Holder, inner);
  };
  visit(holder, "root");
  const slot = random.pick(slots);
  const value = slot.in[slot.key];
  const raw = (text: string): string => `${RAW}${String(raws.push(text) - 1)}`;
  switch (random.below(7)) {
    case 0:
      if (Array.isArray(slot.in)) slot.in.splice(Number(slot.key), 1);
      else Reflect.deleteProperty(slot.in, slot.key);
      break;
    case 1:
      slot.in[slot.key] = raw(random.pick(VALUES));
      break;
    case 2:
      slot.in[slot.key] = Buffer.from(
        random.pick(words.length > 0 && random.chance(0.6) ? words : TEXTS),
      ).toString();
      break;
    case 3:
      if (typeof value === "object" && value !== null) {
        const name = random.chance(0.3) ? random.pick(TEXTS) : `field${String(random.below(4))}`;
        if (Array.isArray(value)) value.push(raw(random.pick(VALUES)));
        else Object.defineProperty(value, name, { value: raw(random.pick(VALUES)), enumerable: true });
      } else slot.in[slot.key] = raw(random.pick(VALUES));
      break;
    case 4: {
      const from = random.pick(slots);
      // Copies it: a tree that contains itself could not be written.
      slot.in[slot.key] = JSON.parse(JSON.stringify(from.in[from.key] ?? null)) as unknown;
      break;
    }
    case 5:
      if (Array.isArray(value)) for (let n = random.below(40); n > 0; n--) value.push(value[0] ?? null);
      else slot.in[slot.key] = [value];
      break;
    default: {
      const text = typeof value === "string" ? value : JSON.stringify(value ?? null);
      const bytes = mutateBytes(Buffer.from(text), material);
      slot.in[slot.key] =
        typeof value === "number"
          ? raw(/^-?\d+$/.test(bytes.toString()) ? bytes.toString() : "1")
          : bytes.toString("utf8");
    }
  }
  return holder.root;
}
