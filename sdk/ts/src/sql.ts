// The `sql` template tag: text with $1, $2, ... and the values beside it, never inside it. Owns the
// conversion of JavaScript values to parameters; `decode.ts` decodes results.
import { type Row, type StatementResult } from "./decode.ts";
import { failure } from "./errors.ts";
import { hexOf } from "./ids.ts";
import { type Param, type Statement } from "./wire.ts";

/** A value that a template's `${}` accepts, besides another fragment. */
export type SqlValue =
  | string
  | number
  | bigint
  | boolean
  | null
  | Date
  | Uint8Array
  | readonly SqlValue[]
  | { readonly [key: string]: unknown };

/** Text of the statement, or a parameter. */
type Piece = string | { readonly param: Param };

/**
 * A piece of SQL with its parameters, made by `sql`. It is immutable and can be nested in another
 * one. `R` is the type of the rows that it returns, if the template names it.
 *
 * @example
 * ```ts
 * const condition = sql`balance >= ${10}`;
 * const query = sql`SELECT id FROM account WHERE ${condition} AND id = ${1}`;
 * // SELECT id FROM account WHERE balance >= $1 AND id = $2 [ 10, 1 ]
 * console.log(query.text, query.params);
 * ```
 */
// oxlint-disable-next-line typescript/no-explicit-any -- a statement of unknown rows fits everywhere
export class Sql<R = any> {
  /** For the compiler alone. */
  declare protected readonly row?: R;
  /** @internal */
  declare readonly pieces: readonly Piece[];

  /** @internal */
  constructor(pieces: readonly Piece[]) {
    this.pieces = pieces;
  }

  /** Text of the statement, with parameters numbered from $1. */
  get text(): string {
    return this.toStatement().sql;
  }

  /** Parameters in the order of their numbers. */
  get params(): readonly Param[] {
    return this.toStatement().params ?? [];
  }

  /** Returns the statement in wire format. */
  toStatement(): Statement {
    const params: Param[] = [];
    let sql = "";
    let wasParam = false;
    for (const piece of this.pieces) {
      const isParam = typeof piece === "object";
      const text = isParam ? `$${params.push(piece.param)}` : piece;
      if (text === "") continue;
      // "LIMIT$1" would be an identifier, and "$1" followed by "0" another parameter.
      if ((isParam || wasParam) && WORD.test(sql.slice(-1) + text.slice(0, 1))) sql += " ";
      sql += text;
      wasParam = isParam;
    }
    return withParams(sql, params);
  }
}

/** Two characters that PostgreSQL could take for parts of one identifier or number. */
const WORD = /[\w$\u0080-\uffff]{2}/;

function withParams(sql: string, params: Param[]): Statement {
  return params.length === 0 ? { sql } : { sql, params };
}

/**
 * @param strings Text of the template.
 * @param values Values, which become parameters, and fragments, which are inserted.
 */
// oxlint-disable-next-line typescript/no-explicit-any -- as above
function tag<R = any>(strings: TemplateStringsArray, ...values: readonly (SqlValue | Sql)[]): Sql<R> {
  return new Sql(
    strings.flatMap((text, index) => [
      ...(index === 0 ? [] : piecesOf(values[index - 1] as SqlValue | Sql, index)),
      text,
    ]),
  );
}

function piecesOf(item: SqlValue | Sql, number: number): readonly Piece[] {
  return item instanceof Sql ? item.pieces : [{ param: toParam(item, number) }];
}

/**
 * Inserts text into the statement as it is. Never pass text that a user typed.
 *
 * @param text SQL text.
 */
function raw(text: string): Sql {
  return new Sql([text]);
}

/**
 * Quotes an identifier. Several parts are joined with dots: `sql.ident("public", "account")`.
 * Errors: `invalid_identifier` if there is no part, or a part is empty or contains a NUL character.
 *
 * @param parts Names as they are in the database, without quotes.
 */
function ident(...parts: readonly string[]): Sql {
  if (parts.length === 0 || parts.some((part) => part === "" || part.includes("\0")))
    throw failure("invalid_identifier", "a part is empty or has NUL");
  return raw(parts.map((part) => `"${part.replaceAll('"', '""')}"`).join("."));
}

/**
 * Joins fragments or values with a separator: `sql.join([1, 2, 3])` is `$1, $2, $3`.
 * Errors: `invalid_parameter`.
 *
 * @param items Fragments or values, any number. The fragment is empty if there are none.
 * @param separator Fragment between the items. Default: a comma and a space.
 */
