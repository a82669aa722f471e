// The error catalogue: code -> HTTP status, what became of the transaction, and what the caller
// should do. `GET /errors/{code}` and docs/reference/errors.md show its texts. Codes are API; texts
// may change. A code exists only where a caller would act differently.
import { type Details } from "./problem-details.ts";

/** What became of the transaction that the request was about. */
export type Outcome = "not_applied" | "applied" | "unknown";
/**
 * `never`: the request itself is wrong. `transaction`: run the whole body again, with a new id.
 * `resolve_outcome`: ask for the state (or send the same id again) first. `wait`: send the same
 * again later.
 */
export type Retry = "never" | "transaction" | "resolve_outcome" | "wait";
export type ProblemDetails = Details & { readonly outcome?: Outcome | undefined };

interface Texts {
  readonly title: string;
  /** Which condition fails, by the names of the parameters and limits in it. */
  readonly cause: string;
  /** The next step. */
  readonly fix: string;
  /** What the example of a response has besides the fields that every response has. */
  readonly example?: ProblemDetails;
}

export interface ErrorEntry extends Required<Texts> {
  readonly status: number;
  readonly outcome: Outcome;
  readonly retry: Retry;
}

const entry = (status: number, outcome: Outcome, retry: Retry, texts: Texts): ErrorEntry => ({
  status,
  outcome,
  retry,
  example: {},
  ...texts,
});

const ABOUT = { transactionId: "01980f3e-6d2a-7c44-9b1d-3f6a2c8e5d70" };
const ABOUT_FIRST = { statement: 0, ...ABOUT };

