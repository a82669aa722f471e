// The gateway's wire without the SDK, for calls that the SDK lacks: interactive transactions and
// reads near the user.
import { authorization } from "./credential.ts";
import { type Values } from "./schema.ts";

export interface Problem {
  readonly code: string;
  readonly outcome: "not_applied" | "applied" | "unknown";
  readonly retry: "never" | "transaction" | "resolve_outcome" | "wait";
  readonly retryAfterMs?: number;
}

/** The fields of answers that are used here. Each call has some of them. */
export interface Body {
  readonly state: string;
  readonly token: string;
  readonly position: { readonly epoch: string; readonly offset: string };
  readonly results: readonly { readonly rows: Values }[] | null;
  readonly replayed?: true;
}

/** `silence`: no answer, or one that is not the service's. */
export type Reply =
  | { readonly kind: "answer"; readonly body: Body; readonly stickiness: string | null }
  | { readonly kind: "problem"; readonly problem: Problem }
  | { readonly kind: "silence"; readonly why: string };

export interface Call {
  readonly body?: unknown;
  readonly stickiness?: string | null;
  readonly timeoutMs: number;
}

const STICKINESS = "highwater-session";

/** Sends the call once. */
export async function call(gateway: string, path: string, options: Call): Promise<Reply> {
  const { body, stickiness, timeoutMs } = options;
  try {
    const response = await fetch(`${gateway}${path}`, {
      method: body === undefined ? "GET" : "POST",
      headers: {
        accept: "application/json",
        ...authorization(),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(stickiness == null ? {} : { [STICKINESS]: stickiness }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(timeoutMs),
    });
    const answer = (await response.json()) as Body & Partial<Problem>;
    if (response.ok) return { kind: "answer", body: answer, stickiness: response.headers.get(STICKINESS) };
    const { code, outcome, retry } = answer;
    if (code === undefined || outcome === undefined || retry === undefined)
      return { kind: "silence", why: "bad_answer" };
    const { retryAfterMs } = answer;
    return {
      kind: "problem",
      problem: { code, outcome, retry, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) },
    };
  } catch (error) {
    const isLate = error instanceof DOMException && error.name === "TimeoutError";
    return { kind: "silence", why: isLate ? "request_timeout" : "connection_failed" };
  }
}
