// Decodes PostgreSQL text to JavaScript values by type OID. int8 and numeric never pass through a
// float.
import { type StatementResult as WireResult } from "./wire.ts";

/** A row as an object, by column name. */
export type Row = Record<string, unknown>;

/** The result of one statement. */
export interface StatementResult<R = Row> {
  /** Command tag without the count, as the service returns it: `SELECT`, `UPDATE`, ... */
  readonly command: string;
  /** Number of rows returned or changed, as PostgreSQL counts them. */
  readonly rowCount: number;
  /** Columns in order, each with its name and the OID of its type. */
  readonly fields: readonly { readonly name: string; readonly oid: number }[];
  /**
   * Decoded rows by column name. Of columns with the same name, only the last; `values` has all.
   */
  readonly rows: readonly R[];
  /** PostgreSQL's text of each row, by column position. */
  readonly values: readonly (readonly (string | null)[])[];
  /** Whether rows were left out because of a limit of the service. */
  readonly truncated: boolean;
}

/** Converts a type's text. If it throws, the value stays text, as the transaction has committed. */
export type TypeDecoder = (text: string) => unknown;
/**
 * Decoders by type OID. They replace the built-in ones, also for array elements. With `raw`,
 * everything stays text.
 */
export type TypeDecoders = Readonly<Record<number, TypeDecoder>> | "raw";
/** @internal */
export type Decoder = (result: WireResult) => StatementResult;

const toNumber: TypeDecoder = Number;
const toJson: TypeDecoder = (text) => JSON.parse(text) as unknown;

/** Decoders of the types that do not stay text, by OID. */
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

/** Arrays whose elements do not stay text: OID of the array to OID of the elements. */
const ARRAYS: Record<number, number> = {
  1000: 16,
  1001: 17,
  1016: 20,
  1005: 21,
  1007: 23,
  1028: 26,
  199: 114,
  1021: 700,
  1022: 701,
  1185: 1184,
  3807: 3802,
};
/** Arrays of all other built-in types: each OID as its distance to the one before, in base 36. */
let arrayOid = 0;
for (const gap of (
  "3z 3k 9y m 1w 1k g 5v 1 3 2 1 1 1 1 1 1 1 2 1 1 8 7 6 1 22 1v 1 4 18 13 83 2 hq 6 1 1 1 1 ki 2 7i bq 1 1 2i z " +
  "3r 2 2 2 2 e 42 h 7 2n nj uv 1 1 1 2 2"
).split(" "))
  ARRAYS[(arrayOid += parseInt(gap, 36))] = 0;

/**
 * Decodes one value by the OID of its type. bool becomes boolean; int2, int4, oid, float4 and
 * float8 become number; int8 becomes bigint. json and jsonb are parsed. bytea becomes Uint8Array.
 * timestamptz becomes Date (milliseconds), and `infinity` the number. Arrays of these types and of
 * text become arrays. All other types stay text, including numeric, dates, timestamps, intervals
 * and ranges. Text that is not of its type stays text, too.
 *
 * @param text PostgreSQL's text. Null stays null.
 * @param oid OID of the type, as in `StatementResult.fields`.
 * @param types Decoders that replace the built-in ones.
 */
export function decodeValue(text: string | null, oid: number, types: TypeDecoders = {}): unknown {
  if (text === null || types === "raw") return text;
  try {
    const decoder = types[oid] ?? DECODERS[oid];
    if (decoder !== undefined) return decoder(text);
    const element = ARRAYS[oid];
    return element === undefined ? text : decodeArray(text, types[element] ?? DECODERS[element]);
  } catch {
    // The transaction has committed, which matters more than the decoded form of one value.
    return text;
  }
}

/**
 * Parses the text of a PostgreSQL array, of any depth, into arrays. Bounds that do not begin at 1
 * are dropped. Other text throws or gives a meaningless result.
 *
 * @param text Text as PostgreSQL writes it, such as `{1,NULL,"a b"}`.
 * @param decode Decoder of the elements that are not NULL. Default: they stay text.
 */
export function decodeArray(text: string, decode: TypeDecoder = (element) => element): unknown[] {
  // Bounds that do not begin at 1 come first: `[0:2]={1,2,3}`. The rest is JSON except for its
  // brackets and quotes.
  const body = text.slice(text.indexOf("{"));
  const json = body.replace(/[{}]|"((?:[^"\\]|\\.)*)"|[^{},"]+/gs, (part, quoted?: string) => {
    if (part === "{") return "[";
    if (part === "}") return "]";
    return part === "NULL" ? "null" : JSON.stringify(quoted?.replace(/\\(.)/gs, "$1") ?? part);
  });
  return JSON.parse(json, (_key, value: unknown) =>
    typeof value === "string" ? decode(value) : value,
  ) as unknown[];
}

function decodeBytes(text: string): unknown {
  if (!text.startsWith("\\x")) return text;
  return Uint8Array.from(text.slice(2).match(/../g) ?? [], (hex) => parseInt(hex, 16));
}

const INSTANT = /^(\d+)(-\d\d-\d\d) (\d\d:\d\d:\d\d)(\.\d+)?([+-]\d\d)(:\d\d)?:?(\d\d)?( BC)?$/;

/** Text that no Date can hold stays text: another date style, or a year beyond 275760. */
function decodeInstant(text: string): unknown {
  if (text.endsWith("infinity")) return Number(text.replace("i", "I"));
  const [, year, date = "", time = "", fraction = "", hours = "", minutes = ":00", seconds = "", era] =
    INSTANT.exec(text) ?? [];
  // There is no year 0: the year before 1 is 1 BC. Only six digits with a sign have room for all
  // years.
  const y = era ? 1 - Number(year) : Number(year);
  const digits = `${y < 0 ? "-" : "+"}${String(Math.abs(y)).padStart(6, "0")}`;
  const ms = Date.parse(`${digits}${date}T${time}${fraction.slice(0, 4)}${hours}${minutes}`);
  // Places once had their own times, to the second.
  const instant = new Date(ms - Number(`${hours.slice(0, 1)}${seconds}000`));
  return Number.isNaN(instant.getTime()) ? text : instant;
}

/** @internal */
export function decoderOf(types?: TypeDecoders): Decoder {
  return ({ rows, truncated = false, ...result }) => ({
    ...result,
    truncated,
    values: rows,
    // fromEntries, not assignment: a column may be called __proto__.
    rows: rows.map((row) =>
      Object.fromEntries(
        result.fields.map(({ name, oid }, i) => [name, decodeValue(row[i] ?? null, oid, types)]),
      ),
    ),
  });
}
