// Runs one transaction as a careful client does: it chooses the id, sends the same request again if
// no answer came, and uses a new id if the transaction certainly had no effect. Then it gets the
// verdict. It works with any number of regions, some of them possibly gone.
import http from "k6/http";
import { sleep } from "k6";
import { API_KEY, type Endpoint, ENDPOINTS, LEVEL, PATIENCE_S } from "./settings.ts";
import { conflicts, refused, unanswered } from "./metrics.ts";

export interface Statement {
  readonly sql: string;
  readonly params: readonly (string | number)[];
}

export interface Work {
  readonly statements: (id: string) => readonly Statement[];
  readonly readOnly: boolean;
  readonly ack: "commit" | "durable";
}

export interface Committed {
  readonly id: string;
  readonly token: string;
  readonly state: string;
}

export type Verdict = "durable" | "lost" | "broken" | "unsettled";

interface Answer {
  readonly state?: string;
  readonly token?: string;
  readonly retry?: string;
  readonly verdicts?: readonly { readonly verdict: string }[];
}

const RETRY_S = 0.1;
const REQUEST_TIMEOUT = "12s";
/** How long a question for a verdict may be held. Shorter than the time limit of its request. */
const HELD_MS = 5_000;
/** Statuses that are no fault of the network; k6 counts the others as failed requests. */
const EXPECTED = http.expectedStatuses(200, 202, 409, 503);

/** The region that last answered this virtual user. */
let at = 0;

/**
 * Undefined when the patience was over, or when it was refused for good: the caller counts a
 * failure.
 */
export function commit(work: Work): Committed | undefined {
  const untilMs = Date.now() + 1_000 * PATIENCE_S;
  let id = newId();
  while (Date.now() < untilMs) {
    const body = { id, statements: work.statements(id), ack: work.ack, ...readOnly(work), ...level(work) };
    const response = post(({ gateway }) => gateway, "/v1/transactions", body);
    const answer = answerOf(response.body);
    if (response.status === 200 || response.status === 202)
      return { id, token: answer.token ?? "", state: answer.state ?? "" };
    if (answer.retry === "transaction") {
      conflicts.add(1);
      id = newId();
    } else if (answer.retry === "wait") {
      refused.add(1);
      pause(response.headers["Retry-After"]);
    } else if (response.status === 0 || answer.retry === "resolve_outcome" || response.status >= 502) {
      // The outcome is unknown. The same id never runs twice, so the same request finds out.
      unanswered.add(1);
      at = (at + 1) % ENDPOINTS.length;
      sleep(RETRY_S);
    } else {
      console.error(`${String(response.status)} ${response.body as string}`);
      return undefined;
    }
  }
  return undefined;
}

/** Asks for the verdict on a committed transaction until it is settled or the patience is over. */
export function follow(token: string): Verdict {
  const untilMs = Date.now() + 1_000 * PATIENCE_S;
  while (Date.now() < untilMs) {
    const body = { tokens: [token], level: LEVEL, waitMs: HELD_MS };
    const response = post(({ tracker }) => tracker, "/v1/durability/verdicts", body);
    const verdict = answerOf(response.body).verdicts?.[0]?.verdict;
    if (verdict === "durable" || verdict === "lost" || verdict === "broken") return verdict;
    if (response.status !== 200) {
      at = (at + 1) % ENDPOINTS.length;
      sleep(RETRY_S);
    }
  }
  return "unsettled";
}

function post(base: (endpoint: Endpoint) => string, path: string, body: object) {
  const endpoint = ENDPOINTS[at] ?? { gateway: "", tracker: "" };
  const headers: Record<string, string> = { "content-type": "application/json" };
  if (API_KEY !== "") headers["authorization"] = `Bearer ${API_KEY}`;
  const params = { headers, timeout: REQUEST_TIMEOUT, tags: { name: path }, responseCallback: EXPECTED };
  return http.post(`${base(endpoint)}${path}`, JSON.stringify(body), params);
}

function answerOf(body: unknown): Answer {
  try {
    return (JSON.parse(body as string) as Answer | null) ?? {};
  } catch {
    return {};
  }
}

const readOnly = ({ readOnly: is }: Work) => (is ? { readOnly: true } : {});
const level = ({ ack }: Work) => (ack === "durable" ? { level: LEVEL, maxWaitMs: 10_000 } : {});

function pause(retryAfter: string | undefined): void {
  const seconds = Number(retryAfter);
  sleep(Number.isFinite(seconds) && seconds > 0 ? seconds : RETRY_S);
}

/** A UUID of version 7: a random one with the time in its first 48 bits. */
function newId(): string {
  const time = Date.now().toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${crypto.randomUUID().slice(15)}`;
}
