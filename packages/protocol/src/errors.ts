// The error catalogue: code -> HTTP status, what became of the transaction, and what the caller should do.
// Codes are API; titles may change. A code exists only where a caller would act differently.

/** What became of the transaction that the request was about. */
export type Outcome = "not_applied" | "applied" | "unknown";
/**
 * `never`: the request itself is wrong. `transaction`: run the whole body again, with a new id.
 * `resolve_outcome`: ask for the state (or send the same id again) first. `wait`: send the same again later.
 */
export type Retry = "never" | "transaction" | "resolve_outcome" | "wait";

export interface ErrorEntry {
  readonly status: number;
  readonly outcome: Outcome;
  readonly retry: Retry;
  readonly title: string;
}

const entry = (status: number, outcome: Outcome, retry: Retry, title: string): ErrorEntry => ({
  status,
  outcome,
  retry,
  title,
});

export const ERRORS = {
  invalid_request: entry(400, "not_applied", "never", "The request does not match its schema."),
  invalid_id: entry(400, "not_applied", "never", "The transaction id is not a UUIDv7."),
  invalid_token: entry(
    400,
    "not_applied",
    "never",
    "The token is malformed, or this deployment did not sign it.",
  ),
  unknown_level: entry(400, "not_applied", "never", "The level is not configured."),
  transaction_control: entry(
    400,
    "not_applied",
    "never",
    "A statement begins, ends or prepares a transaction; remove it, since the service does that.",
  ),
  id_out_of_window: entry(
    400,
    "not_applied",
    "transaction",
    "The time inside the id is outside the accepted window; use a new id.",
  ),
  id_expired: entry(410, "unknown", "never", "The id is too old: its receipt is no longer kept."),
  not_found: entry(404, "not_applied", "never", "The resource does not exist."),
  method_not_allowed: entry(
    405,
    "not_applied",
    "never",
    "The resource does not support this method; the header Allow lists its methods.",
  ),
  unauthenticated: entry(401, "not_applied", "never", "The request has no valid credential."),
  authentication_unavailable: entry(
    503,
    "not_applied",
    "wait",
    "The key store or JWKS cannot be read; retry.",
  ),
  forbidden: entry(403, "not_applied", "never", "The credential does not allow this."),
  rate_limited: entry(429, "not_applied", "wait", "This credential exceeded its request rate."),
  concurrency_limited: entry(429, "not_applied", "wait", "This credential reached its concurrency limit."),
  body_too_large: entry(413, "not_applied", "never", "The request body exceeds the size limit."),
  unsupported_media_type: entry(415, "not_applied", "never", "The body must be application/json."),
  statement_failed: entry(422, "not_applied", "never", "The database refused a statement."),
  constraint_violation: entry(409, "not_applied", "never", "A statement violates a constraint."),
  refusal_unconfirmed: entry(
    409,
    "not_applied",
    "transaction",
    "A statement was refused because of data that may still be lost, or was lost; run the whole body again with a new id.",
  ),
  serialization_failure: entry(
    409,
    "not_applied",
    "transaction",
    "The transaction conflicted with another; run the whole body again with a new id.",
  ),
  statement_timeout: entry(
    422,
    "not_applied",
    "never",
    "A statement exceeded a time limit and was cancelled.",
  ),
  cancelled: entry(
    499,
    "not_applied",
    "transaction",
    "The client disconnected before the commit, and the transaction was cancelled.",
  ),
  wrong_gateway: entry(421, "not_applied", "wait", "The open transaction is on another gateway."),
  transaction_in_progress: entry(409, "unknown", "wait", "A transaction with this id is still running."),
  transaction_aborted: entry(
    409,
    "not_applied",
    "transaction",
    "This id was settled as aborted; use a new id.",
  ),
  id_reused: entry(
    422,
    "not_applied",
    "transaction",
    "The id was used for another transaction; use a new id.",
  ),
  transaction_expired: entry(
    410,
    "not_applied",
    "transaction",
    "The open transaction exceeded a time limit and was rolled back.",
  ),
  transaction_not_open: entry(
    404,
    "not_applied",
    "transaction",
    "This gateway has no open transaction with this id.",
  ),
  gateway_lost: entry(
    503,
    "not_applied",
    "transaction",
    "The gateway of the open transaction is gone; run the whole body again with a new id.",
  ),
  out_of_sequence: entry(
    409,
    "not_applied",
    "never",
    "The call's number does not follow the last one; nothing was run.",
  ),
  result_too_large: entry(422, "not_applied", "never", "A result exceeds a limit of the service."),
  too_many_open: entry(503, "not_applied", "wait", "Too many transactions are open."),
  promise_broken: entry(
    409,
    "unknown",
    "never",
    "The transaction was durable at the level, and a failure discarded it: the promise is broken.",
  ),
  transaction_lost: entry(
    409,
    "not_applied",
    "transaction",
    "The transaction was committed, and a failure discarded it; use a new id.",
  ),
  epoch_changed: entry(503, "not_applied", "wait", "The store failed over during the request; retry."),
  primary_unavailable: entry(503, "not_applied", "wait", "No authoritative primary is reachable."),
  split_brain: entry(
    503,
    "not_applied",
    "wait",
    "Two primaries claim authority; writes stop until this is settled.",
  ),
  exposure_limit: entry(
    503,
    "not_applied",
    "wait",
    "Too many transactions are committed but not yet durable.",
  ),
  overloaded: entry(503, "not_applied", "wait", "The service has no capacity left; retry later."),
  commit_unconfirmed: entry(
    503,
    "unknown",
    "resolve_outcome",
    "The connection broke during COMMIT, and the outcome is not settled yet.",
  ),
  marks_unavailable: entry(503, "not_applied", "wait", "No mark has been observed yet."),
  webhook_url_refused: entry(
    422,
    "not_applied",
    "never",
    "Webhooks cannot be sent to this URL: its form, its port or an address of its host is not allowed.",
  ),
  webhook_limit: entry(409, "not_applied", "never", "The number of webhook endpoints is at its limit."),
  webhook_disabled: entry(409, "not_applied", "never", "The webhook endpoint is disabled; enable it first."),
  internal: entry(500, "unknown", "resolve_outcome", "The service failed and logged the error."),
} as const satisfies Record<string, ErrorEntry>;

