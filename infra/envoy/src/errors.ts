// Envoy's own answers, in the product's shape and true: a request that reached no service was not
// applied; for one whose connection was cut the outcome is unknown here, unless it is of a kind
// that changes nothing.
import { ERRORS, HighwaterError } from "@highwater/protocol";
import { neonError } from "@highwater/txn-gateway/neon-error";
import { type Edge } from "./source.ts";

type Fields = Readonly<Record<string, unknown>>;

/**
 * Envoy's words for a connection to a service that ended, or an answer that did not come, after the
 * request may have arrived.
 */
const CUT_FLAGS = ["UC", "UR", "LR", "UT", "SI", "UPE", "DT", "UMSDR"];
/** Its text for a request that was sent to no service. */
const NOBODY_FLAGS = ["UH", "UF", "UO", "NC", "NR"];
/** What the routes answer with where a header names a gateway that this edge does not know. */
export const UNKNOWN_GATEWAY_STATUS = 421;
/**
 * The refusal by the limit of all callers, since nothing else distinguishes it from other refusals.
 * It is never shown.
 */
export const OVER_RATE_STATUS = 507;

const RETRY_MS = 1_000;
const PROBLEM = "application/problem+json";

const NOT_REACHED = "No service could be reached; the request got to none.";
const CUT = "The connection to the service was cut, or its answer did not come in time.";
const wait = (detail: string): HighwaterError =>
  new HighwaterError("overloaded", { detail, retryAfterMs: RETRY_MS });
const unconfirmed = (detail: string): HighwaterError => new HighwaterError("commit_unconfirmed", { detail });

/** The answer to a kind of request. */
interface Kind {
  readonly filter: Fields;
  readonly nobody: HighwaterError;
  readonly cut: HighwaterError;
  readonly isNeon?: boolean;
}

const header = (name: string, regex: string): Fields => ({
  header_filter: { header: { name, string_match: { safe_regex: { regex } } } },
});
const path = (regex: string): Fields => header(":path", `${regex}(\\?.*)?`);
const all = (...filters: readonly Fields[]): Fields => ({ and_filter: { filters } });
const any = (...filters: readonly Fields[]): Fields => ({ or_filter: { filters } });
const status = (op: "EQ" | "GE", value: number): Fields => ({
  status_code_filter: { comparison: { op, value: { default_value: value, runtime_key: "none" } } },
});
/** Envoy's own word for why it answered. */
const details = (codeDetail: string): Fields => ({
  extension_filter: {
    name: "envoy.access_loggers.extension_filters.cel",
    typed_config: {
      "@type": "type.googleapis.com/envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter",
      expression: `response.code_details == '${codeDetail}'`,
    },
  },
});
const flags = (names: readonly string[]): Fields => ({ response_flag_filter: { flags: names } });

const UNREACHABLE = "The gateway of the transaction is not reachable.";
const READS = "(GET|HEAD|OPTIONS)";

/** The first that fits. */
const KINDS: readonly Kind[] = [
  // What changes nothing can be sent again, whatever became of it.
  {
    filter: any(header(":method", READS), path("/v1/durability/.*"), path("/v1/transactions/begin")),
    nobody: wait(NOT_REACHED),
    cut: wait(`${CUT} Nothing was committed by it.`),
  },
  // Nothing but a commit commits, and what a gateway has open ends with it, or when the connection
  // of a call is cut.
  {
    filter: path("/v1/transactions/[^/?]+/statements"),
    nobody: new HighwaterError("gateway_lost", { detail: UNREACHABLE }),
    cut: new HighwaterError("gateway_lost", { detail: CUT }),
  },
  // This call, or one before it whose answer was lost, may have committed.
  {
    filter: path("/v1/transactions/[^/?]+/(commit|rollback)"),
    nobody: unconfirmed(`${UNREACHABLE} An earlier commit may have taken effect.`),
    cut: unconfirmed(CUT),
  },
  {
    filter: path("/v1/(webhooks|lost).*"),
    nobody: wait(NOT_REACHED),
    cut: new HighwaterError("internal", { detail: `${CUT} It may have been done.` }),
  },
  { filter: path("/sql"), nobody: wait(NOT_REACHED), cut: unconfirmed(CUT), isNeon: true },
  { filter: header(":method", ".*"), nobody: wait(NOT_REACHED), cut: unconfirmed(CUT) },
];

