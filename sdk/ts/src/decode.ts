// PostgreSQL text and type OIDs to JavaScript values. int8 and numeric never pass through a float.
import { type StatementResult as WireResult } from "./wire.ts";

export type Row = Record<string, unknown>;

/** The result of one statement. */
export interface StatementResult<R = Row> {
  /** Command tag without the count, as the service gives it: `SELECT`, `UPDATE`, ... */
  readonly command: string;
  readonly rowCount: number;
  readonly fields: readonly { readonly name: string; readonly oid: number }[];
  /** Decoded, by column name. Of columns with the same name the last one is here; `values` has them all. */
  readonly rows: readonly R[];
  /** PostgreSQL text by column position, as it came. */
  readonly values: readonly (readonly (string | null)[])[];
  /** Rows were left out because of a limit of the service. */
  readonly truncated: boolean;
}

/** What one type's text becomes. */
export type TypeDecoder = (text: string) => unknown;
/** Decoders by OID, in the place of the built-in ones, also for the elements of arrays. `raw`: everything stays text. */
export type TypeDecoders = Readonly<Record<number, TypeDecoder>> | "raw";
/** @internal */
export type Decoder = (result: WireResult) => StatementResult;

const toNumber: TypeDecoder = Number;
const toJson: TypeDecoder = (text) => JSON.parse(text) as unknown;

/** Types that do not stay text. */
const DECODERS: Readonly<Record<number, TypeDecoder>> = {
  16: (text) => text === "t",
  17: decodeBytes,
  20: BigInt,
  21: toNumber,
  23: toNumber,
  26: toNumber,
  114: toJson,
  700: toNumber,
  701: toNumber,
  1184: decodeInstant,
  3802: toJson,
};

/** OIDs of the arrays of built-in types, and after each the OID of its elements, where those do not stay text. */
const ARRAYS = new Map<number, number>();
for (const part of (
  "1000:16 1001:17 1016:20 1005:21 1007:23 1028:26 199:114 1021:700 1022:701 1185:1184 3807:3802 " +
  "143 271 629 651 719 775 791 1002 1003 1006 1008 1009 1010 1011 1012 1013 1014 1015 1017 1018 1019 1027 1034 1040 1041 1115 " +
  "1182 1183 1187 1231 1270 1561 1563 2201 2207 2208 2209 2210 2211 2949 2951 3221 3643 3644 3645 3735 3770 3905 3907 " +
  "3909 3911 3913 3927 4073 4090 4097 4192 5039 6150 6151 6152 6153 6155 6157"
).split(" ")) {
  const [array, element] = part.split(":");
  ARRAYS.set(Number(array), Number(element));
}

/**
 * One value by the OID of its type: bool to boolean; int2, int4, oid, float4 and float8 to number; int8 to bigint;
 * json and jsonb parsed; bytea to Uint8Array; timestamptz to Date (milliseconds; `infinity` to the number); arrays of
 * these and of text to arrays. Everything else, numeric, dates, timestamps, intervals and ranges included, stays text,
 * and so does what is none of its type.
 */
export function decodeValue(text: string | null, oid: number, types: TypeDecoders = {}): unknown {
  if (text === null || types === "raw") return text;
  try {
    const decoder = types[oid] ?? DECODERS[oid];
    if (decoder !== undefined) return decoder(text);
    const element = ARRAYS.get(oid);
    return element === undefined ? text : decodeArray(text, types[element] ?? DECODERS[element]);
  } catch {
    // Its transaction has committed, and that is more important to know than what one value was meant to be.
    return text;
  }
}

/** An array's text, of any depth. `decode` is for elements that are not NULL; without it they stay text. */
export function decodeArray(text: string, decode: TypeDecoder = (element) => element): unknown[] {
  const stack: unknown[][] = [[]];
  // Bounds that do not begin at 1 stand in front: `[0:2]={1,2,3}`.
  const body = text.slice(text.indexOf("{"));
  for (const [part, quoted, plain] of body.matchAll(/[{}]|"((?:[^"\\]|\\.)*)"|([^{},"]+)/gs)) {
    if (part === "{") stack.push([]);
    else if (part === "}") {
      const done = stack.pop();
      stack.at(-1)?.push(done);
    } else if (plain === "NULL") stack.at(-1)?.push(null);
    else stack.at(-1)?.push(decode(plain ?? (quoted ?? "").replace(/\\(.)/gs, "$1")));
  }
  return stack[0]?.[0] as unknown[];
}

function decodeBytes(text: string): unknown {
  if (!text.startsWith("\\x")) return text;
  return Uint8Array.from(text.slice(2).match(/../g) ?? [], (hex) => Number.parseInt(hex, 16));
}

const INSTANT = /^(\d+)-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(\.\d+)?([+-])(\d\d):?(\d\d)?:?(\d\d)?( BC)?$/;

/** What no Date can hold stays text: a date style of the session's own, or a year beyond the year 275760. */
function decodeInstant(text: string): unknown {
  if (text.endsWith("infinity")) return Number(text.replace("i", "I"));
  const parts = INSTANT.exec(text);
  if (parts === null) return text;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = parts.slice(1, 7).map(Number);
  const [offsetHours = 0, offsetMinutes = 0, offsetSeconds = 0] = parts
    .slice(9, 12)
    .map((part) => Number(part ?? 0));
  const offset = (offsetHours * 60 + offsetMinutes) * 60 + offsetSeconds;
  const date = new Date(0);
  date.setUTCFullYear(parts[12] === undefined ? year : 1 - year, month - 1, day);
  const inDay = (hour * 60 + minute) * 60 + second - (parts[8] === "-" ? -offset : offset);
  const at = date.getTime() + inDay * 1_000 + Number((parts[7] ?? "").slice(1, 4).padEnd(3, "0"));
  return Number.isNaN(new Date(at).getTime()) ? text : new Date(at);
}

/** @internal */
export function decoderOf(types?: TypeDecoders): Decoder {
  return ({ command, rowCount, fields, rows, truncated }) => ({
    ...{ command, rowCount, fields, values: rows, truncated: truncated === true },
    // fromEntries, not assignment: a column may be called __proto__.
    rows: rows.map((row) =>
      Object.fromEntries(fields.map(({ name, oid }, i) => [name, decodeValue(row[i] ?? null, oid, types)])),
    ),
  });
}
