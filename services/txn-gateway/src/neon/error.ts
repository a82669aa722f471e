// Errors in the wire's shape: what the driver puts on its NeonDbError, and under `highwater` all
// that this service knows.
import {
  type ErrorCode,
  ERRORS,
  type Evidence,
  HighwaterError,
  type Outcome,
  type Retry,
} from "@highwater/protocol";
import { RETRY_MS } from "../retry.ts";
import { type TransactionPart } from "./answer.ts";

/** The driver reads these from an answer of status 400, and nothing else. */
const DATABASE_FIELDS = [
  "detail",
  "hint",
  "position",
  "internalPosition",
  "internalQuery",
  "where",
  "table",
  "column",
  "schema",
  "dataType",
  "constraint",
  "file",
  "line",
  "routine",
] as const;

type DatabaseFields = Readonly<Record<(typeof DATABASE_FIELDS)[number], string | null>>;

export interface NeonError extends DatabaseFields {
  readonly message: string;
  /** SQLSTATE: the database's, or the nearest to what this service has to say. */
  readonly code: string | null;
  readonly severity: string;
  readonly highwater: {
    /** Null: no error of the catalogue, as in the answer to a replay. */
    readonly code: ErrorCode | null;
    readonly outcome: Outcome;
    readonly retry: Retry;
    readonly transactionId: string | null;
    /** Index of the query at fault, from 0. */
    readonly query: number | null;
    readonly retryAfterMs: number | null;
    readonly fields: readonly string[] | null;
    readonly limit: { readonly name: string; readonly value: number } | null;
    /** What a refusal rests on. */
    readonly evidence: Evidence | null;
  };
  /** Present when the transaction has committed all the same. */
  readonly transaction?: TransactionPart;
}

export interface NeonErrorResponse {
  readonly status: number;
  readonly body: NeonError;
}

/** For programs that know only PostgreSQL. */
const SQLSTATE: Partial<Record<ErrorCode, string>> = {
  invalid_request: "08P01",
  transaction_control: "0A000",
  unauthenticated: "28000",
  forbidden: "42501",
  rate_limited: "53400",
  concurrency_limited: "53400",
  body_too_large: "54000",
  result_too_large: "54000",
  serialization_failure: "40001",
  refusal_unconfirmed: "40001",
  transaction_aborted: "40000",
  transaction_lost: "40000",
  overloaded: "53300",
  exposure_limit: "53400",
  epoch_changed: "57P03",
  primary_unavailable: "57P03",
  authentication_unavailable: "57P03",
  commit_unconfirmed: "08007",
  internal: "XX000",
};

/** Kept as they are: nothing was applied, and proxies and clients know what to do about them. */
const PLAIN_STATUSES: ReadonlySet<number> = new Set([413, 429, 499, 503]);
const HINTS: Partial<Record<ErrorCode, string>> = {
  transaction_control: "Send the statements of one transaction together, in one batch.",
  unauthenticated:
    "The credential is an API key or token, given as authToken or else as the password of the connection string.",
};

/** `transactionId`: of the transaction that was asked for, when the error itself does not say. */
export function neonError(error: HighwaterError, transactionId: string | null): NeonErrorResponse {
  const { code, details, outcome } = error;
  const { retry } = ERRORS[code];
  const id = details.transactionId ?? transactionId;
  const database = databaseFields(error);
  const waits = retry === "wait" || details.retryAfterMs !== undefined;
  return {
    status: statusOf(error),
    body: {
      ...database.fields,
      hint: database.fields.hint ?? hintOf(error, id),
      message: error.message,
      code: details.sqlstate ?? SQLSTATE[code] ?? null,
      severity: database.severity ?? "ERROR",
      constraint: database.fields.constraint ?? details.constraint ?? null,
      highwater: {
        code,
        outcome,
        retry,
        transactionId: id,
        query: details.statement ?? null,
        retryAfterMs: waits ? (details.retryAfterMs ?? RETRY_MS.unsaid) : null,
        fields: details.fields ?? null,
        limit: details.limit ?? null,
        evidence: details.evidence ?? null,
      },
    },
  };
}

/**
 * The transaction has committed, but its rows cannot be answered: they are over a limit, or it ran
 * under this id before and they are not kept. To answer fewer rows than there are would be a wrong
 * answer, which this wire has no word for.
 */
export function rowsMissing(
  why: "replayed" | "truncated",
  transaction: TransactionPart,
  query: number | null,
): NeonErrorResponse {
  const message =
    why === "replayed"
      ? "The transaction had already committed. Nothing was run again, and results are not kept."
      : "The transaction committed, but a result exceeds a limit of the service and cannot be returned.";
  const { body } = neonError(
    new HighwaterError("result_too_large", { detail: message, outcome: "applied" }),
    transaction.id,
  );
  const code = why === "replayed" ? null : "result_too_large";
  return {
    status: 400,
    body: {
      ...body,
      code: why === "replayed" ? null : body.code,
      highwater: { ...body.highwater, code, query },
      transaction,
    },
  };
}

/**
 * The driver gives a program only the fields of a 400, so that is what everything becomes that a
 * program has to decide about. An unknown outcome is one of these also because a 503 would be
 * repeated by proxies, under a new id.
 */
function statusOf({ code, outcome }: HighwaterError): number {
  const { status } = ERRORS[code];
  if (status === 500) return status;
  return outcome === "not_applied" && PLAIN_STATUSES.has(status) ? status : 400;
}

function hintOf(error: HighwaterError, transactionId: string | null): string | null {
  if (ERRORS[error.code].retry !== "resolve_outcome" || transactionId === null)
    return HINTS[error.code] ?? null;
  return `Ask GET /v1/transactions/${transactionId} for its outcome before you run it again.`;
}

interface Found {
  readonly severity: string | null;
  readonly fields: DatabaseFields;
}

/**
 * Of a statement's own error everything the server said; of other causes nothing, which may reveal
 * internals.
 */
function databaseFields({ cause, details }: HighwaterError): Found {
  const said = details.sqlstate !== undefined && cause instanceof Error ? cause : {};
  const read = (name: string): string | null => {
    const value = (said as Readonly<Record<string, unknown>>)[name];
    return typeof value === "string" ? value : null;
  };
  const fields = Object.fromEntries(DATABASE_FIELDS.map((name) => [name, read(name)]));
  return { severity: read("severity"), fields: fields as DatabaseFields };
}
