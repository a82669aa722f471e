// What Drizzle's columns expect of a driver: PostgreSQL's text where they decode themselves, and what node-postgres makes of
// the other types.
import { Column, is } from "drizzle-orm";
import { decodeValue, type TypeDecoders } from "../../index.ts";

/** The columns of a result, as Drizzle selected them; a field of a list, or an expression. */
export interface SelectedField {
  readonly path: string[];
  readonly field: unknown;
}
/** What is cached, too: it can be written as JSON. */
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
    // int8 as all drivers of Drizzle give it, and instants as text, for the columns make the dates.
    this.#driver = { 20: asText, 1184: asText, ...types };
    // A column of JSON parses text; what is parsed already and is a text itself it would parse once more.
    this.#json = { 114: asText, 3802: asText, ...this.#driver };
  }

  /** Rows by position, for Drizzle to map. */
  arrays({ fields, values }: RawResult, selected?: readonly SelectedField[]): unknown[][] {
    const columns = fields.map(({ oid }, at) => ({
      oid,
      types: isJsonColumn(selected?.[at]?.field) ? this.#json : this.#driver,
    }));
    return values.map((row) => columns.map(({ oid, types }, at) => decodeValue(row[at] ?? null, oid, types)));
  }

  /** Rows by name, for `db.execute`. */
  objects({ fields, values }: RawResult): Record<string, unknown>[] {
    return values.map((row) =>
      Object.fromEntries(
        fields.map(({ name, oid }, at) => [name, decodeValue(row[at] ?? null, oid, this.#driver)]),
      ),
    );
  }
}

/** Also a list of JSON, of any depth. */
function isJsonColumn(field: unknown): boolean {
  if (!is(field, Column)) return false;
  const { columnType, baseColumn } = field as Column & { readonly baseColumn?: unknown };
  return columnType === "PgJson" || columnType === "PgJsonb" || isJsonColumn(baseColumn);
}
