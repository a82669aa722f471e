// What Drizzle's columns expect of a driver: PostgreSQL's text if they decode it themselves, and
// the values of node-postgres for other types.
import { Column, is } from "drizzle-orm";
import { decodeValue, type TypeDecoders } from "../../index.ts";

/** A selected column of a result: a field of a list, or an expression. */
export interface SelectedField {
  readonly path: string[];
  readonly field: unknown;
}
/** Also what is cached, so it can be written as JSON. */
export interface RawResult {
  readonly command: string;
  readonly rowCount: number;
  readonly fields: readonly { readonly name: string; readonly oid: number }[];
  readonly values: readonly (readonly (string | null)[])[];
}

const asText = (text: string): string => text;

export class Values {
  readonly #driver: TypeDecoders;
  readonly #json: TypeDecoders;

  constructor(types: Exclude<TypeDecoders, "raw"> = {}) {
    // int8 as all Drizzle drivers return it; instants as text, because the columns create the
    // dates.
    this.#driver = { 20: asText, 1184: asText, ...types };
    // A JSON column parses text. It would parse a value again that is already parsed and is itself
    // text.
    this.#json = { 114: asText, 3802: asText, ...this.#driver };
  }

  /** Returns rows by position, for Drizzle to map. */
  arrays({ fields, values }: RawResult, selected?: readonly SelectedField[]): unknown[][] {
    const columns = fields.map(({ oid }, at) => ({
      oid,
      types: isJsonColumn(selected?.[at]?.field) ? this.#json : this.#driver,
    }));
    return values.map((row) => columns.map(({ oid, types }, at) => decodeValue(row[at] ?? null, oid, types)));
  }

  /** Returns rows by name, for `db.execute`. */
  objects({ fields, values }: RawResult): Record<string, unknown>[] {
    return values.map((row) =>
      Object.fromEntries(
        fields.map(({ name, oid }, at) => [name, decodeValue(row[at] ?? null, oid, this.#driver)]),
      ),
    );
  }
}

/** Whether the field is a JSON column, or a list of JSON of any depth. */
function isJsonColumn(field: unknown): boolean {
  if (!is(field, Column)) return false;
  const { columnType, baseColumn } = field as Column & { readonly baseColumn?: unknown };
  return columnType === "PgJson" || columnType === "PgJsonb" || isJsonColumn(baseColumn);
}
