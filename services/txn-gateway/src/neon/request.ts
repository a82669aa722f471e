// From a body and headers of the wire to a transaction that is accepted by the rules of every other
// one.
import { HighwaterError, type TransactionRequest, type TxnId } from "@highwater/protocol";
import { type Accepted, acceptRequest, type RequestRules } from "../txn/request.ts";
import { parseExactly } from "./exact-json.ts";
import {
  batchOptionsOf,
  DEFAULT_ISOLATION,
  type Format,
  formatOf,
  invalid,
  type RequestHeaders,
  wishesOf,
} from "./headers.ts";
import { paramText } from "./params.ts";

export interface Asked {
  readonly accepted: Accepted;
  readonly shape: AnswerShape;
  /** Headers that the answer repeats. */
  readonly echo: Readonly<Record<string, string>>;
}

export interface AnswerShape {
  readonly isBatch: boolean;
  /** Of each query. */
  readonly formats: readonly Format[];
}

export interface NeonRules {
  readonly rules: RequestRules;
  readonly newId: () => TxnId;
}

interface Query {
  readonly sql: string;
  readonly params: (string | null)[];
  readonly arrayMode: boolean | undefined;
}

/**
 * `mayWrite`: false for a credential that may only read; its transactions are read-only without
 * saying so.
 */
export interface Asking {
  readonly headers: RequestHeaders;
  /** The body's text, whatever content type it came under: the driver says text/plain. */
  readonly body: unknown;
  readonly mayWrite: boolean;
}

/** Throws `invalid_request` with every fault, `invalid_id` or `unknown_level`. */
export function readRequest({ headers, body, mayWrite }: Asking, { rules, newId }: NeonRules): Asked {
  const { isBatch, queries } = queriesOf(body);
  const { readOnly: wishesReadOnly = false, id = newId(), ...acknowledgement } = wishesOf(headers);
  const execution = isBatch
    ? batchOptionsOf(headers)
    : { isolation: DEFAULT_ISOLATION, readOnly: false, deferrable: false, echo: {} };
  const readOnly = execution.readOnly || wishesReadOnly || !mayWrite;
  const request: TransactionRequest = {
    id,
    statements: queries.map(({ sql, params }) => ({ sql, params })),
    isolation: execution.isolation,
    readOnly,
    deferrable: execution.deferrable,
    ...acknowledgement,
  };
  const format = formatOf(headers);
  return {
    accepted: { ...accept(request, rules, isBatch), fieldDetails: true },
    shape: {
      isBatch,
      formats: queries.map(({ arrayMode = format.arrayMode }) => ({ ...format, arrayMode })),
    },
    echo: execution.echo,
  };
}

/**
 * The rules are those of every transaction; faults that they find are reported in the form of this
 * wire.
 */
function accept(request: TransactionRequest, rules: RequestRules, isBatch: boolean): Accepted {
  try {
    return acceptRequest(request, rules);
  } catch (cause) {
    if (!(cause instanceof HighwaterError) || cause.details.fields === undefined) throw cause;
    throw invalid(cause.details.fields.map((fault) => inWords(fault, isBatch)));
  }
}

function inWords(fault: string, isBatch: boolean): string {
  return fault
    .replace(/^\/maxWaitMs/, "highwater-max-wait-ms")
    .replace(/^\/statements\/([0-9]+)\/sql/, isBatch ? "/queries/$1/query" : "/query")
    .replace(/^\/statements\/([0-9]+)/, isBatch ? "/queries/$1" : "")
    .replace(/^\/statements/, "/queries");
}

function queriesOf(body: unknown): { isBatch: boolean; queries: Query[] } {
  const parsed = parseBody(body);
  const faults: string[] = [];
  // As the wire has it, a body with both is a single query.
  const isBatch = isObject(parsed) && !("query" in parsed) && Array.isArray(parsed["queries"]);
  const queries = isBatch
    ? (parsed["queries"] as unknown[]).map((query, index) =>
        readQuery(query, `/queries/${String(index)}`, faults),
      )
    : [readQuery(parsed, "", faults)];
  if (faults.length > 0) throw invalid(faults.slice(0, MAX_FAULTS));
  return { isBatch, queries };
}

const MAX_FAULTS = 20;

function parseBody(body: unknown): unknown {
  if (typeof body !== "string" || body === "") throw invalid(["the body is empty"]);
  try {
    return parseExactly(body);
  } catch (cause) {
    // The parser's own message would quote the body, which may be confidential.
    throw new HighwaterError("invalid_request", { detail: "The body is not JSON." }, { cause });
  }
}

/** Unknown fields are ignored, as by the wire's inventor. */
function readQuery(value: unknown, path: string, faults: string[]): Query {
  const none: Query = { sql: "", params: [], arrayMode: undefined };
  if (!isObject(value)) {
    faults.push(`${path === "" ? "/" : path}: must be an object with query or queries`);
    return none;
  }
  const { query, params, arrayMode } = value;
  const before = faults.length;
  if (typeof query !== "string")
    faults.push(query === undefined ? `${path}/query: is missing` : `${path}/query: must be a string`);
  if (params !== undefined && !Array.isArray(params)) faults.push(`${path}/params: must be an array`);
  if (arrayMode !== undefined && arrayMode !== null && typeof arrayMode !== "boolean")
    faults.push(`${path}/arrayMode: must be true or false`);
  const texts = faults.length > before ? [] : paramTexts((params ?? []) as unknown[]);
  if (texts === null) faults.push(`${path}/params: nested too deeply`);
  if (faults.length > before) return none;
  return {
    sql: query as string,
    params: texts ?? [],
    arrayMode: typeof arrayMode === "boolean" ? arrayMode : undefined,
  };
}

/** Null when there is no text, because writing it takes more stack than there is. */
function paramTexts(params: readonly unknown[]): (string | null)[] | null {
  try {
    return params.map(paramText);
  } catch (cause) {
    if (cause instanceof RangeError) return null;
    throw cause;
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
