// One HTTP exchange: a request out, JSON or a typed error back. Retries and endpoints are decided elsewhere.
import { answerError, connectionError } from "./errors.ts";
import { abortReason, type Runtime, startTimer } from "./runtime.ts";

export interface Exchange {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Of a POST, as JSON; undefined for a GET. */
  readonly body?: unknown;
  readonly timeoutMs: number;
  /** After so long without an answer the endpoint is asked for a sign of life; as long again without one ends the attempt. */
  readonly probeMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface Answer {
  readonly body: unknown;
  readonly headers: Headers;
}

/** Codes under which platforms report that a connection never came to be, so that nothing was sent. */
const NEVER_SENT = new Set([
  ...["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"],
]);

/**
 * Sends the request once.
 * Errors: the typed error of a problem answer; `connection_failed`, `request_timeout` and `bad_answer` with outcome
 * `unknown` unless the request provably never left; the signal's reason when that is aborted.
 */
export async function exchange(runtime: Runtime, request: Exchange): Promise<Answer> {
  const { signal } = request;
  throwIfAborted(signal);
  const attempt = new AbortController();
  const onAbort = (): void => {
    attempt.abort();
  };
  let timedOut = false;
  const onTimeout = (): void => {
    timedOut = true;
    attempt.abort();
  };
  signal?.addEventListener("abort", onAbort, { once: true });
  const timers = [startTimer(request.timeoutMs, onTimeout, { background: false })];
  const { probeMs } = request;
  if (probeMs !== undefined) {
    const probe = (): void => {
      const cancel = startTimer(probeMs, onTimeout, { background: false });
      timers.push(cancel);
      // Any answer is one, also a refusal: only a black hole gives none. A slow statement is left to its time.
      void runtime.fetch(new URL("/", request.url).href, { signal: attempt.signal }).then((response) => {
        cancel();
        return response.body?.cancel();
      }, cancel);
    };
    timers.push(startTimer(probeMs, probe, { background: false }));
  }
  try {
    const isPost = request.body !== undefined;
    const init: RequestInit = {
      method: isPost ? "POST" : "GET",
      headers: {
        accept: "application/json",
        ...(isPost ? { "content-type": "application/json" } : {}),
        ...request.headers,
      },
      signal: attempt.signal,
    };
    if (isPost) init.body = JSON.stringify(request.body);
    const response = await runtime.fetch(request.url, init);
    const text = await response.text();
    const retryAfterMs = retryAfter(response.headers.get("retry-after"), Date.now());
    if (!response.ok) throw answerError(response.status, tryJson(text), retryAfterMs);
    const body = tryJson(text);
    if (body === undefined) throw badAnswer("the answer is not JSON");
    return { body, headers: response.headers };
  } catch (error) {
    throwIfAborted(signal);
    if (timedOut) {
      const message = `no answer within ${String(request.timeoutMs)} ms`;
      throw connectionError("request_timeout", message, { sent: true, cause: error });
    }
    if (isOwn(error)) throw error;
    const sent = !NEVER_SENT.has(causeCode(error));
    throw connectionError("connection_failed", `no answer from ${request.url}`, { sent, cause: error });
  } finally {
    for (const cancel of timers) cancel();
    // The probe, too, is over.
    attempt.abort();
    signal?.removeEventListener("abort", onAbort);
  }
}

function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw abortReason(signal);
}

/** The error of an answer that is JSON but not what was asked for. */
export function badAnswer(message: string): Error {
  return connectionError("bad_answer", message, { sent: true });
}

/** A Retry-After header in milliseconds: seconds, or an HTTP date. */
export function retryAfter(header: string | null, wallMs: number): number | undefined {
  if (header === null) return undefined;
  if (/^\s*\d+\s*$/.test(header)) return Number(header) * 1_000;
  const date = Date.parse(header);
  return Number.isNaN(date) ? undefined : Math.max(0, date - wallMs);
}

function tryJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function isOwn(error: unknown): boolean {
  return error instanceof Error && "outcome" in error && "retry" in error;
}

function causeCode(error: unknown): string {
  const cause: unknown = error instanceof Error ? error.cause : undefined;
  const code: unknown =
    typeof cause === "object" && cause !== null && "code" in cause ? cause.code : undefined;
  return typeof code === "string" ? code : "";
}
