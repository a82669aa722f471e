// From the results of a transaction to the wire's answer, with the `transaction` that this service
// adds to it.
import { type StatementResult, type TransactionResponse } from "@highwater/protocol";
import { type FieldDetails } from "@highwater/store";
import { type Format } from "./headers.ts";
import { type AnswerShape } from "./request.ts";
import { decoderOf } from "./values.ts";

/** What the answer says of the transaction itself: everything but its results. */
export type TransactionPart = Omit<TransactionResponse, "results">;

interface QueryResult {
  readonly rowAsArray: boolean;
  readonly fields: readonly NeonField[];
  readonly rows: readonly unknown[];
  readonly command: string;
  /** Null for a command that counts no rows. */
  readonly rowCount: number | null;
}

interface NeonField {
  readonly name: string;
  readonly dataTypeID: number;
  readonly tableID: number;
  readonly columnID: number;
  readonly dataTypeSize: number;
  readonly dataTypeModifier: number;
  readonly format: "text";
}

export type NeonResponse = (QueryResult | { readonly results: readonly QueryResult[] }) & {
  readonly transaction: TransactionPart;
};

/** Commands whose tag ends with a number of rows (PostgreSQL's protocol, CommandComplete). */
const COUNTING: ReadonlySet<string> = new Set([
  "INSERT",
  "UPDATE",
  "DELETE",
  "MERGE",
  "SELECT",
  "FETCH",
  "MOVE",
  "COPY",
]);

export function transactionPart(response: TransactionResponse): TransactionPart {
  const { results: _results, ...transaction } = response;
  return transaction;
}

/** The response of a transaction that has its results. */
export function neonAnswer(
  response: TransactionResponse,
  results: readonly StatementResult[],
  { isBatch, formats }: AnswerShape,
): NeonResponse {
  const transaction = transactionPart(response);
  const written = results.map((result, index) =>
    queryResult(result, formats[index] ?? { rawText: true, arrayMode: true }),
  );
  const [first] = written;
  return isBatch || first === undefined ? { results: written, transaction } : { ...first, transaction };
}

function queryResult(result: StatementResult, format: Format): QueryResult {
  return {
    rowAsArray: format.arrayMode,
    fields: result.fields.map(neonField),
    rows: rowsAs(result, format),
    // Of "CREATE TABLE" the wire has only the first word.
    command: result.command.split(" ", 1)[0] ?? "",
    rowCount: COUNTING.has(result.command) ? result.rowCount : null,
  };
}

function neonField(field: StatementResult["fields"][number]): NeonField {
  const { name, oid } = field;
  const detailed = isDetailed(field) ? field : null;
  return {
    name,
    dataTypeID: oid,
    tableID: detailed?.tableOid ?? 0,
    columnID: detailed?.columnNumber ?? 0,
    dataTypeSize: detailed?.typeSize ?? -1,
    dataTypeModifier: detailed?.typeModifier ?? -1,
    format: "text",
  };
}

function isDetailed(field: StatementResult["fields"][number]): field is FieldDetails {
  return "tableOid" in field;
}

/** A row or an element of an array, decoded. */
const DECODED_BYTES = 32;
/** What an element of an array may have at least: itself and its comma. */
const ELEMENT_CHARS = 2;
const LARGE_TEXT_CHARS = 1_024;

/** A bound of the memory that decoding will take, as far as it is much. */
export function decodedBytes(results: readonly StatementResult[], { formats }: AnswerShape): number {
  let bytes = 0;
  for (const [index, { fields, rows }] of results.entries()) {
    const { rawText = true, arrayMode = true } = formats[index] ?? {};
    if (rawText && arrayMode) continue;
    bytes += rows.length * fields.length * DECODED_BYTES;
    const decoded = rawText
      ? []
      : [...fields.keys()].filter((at) => decoderOf(fields[at]?.oid ?? 0) !== null);
    for (const row of rows)
      for (const column of decoded) {
        const chars = row[column]?.length ?? 0;
        if (chars > LARGE_TEXT_CHARS) bytes += (chars / ELEMENT_CHARS) * DECODED_BYTES;
      }
  }
  return bytes;
}

function rowsAs({ fields, rows }: StatementResult, { rawText, arrayMode }: Format): readonly unknown[] {
  if (rawText && arrayMode) return rows;
  const decoders = fields.map(({ oid }) => (rawText ? null : decoderOf(oid)));
  const decoded = rows.map((row) =>
    row.map((text, column) => {
      const decode = decoders[column] ?? null;
      return text === null || decode === null ? text : decode(text);
    }),
  );
  if (arrayMode) return decoded;
  // fromEntries, not assignment: a column may be called __proto__. Of columns with one name the
  // last one stays.
  return decoded.map((row) => Object.fromEntries(fields.map(({ name }, column) => [name, row[column]])));
}
