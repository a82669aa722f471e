// The routes: which request goes where, and which of them may be sent a second time. Paths that are
// not named here do not exist: the services' internal paths, their health and their metrics cannot
// be reached through the edge.
import { UNSERVED_HEADER } from "@highwater/protocol";
import { UNKNOWN_GATEWAY_STATUS } from "./errors.ts";
import { endingOf, GATEWAYS, pinnedTo, TRACKERS } from "./names.ts";
import { type Edge } from "./source.ts";

type Fields = Readonly<Record<string, unknown>>;

const SESSION_HEADER = "highwater-session";
/**
 * The rest of the header after the gateway's name: the id, and the proof that a gateway wrote it.
 * Neither has a dot.
 */
const SESSION_REST = "\\.[^.]+\\.[^.]+";

/**
 * Each of these means that nothing of the request has left, or that a service that starts or shuts
 * down did not look at it (`retriable-headers`). So sending it elsewhere cannot change what becomes
 * of it. Requests that may commit are retried in no other case: a second copy of a commit could
 * conflict with the first. Its client knows of one copy only, and would run the whole body again
 * under a new id while the first commits.
 */
const NEVER_LEFT = "connect-failure,refused-stream,reset-before-request,retriable-headers";
/**
 * Requests that change nothing may also be repeated if the connection was cut before an answer
 * began.
 */
const CHANGES_NOTHING = `${NEVER_LEFT},reset`;

const RETRIES = 3;

export function routes(edge: Edge): Fields[] {
  return [...openTransactions(edge), ...toGateways(edge), ...toTrackers(edge), NOT_FOUND];
}

/**
 * Calls of an open transaction go to the gateway that has it, which their header names, and to no
 * other.
 */
function openTransactions(edge: Edge): Fields[] {
  const call = (names: string): Fields => ({
    safe_regex: { regex: `/v1/transactions/[^/]+/(${names})` },
  });
  const named = (name: string): Fields[] => [
    { name: SESSION_HEADER, string_match: { safe_regex: { regex: name + SESSION_REST } } },
  ];
  const timeout = durationOf(edge.limits.answerMs);
  return [
    ...edge.gateways.flatMap(({ name }) => {
      const headers = named(escapeRegex(name));
      return [
        {
          match: { ...call("statements|commit"), headers },
          route: { cluster: pinnedTo(name), timeout, retry_policy: retry(NEVER_LEFT) },
        },
        // Any gateway can undo a transaction for its client: it settles the id, so that nothing
        // commits under it.
        {
          match: { ...call("rollback"), headers },
          route: { cluster: endingOf(name), timeout, retry_policy: retry(NEVER_LEFT, 1) },
        },
      ];
    }),
    {
      match: { ...call("statements|commit"), headers: named(".+") },
      direct_response: { status: UNKNOWN_GATEWAY_STATUS },
    },
  ];
}

function toGateways(edge: Edge): Fields[] {
  const timeout = durationOf(edge.limits.answerMs);
  const to = (retry_policy: Fields): Fields => ({ route: { cluster: GATEWAYS, timeout, retry_policy } });
  const transactions = { path_separated_prefix: "/v1/transactions" };
  return [
    { match: { ...transactions, headers: READING }, ...to(retry(CHANGES_NOTHING)) },
    { match: transactions, ...to(retry(NEVER_LEFT)) },
    { match: { path_separated_prefix: "/v1/tickets" }, ...to(retry(NEVER_LEFT)) },
    // The other paths of what was lost are the trackers'.
    { match: { path: "/v1/lost/replay" }, ...to(retry(NEVER_LEFT)) },
    { match: { path: "/sql" }, ...to(retry(NEVER_LEFT)) },
    // The page that the `type` of a problem names. Trackers have the same.
    { match: { path_separated_prefix: "/errors", headers: READING }, ...to(retry(CHANGES_NOTHING)) },
    // Clients look here whether any service answers.
    { match: { path: "/", headers: READING }, ...to(retry(CHANGES_NOTHING)) },
  ];
}

function toTrackers(edge: Edge): Fields[] {
  const timeout = durationOf(edge.limits.answerMs);
  const to = (retry_policy: Fields): Fields => ({
    route: { cluster: TRACKERS, timeout, retry_policy },
    typed_per_filter_config: { [BUFFER]: bodyLimit(edge.limits.trackerBodyBytes) },
  });
  const stream = (path: string): Fields => ({
    match: { path, headers: READING },
    // A stream stays for as long as both sides want it. Its heartbeats, and those of the
    // connections below, show when one is gone.
    route: { cluster: TRACKERS, timeout: "0s", idle_timeout: "0s", retry_policy: retry(CHANGES_NOTHING) },
    typed_per_filter_config: { [BUFFER]: bodyLimit(edge.limits.trackerBodyBytes) },
  });
  return [
    stream("/v1/durability/stream"),
    stream("/v1/durability/events"),
    // Verdicts and previews are questions, under whatever method.
    { match: { path_separated_prefix: "/v1/durability" }, ...to(retry(CHANGES_NOTHING)) },
    ...["/v1/webhooks", "/v1/lost"].flatMap((path_separated_prefix) => [
      { match: { path_separated_prefix, headers: READING }, ...to(retry(CHANGES_NOTHING)) },
      { match: { path_separated_prefix }, ...to(retry(NEVER_LEFT)) },
    ]),
  ];
}

const NOT_FOUND: Fields = { match: { prefix: "/" }, direct_response: { status: 404 } };

const READING: readonly Fields[] = [
  { name: ":method", string_match: { safe_regex: { regex: "GET|HEAD|OPTIONS" } } },
];

/** `patience`: attempts in one region before the next one is tried. */
function retry(retry_on: string, patience = 2): Fields {
  return {
    retry_on,
    num_retries: RETRIES,
    retriable_headers: [{ name: UNSERVED_HEADER, string_match: { exact: "true" } }],
    retry_back_off: { base_interval: "0.025s", max_interval: "0.250s" },
    retry_host_predicate: [
      {
        name: "envoy.retry_host_predicates.previous_hosts",
        typed_config: {
          "@type": "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate",
        },
      },
    ],
    host_selection_retry_max_attempts: 5,
    retry_priority: {
      name: "envoy.retry_priorities.previous_priorities",
      typed_config: {
        "@type":
          "type.googleapis.com/envoy.extensions.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig",
        update_frequency: patience,
      },
    },
  };
}

export const BUFFER = "envoy.filters.http.buffer";

function bodyLimit(max_request_bytes: number): Fields {
  return {
    "@type": "type.googleapis.com/envoy.extensions.filters.http.buffer.v3.BufferPerRoute",
    buffer: { max_request_bytes },
  };
}

export function durationOf(ms: number): string {
  return `${(ms / 1_000).toFixed(3)}s`;
}

function escapeRegex(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