export const ERRORS = {
  invalid_request: entry(400, "not_applied", "never", {
    title: "The request does not match its schema.",
    cause:
      "The body, a query parameter or a header breaks a rule of the call. `fields` lists every fault with its place and the rule. Bytes that are not an HTTP request, headers above 16 KiB and a request that takes longer than 60 s to arrive have this code too.",
    fix: "Correct everything that `fields` or `detail` names, then send the request again. The OpenAPI document of the service has the schemas.",
    example: {
      detail: "/statements: must not have fewer than 1 items",
      fields: ["/statements: must not have fewer than 1 items"],
    },
  }),
  invalid_id: entry(400, "not_applied", "never", {
    title: "The transaction id is not a UUIDv7.",
    cause: "The id of the transaction is not a UUID of version 7 in its usual form of 36 characters.",
    fix: "Create the id with a generator of UUIDv7, as the SDKs do, then send the request again.",
    example: { detail: "The id must be a UUID of version 7." },
  }),
  invalid_token: entry(400, "not_applied", "never", {
    title: "The token or ticket is malformed, or this deployment did not sign it.",
    cause:
      "The token in `after`, or the ticket, was cut or changed, comes from another deployment, or was signed with a key that has left HIGHWATER_DEPLOYMENT_KEYS.",
    fix: "Send the token or ticket exactly as a response returned it. Without `after` the read runs, but need not contain the transaction of the token.",
    example: { detail: "`after` is not a token of this deployment." },
  }),
  unknown_level: entry(400, "not_applied", "never", {
    title: "The level is not configured.",
    cause:
      "`level` names a level that HIGHWATER_TOPOLOGY does not have. `detail` lists the levels that it has.",
    fix: "Send one of the levels in `detail`, or leave `level` out to get the default.",
    example: { detail: 'The level "galaxy" is not configured; use one of disk, region, global.' },
  }),
  transaction_control: entry(400, "not_applied", "never", {
    title: "A statement begins, ends or prepares a transaction; remove it, since the service does that.",
    cause:
      "A statement begins, ends or prepares a transaction (BEGIN, START, COMMIT, END, ABORT, ROLLBACK, PREPARE TRANSACTION), or is COPY. `statement` is its index, from 0. Nothing ran.",
    fix: "Remove the statement. SAVEPOINT and ROLLBACK TO are allowed. End an interactive transaction with `commit` or `rollback`, and use INSERT or SELECT in place of COPY.",
    example: {
      detail: "Statement 0 starts with BEGIN; the service begins and ends the transaction itself.",
      ...ABOUT_FIRST,
    },
  }),
  id_out_of_window: entry(400, "not_applied", "transaction", {
    title: "The time inside the id is outside the accepted window; use a new id.",
    cause:
      "The time inside the id is ahead of the database server's clock by more than GATEWAY_ID_FUTURE_MS, or before the first id that the database accepts.",
    fix: "Set the clock of the client, then run the whole body again with a new id.",
    example: {
      detail: "The time inside the id is 900 s ahead of the server's clock; use a new id.",
      ...ABOUT,
    },
  }),
  id_expired: entry(410, "unknown", "never", {
    title: "The id is too old: its receipt is no longer kept.",
    cause:
      "The time inside the id is more than HIGHWATER_RETENTION_MS ago, or before the database was restored. The service has no receipts of that time, so it cannot know whether the transaction committed.",
    fix: "Look for the effect of the transaction in your data, or ask a tracker for the verdict on its token. Run the body with a new id only if the transaction did not commit.",
    example: {
      detail:
        "The id is older than the time for which receipts are kept, so the service cannot know whether it was used.",
      ...ABOUT,
    },
  }),
  not_found: entry(404, "not_applied", "never", {
    title: "The resource does not exist.",
    cause:
      "The service has no such path, or the caller has no webhook or delivery with the id in the path. A path with a slash at its end is another path.",
    fix: "Compare the path with the OpenAPI document of the service. `GET /v1/webhooks` lists the caller's webhooks, `GET /errors` all error codes.",
  }),
  method_not_allowed: entry(405, "not_applied", "never", {
    title: "The resource does not support this method; the header Allow lists its methods.",
    cause: "The path exists, but not with this method.",
    fix: "Send the request with a method that the header Allow lists.",
  }),
  unauthenticated: entry(401, "not_applied", "never", {
    title: "The request has no valid credential.",
    cause:
      "The request has no credential, or the service does not accept it: the API key or token is unknown, revoked, expired or malformed, or of a kind that GATEWAY_AUTH or TRACKER_AUTH does not list. `detail` says which.",
    fix: "Send `Authorization: Bearer` with a valid API key or JSON Web Token. An operator creates keys with `keys create`.",
    example: { detail: "This service accepts no API keys." },
  }),
  authentication_unavailable: entry(503, "not_applied", "wait", {
    title: "The key store or JWKS cannot be read; retry.",
    cause:
      "The service cannot check the credential now: it cannot read the API keys from the database or the issuer's key set (JWKS), or it is checking too many new tokens at once.",
    fix: "Send the same request again after Retry-After. If this lasts, an operator checks the service's connection to the primary (keys), or to GATEWAY_JWT_JWKS_URL or TRACKER_JWT_JWKS_URL (tokens).",
    example: { detail: "The key store cannot be read now; retry.", retryAfterMs: 1_000 },
  }),
  forbidden: entry(403, "not_applied", "never", {
    title: "The credential does not allow this.",
    cause:
      "The credential is valid, but lacks the scope that the call needs, belongs to another owner than the data, or has a database role that may not be used. A service without authentication also refuses pages of origins that it does not know. `detail` says which.",
    fix: "Use a credential with the scope, owner or role that `detail` names. For a page, an operator adds its origin to GATEWAY_CORS_ORIGINS or TRACKER_CORS_ORIGINS.",
    example: { detail: "The credential lacks the scope write." },
  }),
  rate_limited: entry(429, "not_applied", "wait", {
    title: "This credential exceeded its request rate.",
    cause:
      "The credential sent more requests per second than its limit allows (`keys create --rate`, else GATEWAY_RATE_PER_SECOND or TRACKER_RATE_PER_SECOND) or asked for the verdicts of more tokens than TRACKER_TOKENS_PER_SECOND_PER_KEY, or the address sent too many requests or refused credentials. `limit` has the name and value of the limit. Nothing ran.",
    fix: "Send the same request again after Retry-After, and spread the requests over time. An operator can raise the limit.",
    example: {
      detail: "key k7m2abcd exceeded its ratePerSecond of 200 (burst 200); retry later.",
      limit: { name: "ratePerSecond", value: 200 },
      retryAfterMs: 5,
    },
  }),
  concurrency_limited: entry(429, "not_applied", "wait", {
    title: "This credential reached its concurrency limit.",
    cause:
      "The credential has as many requests in flight (`keys create --concurrency`, else GATEWAY_CONCURRENCY or TRACKER_CONCURRENCY), open streams (TRACKER_MAX_STREAMS_PER_KEY, TRACKER_EVENT_STREAMS_PER_KEY), pages of events or awaited verdicts (TRACKER_MAX_WAITING_PER_KEY) as its limit allows. `limit` has the name and value of the limit. Nothing ran.",
    fix: "Wait until a request has ended, or close a stream, then send the same request again after Retry-After. An operator can raise the limit.",
    example: {
      detail: "key k7m2abcd has 50 requests in flight, its limit (concurrency); wait for one to end.",
      limit: { name: "concurrency", value: 50 },
      retryAfterMs: 100,
    },
  }),
  body_too_large: entry(413, "not_applied", "never", {
    title: "The request body exceeds the size limit.",
    cause:
      "The body of the request is larger than `bodyLimitBytes`: GATEWAY_BODY_LIMIT_BYTES or TRACKER_BODY_LIMIT_BYTES. Nothing ran.",
    fix: "Send less in one request, for example a batch in several parts. An operator can raise the setting, and the limit of the edge with it.",
    example: {
      detail: "The request body exceeds bodyLimitBytes (4194304).",
      limit: { name: "bodyLimitBytes", value: 4_194_304 },
    },
  }),
  unsupported_media_type: entry(415, "not_applied", "never", {
    title: "The body must be application/json.",
    cause: "The header Content-Type is not application/json, or the body is compressed (Content-Encoding).",
    fix: "Send uncompressed JSON in UTF-8, with the header `Content-Type: application/json`.",
    example: { detail: "The body must not be compressed (Content-Encoding)." },
  }),
  statement_failed: entry(422, "not_applied", "never", {
    title: "The database refused a statement.",
    cause:
      "The database refused a statement, for example for a syntax error, a table that does not exist or a right that the role lacks. `sqlstate` and `detail` are the database's, and `statement` is the index of the statement, from 0.",
    fix: "Correct the statement, or the rights of the role, then run the whole body again. The id is still unused. In an interactive transaction, go back to a savepoint or roll back.",
    example: { detail: 'syntax error at or near "SELEC"', sqlstate: "42601", ...ABOUT_FIRST },
  }),
  constraint_violation: entry(409, "not_applied", "never", {
    title: "A statement violates a constraint.",
    cause:
      "A statement breaks a constraint of a table. `constraint` is its name, `sqlstate` and `detail` are the database's, and `statement` is the index of the statement, from 0.",
    fix: "Change the values that the statement writes, then run the whole body again. The id is still unused. In an interactive transaction, go back to a savepoint or roll back.",
    example: {
      detail: 'duplicate key value violates unique constraint "account_pkey"',
      sqlstate: "23505",
      constraint: "account_pkey",
      ...ABOUT_FIRST,
    },
  }),
  refusal_unconfirmed: entry(409, "not_applied", "transaction", {
    title:
      "A statement was refused because of data that may still be lost, or was lost; run the whole body again with a new id.",
    cause:
      "A statement of a safe transaction failed, and the data that it failed on did not become durable at `level` within `maxWaitMs`, or a failover discarded it. Without that data the statement may succeed. `evidence` has the token of the data.",
    fix: "Run the whole body again with a new id. To know more first, ask a tracker for the verdict on `evidence.token`.",
    example: {
      detail:
        'The statement may have failed because of data that is not durable at region yet: duplicate key value violates unique constraint "account_pkey"',
      evidence: {
        state: "pending",
        token:
          "hw2_AAEBmA8-bSp8RJsdP2osjl1wfQ87HpwaSleKPVsPby-dEQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAwAAuGzh8So0P7x31sxV5J4GltY",
        position: { epoch: "7d0f3b1e-9c1a-4a57-8a3d-5b0f6f2f9d11", offset: "50331976" },
        level: "region",
      },
      retryAfterMs: 500,
      ...ABOUT_FIRST,
    },
  }),
  serialization_failure: entry(409, "not_applied", "transaction", {
    title: "The transaction conflicted with another; run the whole body again with a new id.",
    cause:
      "The database ended the transaction because it conflicts with another one (SQLSTATE 40001) or waits for it in a circle (40P01), or because the schema changed while it ran.",
    fix: "Run the whole body again with a new id, after a short random pause. The SDKs do this.",
    example: {
      detail: "could not serialize access due to concurrent update",
      sqlstate: "40001",
      ...ABOUT_FIRST,
    },
  }),
  statement_timeout: entry(422, "not_applied", "never", {
    title: "A statement exceeded a time limit and was cancelled.",
    cause:
      "A statement took longer than GATEWAY_STATEMENT_TIMEOUT_MS, waited for a lock longer than GATEWAY_LOCK_TIMEOUT_MS, or the transaction took longer than `totalTimeoutMs` (GATEWAY_TOTAL_TIMEOUT_MS). A key can have limits of its own.",
    fix: "Make the statement faster, do less in one transaction, or end the transaction that holds the lock. Then run the whole body again. An operator can raise the limit.",
    example: {
      detail: "The transaction took longer than totalTimeoutMs (60000 ms).",
      sqlstate: "57014",
      limit: { name: "totalTimeoutMs", value: 60_000 },
      ...ABOUT_FIRST,
    },
  }),
  cancelled: entry(499, "not_applied", "transaction", {
    title: "The client disconnected before the commit, and the transaction was cancelled.",
    cause:
      "The client closed its connection before the gateway sent COMMIT, so the gateway cancelled the statements and rolled back. Only logs and metrics show this code.",
    fix: "Run the whole body again with a new id. If the client gave up too early, raise its time limit.",
    example: { detail: "The client disconnected.", ...ABOUT },
  }),
  wrong_gateway: entry(421, "not_applied", "wait", {
    title: "The open transaction is on another gateway.",
    cause:
      "The call of an interactive transaction arrived at another gateway than the one that has it. The header Highwater-Session begins with the name of that gateway.",
    fix: "Send the call to the gateway that Highwater-Session names. Behind a proxy, an operator makes the proxy route by this header, as the edge does.",
    example: {
      detail: "Gateway gateway-1 has the transaction, and this is another one; send the call to gateway-1.",
      retryAfterMs: 100,
      ...ABOUT,
    },
  }),
  transaction_in_progress: entry(409, "unknown", "wait", {
    title: "A transaction with this id is still running.",
    cause: "A request with this id, or another call of this interactive transaction, is still running.",
    fix: "Send the same request again, with the same id, after Retry-After. Send the calls of an interactive transaction one at a time.",
    example: { ...ABOUT, retryAfterMs: 500 },
  }),
  transaction_aborted: entry(409, "not_applied", "transaction", {
    title: "This id was settled as aborted; use a new id.",
    cause:
      "The transaction ended without a commit, because of a failover, a lost database session or a shutdown of the gateway, and the id was settled: it can never commit.",
    fix: "Run the whole body again with a new id.",
    example: {
      detail: "The database session was lost, and with it everything that the transaction had done.",
      ...ABOUT,
    },
  }),
  id_reused: entry(422, "not_applied", "transaction", {
    title: "The id was used for another transaction; use a new id.",
    cause: "A transaction with other statements or another isolation has this id.",
    fix: "Run the whole body with a new id. Use an id again only to repeat the same request.",
    example: { ...ABOUT },
  }),
  transaction_expired: entry(410, "not_applied", "transaction", {
    title: "The open transaction exceeded a time limit and was rolled back.",
    cause:
      "The gateway rolled the transaction back: no call came for `idleTimeoutMs` (GATEWAY_IDLE_TIMEOUT_MS), or it was open for longer than `totalTimeoutMs` (GATEWAY_TOTAL_TIMEOUT_MS). A key can have limits of its own.",
    fix: "Run the whole body again with a new id, and send its calls without pauses, or send it in one request. An operator can raise the limit.",
    example: {
      detail: "The limit idleTimeoutMs is 10000 ms; the transaction was rolled back.",
      limit: { name: "idleTimeoutMs", value: 10_000 },
      open: false,
      ...ABOUT,
    },
  }),
  transaction_not_open: entry(404, "not_applied", "transaction", {
    title: "This gateway has no open transaction with this id.",
    cause:
      "The gateway has no open transaction for this id and header Highwater-Session: the header is from another `begin` or another key, or was changed.",
    fix: "Send Highwater-Session exactly as `begin` returned it, with the same key. Without the header, run the whole body again with a new id.",
    example: { ...ABOUT },
  }),
  gateway_lost: entry(503, "not_applied", "transaction", {
    title: "The gateway of the open transaction is gone; run the whole body again with a new id.",
    cause:
      "The gateway that had the open transaction has stopped or cannot be reached, so the database rolls the transaction back. The edge answers this to `statements`.",
    fix: "Run the whole body again with a new id.",
    example: { detail: "The gateway of the transaction is not reachable." },
  }),
  out_of_sequence: entry(409, "not_applied", "never", {
    title: "The call's number does not follow the last one; nothing was run.",
    cause:
      "`seq` is neither the number of the last call nor the next one, or the last call had another body under this number, or the transaction has ended. `open` says whether it is still open. The outcome is `applied` if it has committed.",
    fix: "Number the calls 1, 2, 3 and so on, and send one at a time. Repeat only the last call, with the same body.",
    example: { detail: "Call 5 came after call 2; the next number is 3.", open: true },
  }),
  result_too_large: entry(422, "not_applied", "never", {
    title: "A result exceeds a limit of the service.",
    cause:
      "The result of a read exceeds `maxRows` (GATEWAY_MAX_ROWS) or `maxResultBytes` (GATEWAY_MAX_RESULT_BYTES). In an interactive transaction, also when the memory for results (`resultMemoryBytes`, GATEWAY_RESULT_MEMORY_BYTES) became full while the call ran. `statement` is the index of the statement, from 0.",
    fix: "Read fewer rows or columns, for example page by page with LIMIT. If `limit` is `resultMemoryBytes`, read the same again later, under the next number. An operator can raise the limit.",
    example: {
      detail: "The result of statement 0 exceeds maxRows (100000).",
      limit: { name: "maxRows", value: 100_000 },
      ...ABOUT_FIRST,
    },
  }),
  too_many_open: entry(503, "not_applied", "wait", {
    title: "Too many transactions are open.",
    cause:
      "As many interactive transactions are open as `limit` allows, and none of them ended within 5 seconds: `maxOpen` (GATEWAY_MAX_OPEN) on the gateway, `openTransactions` (GATEWAY_MAX_OPEN_PER_KEY, or the key's own) of the key, `openTransactionsOfRole` and `openTransactionsShare` of its database role. Or as many tickets are open as `maxTickets` (GATEWAY_MAX_TICKETS) allows, or half as many of one owner.",
    fix: "Commit or roll back an open transaction, then send the same request again after Retry-After. A transaction in one request needs no such place.",
    example: {
      detail: "All 32 interactive transactions are in use (openTransactions); commit or roll back one first.",
      limit: { name: "openTransactions", value: 32 },
      retryAfterMs: 1_000,
    },
  }),
  promise_broken: entry(409, "unknown", "never", {
    title: "The transaction was durable at the level, and a failure discarded it: the promise is broken.",
    cause:
      "A failure discarded the transaction although it was durable at the level, for example because an operator promoted a node that did not have it.",
    fix: "Inform the operator (docs/runbooks/promise-broken.md). Look for the effect of the transaction in your data before you run the body again with a new id.",
    example: { ...ABOUT },
  }),
  transaction_lost: entry(409, "not_applied", "transaction", {
    title: "The transaction was committed, and a failure discarded it; use a new id.",
    cause:
      "The transaction committed, and a failover discarded it before it was durable. None of its changes exist, and its id can never commit.",
    fix: "If `redo` is `service`, do nothing: the service brings it back. Otherwise run the whole body again with a new id if its effect is still wanted. With `ack: durable` the gateway answers only when a failover cannot discard the transaction.",
    example: { ...ABOUT },
  }),
  epoch_changed: entry(503, "not_applied", "wait", {
    title: "The store failed over during the request; retry.",
    cause:
      "The database failed over while the request ran, or the service does not know the epoch of the token in `after` yet. Nothing was applied.",
    fix: "Send the same request again, with the same id, after Retry-After.",
    example: { ...ABOUT, retryAfterMs: 100 },
  }),
  primary_unavailable: entry(503, "not_applied", "wait", {
    title: "No authoritative primary is reachable.",
    cause:
      "The service knows no node that may accept writes: a failover is under way, the database cannot be reached, or HIGHWATER_DEPLOYMENT_KEYS of this service differ from those of the others. `detail` says which.",
    fix: "Send the same request again, with the same id, after Retry-After. If this lasts, an operator follows docs/runbooks/no-primary.md.",
    example: { detail: "no writable node answers", retryAfterMs: 1_000 },
  }),
  split_brain: entry(503, "not_applied", "wait", {
    title: "Two primaries claim authority; writes stop until this is settled.",
    cause:
      "Two nodes accept writes, and neither has the history of the other. Nothing is written until one of them is stopped.",
    fix: "Send the same request again, with the same id, after Retry-After. An operator follows docs/runbooks/split-brain.md.",
    example: {
      detail: "east and west: both are writable, and neither has the other's history",
      retryAfterMs: 1_000,
    },
  }),
  exposure_limit: entry(503, "not_applied", "wait", {
    title: "Too many transactions are committed but not yet durable.",
    cause:
      "Too much is committed and not durable yet at GATEWAY_EXPOSURE_LEVEL, or too many announcements wait for a tracker (GATEWAY_MAX_PENDING_ANNOUNCEMENTS). `limit` has the name and value of the limit, and `exposure` what is at risk now. Nothing ran.",
    fix: "Send the same request again after Retry-After, which estimates when there is room. If this lasts, an operator follows docs/runbooks/exposure-refusing.md.",
    example: {
      detail:
        "Too much is committed but not yet durable at level region: exposureTransactions is 200000, the limit 200000.",
      limit: { name: "exposureTransactions", value: 200_000 },
      exposure: { transactions: 200_000, bytes: "50331976", oldestMs: 4_200 },
      retryAfterMs: 1_500,
    },
  }),
  read_unconfirmed: entry(503, "not_applied", "wait", {
    title: "The read saw data that may still be lost, so it was not answered; retry.",
    cause:
      "A read with `reads: durable` saw data that did not become durable at `level` within `maxWaitMs`, or that a failover discarded. The answer has none of its rows.",
    fix: "Send the same read again after Retry-After, or with a longer `maxWaitMs` or a weaker `level`. If data that can be lost is good enough, send it with `reads: committed`.",
    example: {
      detail: "The read saw data that is not durable at region yet, after 1000 ms (maxWaitMs).",
      ...ABOUT,
      retryAfterMs: 100,
    },
  }),
  overloaded: entry(503, "not_applied", "wait", {
    title: "The service has no capacity left; retry later.",
    cause:
      "The service has no free database session, stream or memory for the request, is starting or shutting down, or the edge reaches no service. `detail` says which, and `limit` has the name and value of a limit. Nothing ran.",
    fix: "Send the same request again after Retry-After; with the header `Highwater-Unserved: true`, to another service at once. If this lasts, add services, or an operator raises the limit (GATEWAY_POOL_SIZE, GATEWAY_POOL_QUEUE, GATEWAY_MAX_WAITING, GATEWAY_RESULT_MEMORY_BYTES, TRACKER_MAX_STREAMS, TRACKER_EVENT_STREAMS).",
    example: {
      detail: "2016 transactions are running, the limit (poolSize + poolQueue); retry later.",
      limit: { name: "poolSize + poolQueue", value: 2_016 },
      retryAfterMs: 500,
    },
  }),
  contents_too_large: entry(413, "not_applied", "never", {
    title: "The transaction is too large for its contents to be kept.",
    cause:
      "The request has `keep: true`, and the statements and parameters of the transaction have more bytes than GATEWAY_KEEP_BYTES. The statements of this request did not run; an interactive transaction stays open.",
    fix: "Send the transaction without `keep` if it need not be kept, or in several transactions, or an operator raises GATEWAY_KEEP_BYTES.",
    example: {
      detail: "The contents have 81920 bytes; the limit keepBytes is 65536.",
      limit: { name: "keepBytes", value: 65_536 },
      ...ABOUT,
    },
  }),
  keep_unavailable: entry(400, "not_applied", "never", {
    title: "This deployment cannot keep contents.",
    cause:
      "The request has `keep: true`, or asks for kept contents, and the service has no HIGHWATER_CONTENTS_KEYS or not the key that sealed them; or the gateway has no trackers.",
    fix: "Send the request without `keep`, or an operator sets HIGHWATER_CONTENTS_KEYS, with all keys that have sealed contents, on every gateway and tracker.",
    example: { detail: "HIGHWATER_CONTENTS_KEYS is not set." },
  }),
  commit_unconfirmed: entry(503, "unknown", "resolve_outcome", {
    title: "The connection broke during COMMIT, and the outcome is not settled yet.",
    cause:
      "The connection broke after COMMIT was sent, and the gateway could not find out within 10 s whether the transaction committed; or it knows, and a failover could still undo it.",
    fix: "Ask for the state (`GET /v1/transactions/{id}`), or send the same request again with the same id. Do not run the body with a new id before the outcome is known.",
    example: { ...ABOUT, retryAfterMs: 1_000 },
  }),
  marks_unavailable: entry(503, "not_applied", "wait", {
    title: "No mark has been observed yet.",
    cause:
      "No tracker in GATEWAY_TRACKERS that the gateway reaches receives the positions of the primary, so the gateway cannot learn what is durable. `GET /readyz` answers this.",
    fix: "Ask again after Retry-After. If this lasts, an operator follows docs/runbooks/gateway-without-tracker.md.",
    example: {
      detail:
        "No reachable tracker receives the primary's positions, so safe transactions would not be confirmed.",
      retryAfterMs: 1_000,
    },
  }),
  webhook_url_refused: entry(422, "not_applied", "never", {
    title:
      "Webhooks cannot be sent to this URL: its form, its port or an address of its host is not allowed.",
    cause:
      "The URL is not https, has credentials in it, is longer than 2,048 characters, or its host has no address or one that is not public. `detail` says which.",
    fix: "Use an https URL of a public host. An operator can allow other hosts and addresses with TRACKER_WEBHOOK_ALLOW.",
    example: { detail: "The URL must begin with https." },
  }),
  webhook_limit: entry(409, "not_applied", "never", {
    title: "The number of webhook endpoints is at its limit.",
    cause: "The owner has as many webhook endpoints as `endpoints` (TRACKER_WEBHOOK_ENDPOINTS) allows.",
    fix: "Remove an endpoint (`DELETE /v1/webhooks/{id}`), then send the request again. An operator can raise the setting.",
    example: {
      detail: "The owner has 20 webhook endpoints, the limit (endpoints); remove one first.",
      limit: { name: "endpoints", value: 20 },
    },
  }),
  webhook_disabled: entry(409, "not_applied", "never", {
    title: "The webhook endpoint is disabled; enable it first.",
    cause:
      "The webhook endpoint is disabled: by a request, or because every delivery failed for TRACKER_WEBHOOK_DISABLE_AFTER_MS.",
    fix: 'Repair the receiver, enable the endpoint (`PATCH /v1/webhooks/{id}` with `{"disabled": false}`), then send the request again.',
  }),
  internal: entry(500, "unknown", "resolve_outcome", {
    title: "The service failed and logged the error.",
    cause: "The service failed in a way that it does not expect. Its log has the cause.",
    fix: "Ask for the state (`GET /v1/transactions/{id}`), or send the same request again with the same id. If this repeats, give the operator the time and the path of the request.",
  }),
} as const satisfies Record<string, ErrorEntry>;

export type ErrorCode = keyof typeof ERRORS;