/** `local_reply_config`: everything that Envoy says by itself, the first mapper that fits. */
export function localReplies({ limits }: Edge): Fields {
  const bodyLimit = (value: number): HighwaterError =>
    new HighwaterError("body_too_large", {
      detail: `The request body exceeds bodyLimitBytes (${String(value)}).`,
      limit: { name: "bodyLimitBytes", value },
    });
  const fromTracker = path("/v1/(durability|webhooks).*");
  const tooLarge = bodyLimit(limits.gatewayBodyBytes);
  const invalid = (detail: string): HighwaterError => new HighwaterError("invalid_request", { detail });
  const limited = new HighwaterError("rate_limited", {
    detail: "This address exceeds the edge's request rate; retry later.",
    retryAfterMs: RETRY_MS,
  });
  const mappers = [
    // Before all others: where an attempt was cut, whatever else is said of the request does not
    // count.
    ...KINDS.map((kind) => mapper(all(flags(CUT_FLAGS), kind.filter), kind.cut, kind.isNeon)),
    ...both(status("EQ", 404), new HighwaterError("not_found")),
    mapper(all(status("EQ", 413), fromTracker), bodyLimit(limits.trackerBodyBytes)),
    ...both(status("EQ", 413), tooLarge),
    ...both(status("EQ", 408), invalid("The request did not arrive in time.")),
    ...both(status("EQ", 431), invalid("The request's headers exceed the limit of 16 KiB.")),
    ...both(status("EQ", 429), limited),
    ...both(
      status("EQ", OVER_RATE_STATUS),
      wait("All requests together exceed the edge's rate; retry later."),
    ),
    ...KINDS.map((kind) => mapper(all(REACHED_NOBODY, kind.filter), kind.nobody, kind.isNeon)),
    // A fault of Envoy's that has no name here: nothing is known.
    ...KINDS.map((kind) => mapper(all(status("GE", 500), kind.filter), kind.cut, kind.isNeon)),
    ...both(status("GE", 400), invalid("Not a valid HTTP request.")),
  ];
  return { mappers };
}

const REACHED_NOBODY = any(
  all(status("EQ", 503), flags(NOBODY_FLAGS)),
  all(status("EQ", 503), details("overload")),
  all(status("EQ", UNKNOWN_GATEWAY_STATUS), header("highwater-session", ".+")),
);

/** In the shape of Neon's wire where the request has come on it. */
function both(filter: Fields, error: HighwaterError): Fields[] {
  return [mapper(all(filter, path("/sql")), error, true), mapper(filter, error)];
}

function mapper(filter: Fields, error: HighwaterError, isNeon = false): Fields {
  const { retryAfterMs } = error.details;
  const neon = isNeon ? neonError(error, null) : null;
  const body = neon?.body ?? error.toProblem();
  return {
    filter,
    status_code: neon?.status ?? ERRORS[error.code].status,
    body_format_override: {
      text_format_source: { inline_string: formatText(JSON.stringify(body)) },
      content_type: isNeon ? "application/json; charset=utf-8" : PROBLEM,
    },
    ...(retryAfterMs !== undefined && { headers_to_add: [retryAfter(retryAfterMs)] }),
  };
}

function retryAfter(ms: number): Fields {
  return {
    header: { key: "retry-after", value: String(Math.ceil(ms / 1_000)) },
    append_action: "OVERWRITE_IF_EXISTS_OR_ADD",
  };
}

/** In Envoy's formats `%` begins a command. */
function formatText(text: string): string {
  return text.replaceAll("%", "%%");
}