export type ErrorCode = keyof typeof ERRORS;

export interface AtRisk {
  readonly transactions: number;
  /** Of log, as decimal text. */
  readonly bytes: string;
  /** Age of the oldest; null when there is none. */
  readonly oldestMs: number | null;
}

/** What a refusal rests on: everything that the statement could see. */
export interface Evidence {
  /** Of a fast transaction `committed`: whether it is durable nobody has waited for. */
  readonly state: "committed" | "durable" | "pending" | "lost";
  readonly token: string;
  readonly position: { readonly epoch: string; readonly offset: string };
  /** At which it is durable, or was waited for. */
  readonly level?: string | undefined;
}

export interface ProblemDetails {
  readonly detail?: string | undefined;
  readonly sqlstate?: string | undefined;
  /** Index of the statement at fault, from 0. */
  readonly statement?: number | undefined;
  readonly constraint?: string | undefined;
  readonly retryAfterMs?: number | undefined;
  readonly outcome?: Outcome | undefined;
  readonly fields?: readonly string[] | undefined;
  /** The limit that was met, by its name, and its value. */
  readonly limit?: { readonly name: string; readonly value: number } | undefined;
  /** Of `exposure_limit`: what is committed and not durable yet, of those that the limit counts. */
  readonly exposure?: AtRisk | undefined;
  readonly transactionId?: string | undefined;
  /** Of a statement that was refused, perhaps because of data. */
  readonly evidence?: Evidence | undefined;
  /** Of an interactive transaction: whether it is still open. */
  readonly open?: boolean | undefined;
}

/** RFC 9457 body of an error answer. */
export type Problem = ProblemDetails & {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly code: ErrorCode;
  readonly outcome: Outcome;
  readonly retry: Retry;
};

/** The error of every package of this project: a code of the catalogue, the outcome, and the native cause. */
export class HighwaterError extends Error {
  readonly code: ErrorCode;
  readonly outcome: Outcome;
  readonly details: ProblemDetails;

  constructor(code: ErrorCode, details: ProblemDetails = {}, options?: { cause?: unknown }) {
    super(details.detail ?? ERRORS[code].title, options);
    this.name = "HighwaterError";
    this.code = code;
    this.details = details;
    this.outcome = details.outcome ?? ERRORS[code].outcome;
  }

  toProblem(): Problem {
    const { status, title, retry } = ERRORS[this.code];
    return {
      type: `urn:highwater:error:${this.code}`,
      title,
      status,
      code: this.code,
      retry,
      ...this.details,
      outcome: this.outcome,
    };
  }
}