function join(items: readonly (SqlValue | Sql)[], separator: Sql = raw(", ")): Sql {
  return new Sql(
    items.flatMap((item, index) => [...(index === 0 ? [] : separator.pieces), ...piecesOf(item, index + 1)]),
  );
}

/**
 * Passes a value as JSON text, for json and jsonb parameters. Only arrays need it, because
 * otherwise they become SQL arrays. A bigint inside becomes text.
 * Errors: `invalid_parameter` if JSON cannot represent the value.
 *
 * @param value Any value that `JSON.stringify` accepts.
 */
function json(value: unknown): Sql {
  return new Sql([{ param: jsonText(value) }]);
}

/**
 * Builds a statement from a template: values become parameters, and fragments made by `sql` are
 * inserted. A type argument names the rows that the statement returns.
 * Shape: string, number, boolean and null are passed unchanged; bigint and Date as text; Uint8Array
 * as `\x` hex; arrays as PostgreSQL array text; other objects as JSON text.
 * Errors: `invalid_parameter` for undefined, functions, symbols and invalid dates.
 *
 * @example
 * ```ts
 * const wanted = [1, 2, 3];
 * const table = sql.ident("public", "account");
 * const tx = await hw.transaction(
 *   sql`SELECT id FROM ${table} WHERE id IN (${sql.join(wanted)}) ORDER BY id`,
 * );
 * console.log(tx.rows); // [ { id: 1 }, { id: 2 }, { id: 3 } ]
 *
 * const count = sql<{ notes: bigint }>`SELECT count(*) AS notes FROM note`;
 * const both = await hw.transaction([sql`INSERT INTO note VALUES (${"hello"})`, count]);
 * console.log(both.rows[0]?.notes);
 * ```
 */
export const sql = Object.assign(tag, { raw, ident, join, json });

/**
 * Converts a value to wire format. `number` counts it among its neighbours, from 1, for the error.
 */
export function toParam(value: unknown, number: number): Param {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      // JSON has neither NaN, infinities nor a negative zero; PostgreSQL reads their names.
      if (Object.is(value, -0)) return "-0";
      return Number.isFinite(value) ? value : String(value);
    case "bigint":
      return value.toString();
    case "object":
      if (value === null) return null;
      if (value instanceof Date) return dateText(value);
      if (value instanceof Uint8Array) return `\\x${hexOf(value)}`;
      if (Array.isArray(value)) return arrayText(value);
      return jsonText(value);
    default:
      throw failure("invalid_parameter", `parameter $${number} is ${typeof value}: use null or a value`);
  }
}

function dateText(date: Date): string {
  if (Number.isNaN(date.getTime())) throw failure("invalid_parameter", "invalid Date");
  const year = date.getUTCFullYear();
  // The year before 1 is 1 BC: there is no year 0.
  const digits = String(year > 0 ? year : 1 - year).padStart(4, "0");
  const text = date.toISOString().replace(/^.\d+/, digits);
  return year > 0 ? text : `${text} BC`;
}

function jsonText(value: unknown): string {
  const text = JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === "bigint" ? inner.toString() : inner,
  ) as string | undefined;
  if (text === undefined) throw failure("invalid_parameter", "it has no JSON");
  return text;
}

function arrayText(items: readonly unknown[]): string {
  const elements = items.map((item, index) => {
    if (Array.isArray(item)) return arrayText(item);
    const param = toParam(item, index + 1);
    if (param === null) return "NULL";
    if (typeof param !== "string") return String(param);
    return `"${param.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
  });
  return `{${elements.join(",")}}`;
}

/** A statement: made by `sql`, or an object whose text has `$1`, `$2`, ... for its parameters. */
// oxlint-disable-next-line typescript/no-explicit-any -- as above
export type StatementInput<R = any> =
  | Sql<R>
  | { readonly sql: string; readonly params?: readonly SqlValue[] };

/** Rows of type `R`, or of any type if the statement names none. */
export type RowOf<R> = 0 extends 1 & R ? Row : R;
type RowOfStatement<S> = S extends Sql<infer R> ? RowOf<R> : Row;
/** Rows of the last one of the statements. */
export type LastRow<S extends readonly StatementInput[]> = S extends readonly [...unknown[], infer L]
  ? RowOfStatement<L>
  : RowOfStatement<S[number]>;
/** The results of the statements, in their order. */
export type ResultsOf<S extends readonly StatementInput[]> = {
  readonly [K in keyof S]: StatementResult<RowOfStatement<S[K]>>;
};

export function toStatement(input: StatementInput): Statement {
  if (input instanceof Sql) return input.toStatement();
  return withParams(
    input.sql,
    (input.params ?? []).map((value, index) => toParam(value, index + 1)),
  );
}
