// Values as the wire has them without Neon-Raw-Text-Output: what JSON can hold is decoded,
// everything else stays text.
import { parseArray } from "./array-text.ts";
import { parseExactly } from "./exact-json.ts";

const OID = { bool: 16, int2: 21, int4: 23, json: 114, float4: 700, float8: 701, jsonb: 3802 } as const;

/** Array types whose elements are decoded, and the type of these. */
const DECODED_ARRAYS: ReadonlyMap<number, number> = new Map([
  [199, OID.json],
  [1000, OID.bool],
  [1005, OID.int2],
  [1007, OID.int4],
  [1021, OID.float4],
  [1022, OID.float8],
  [3807, OID.jsonb],
]);

/**
 * The server's other own array types of base types, ranges and multiranges: lists of texts. Only
 * box[] (1020) is not here, because it separates its elements with semicolons. Types that users
 * have created stay text, arrays of them too.
 */
const TEXT_ARRAYS: ReadonlySet<number> = new Set([
  ...[
    143, 271, 629, 651, 719, 775, 791, 1001, 1002, 1003, 1006, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 1015,
  ],
  ...[
    1016, 1017, 1018, 1019, 1027, 1028, 1034, 1040, 1041, 1115, 1182, 1183, 1185, 1187, 1231, 1270, 1561,
    1563,
  ],
  ...[
    2201, 2207, 2208, 2209, 2210, 2211, 2949, 2951, 3221, 3643, 3644, 3645, 3735, 3770, 3905, 3907, 3909,
    3911,
  ],
  ...[3913, 3927, 4073, 4090, 4097, 4192, 5039, 6150, 6151, 6152, 6153, 6155, 6157],
]);

export const KNOWN_ARRAYS: ReadonlySet<number> = new Set([...TEXT_ARRAYS, ...DECODED_ARRAYS.keys()]);

/**
 * What is nested deeper could be parsed, perhaps, but not written: writing JSON takes the stack.
 */
const MAX_DEPTH = 500;

/** How the values of a column are decoded; null when they stay text. */
export function decoderOf(oid: number): ((text: string) => unknown) | null {
  const decode = strictDecoderOf(oid);
  if (decode === null) return null;
  // Its transaction has committed: what cannot be decoded stays text, and the answer is given all
  // the same.
  return (text) => {
    if (isDeep(text)) return text;
    try {
      return decode(text);
    } catch {
      return text;
    }
  };
}

/** More brackets are open at once than may be. Those inside of texts do not count. */
function isDeep(text: string): boolean {
  if (text.length <= 2 * MAX_DEPTH) return false;
  let depth = 0;
  let isQuoted = false;
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (char === '"') isQuoted = !isQuoted;
    else if (!isQuoted && (char === "[" || char === "{")) depth++;
    else if (!isQuoted && (char === "]" || char === "}")) depth--;
    else if (char === "\\") at++;
    if (depth > MAX_DEPTH) return true;
  }
  return false;
}

function strictDecoderOf(oid: number): ((text: string) => unknown) | null {
  const element = DECODED_ARRAYS.get(oid);
  if (element !== undefined) {
    const decode = decoderOf(element) ?? asText;
    return (text) => parseArray(text, decode);
  }
  if (TEXT_ARRAYS.has(oid)) return (text) => parseArray(text, asText);
  switch (oid) {
    case OID.bool:
      return (text) => text === "t";
    case OID.int2:
    case OID.int4:
      return Number;
    case OID.float4:
    case OID.float8:
      return float;
    case OID.json:
    case OID.jsonb:
      return parseExactly;
    default:
      return null;
  }
}

/** JSON has no infinities and no NaN: those stay text. */
function float(text: string): number | string {
  const value = Number(text);
  return Number.isFinite(value) ? value : text;
}

function asText(text: string): string {
  return text;
}
