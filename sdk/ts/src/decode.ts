// PostgreSQL text and type OIDs to JavaScript values. int8 and numeric never pass through a float.
import { type StatementResult as WireResult } from "./wire.ts";

export type Row = Record<string, unknown>;

/** The result of one statement. */
export interface StatementResult {
  /** Command tag without the count, as the service gives it: `SELECT`, `UPDATE`, ... */
  readonly command: string;
  readonly rowCount: number;
  readonly fields: readonly { readonly name: string; readonly oid: number }[];
  /** Decoded, by column name. Of columns with the same name the last one is here; `values` has them all. */
  readonly rows: readonly Row[];
  /** PostgreSQL text by column position, as it came. */
  readonly values: readonly (readonly (string | null)[])[];
  /** Rows were left out because of a limit of the service. */
  readonly truncated: boolean;
}

const OID = {
  bool: 16,
  int8: 20,
  int2: 21,
  int4: 23,
  oid: 26,
  json: 114,
  float4: 700,
  float8: 701,
  jsonb: 3802,
};

/**
 * One value by the OID of its type: bool to boolean; int2, int4, oid, float4 and float8 to number; int8 to bigint;
 * json and jsonb parsed; everything else, numeric and dates included, stays text, and so does what is none of its type.
 */
export function decodeValue(text: string | null, oid: number): unknown {
  if (text === null) return null;
  try {
    return decode(text, oid);
  } catch {
    // Its transaction has committed, and that is more important to know than what one value was meant to be.
    return text;
  }
}

function decode(text: string, oid: number): unknown {
  switch (oid) {
    case OID.bool:
      return text === "t";
    case OID.int2:
    case OID.int4:
    case OID.oid:
    case OID.float4:
    case OID.float8:
      return Number(text);
    case OID.int8:
      return BigInt(text);
    case OID.json:
    case OID.jsonb:
      return JSON.parse(text) as unknown;
    default:
      return text;
  }
}

export function decodeResult(result: WireResult): StatementResult {
  const { command, rowCount, fields, rows } = result;
  return {
    command,
    rowCount,
    fields,
    // fromEntries, not assignment: a column may be called __proto__.
    rows: rows.map((row) =>
      Object.fromEntries(fields.map((field, i) => [field.name, decodeValue(row[i] ?? null, field.oid)])),
    ),
    values: rows,
    truncated: result.truncated === true,
  };
}
