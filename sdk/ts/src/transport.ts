// One HTTP exchange: sends a request and returns JSON or a typed error. Retries and endpoints are
// decided elsewhere.
import { answerError, failure, HighwaterError } from "./errors.ts";
import { type Runtime, startTimer } from "./runtime.ts";

export interface Exchange {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON body of a POST; undefined for a GET. */
  readonly body?: object | undefined;
  readonly timeoutMs: number;
  /**
   * Time without an answer after which the endpoint is probed. If the probe gets no answer for as
   * long again, the attempt ends.
   */
  readonly probeMs?: number | undefined;
  /** How many times `probeMs` the probe may take. Default: 1. */
  readonly patience?: number;
  readonly signal?: AbortSignal | undefined;
}

export interface TransportResponse {
  readonly body: unknown;
  readonly headers: Headers;
}

/** Codes with which platforms report that no connection was made, so that nothing was sent. */
const NEVER_SENT = /REFUSED|UNREACH|NOTFOUND|EAI_AGAIN|CONNECT_TIMEOUT/;

/**
 * Sends the request once.
 * Errors: the typed error of a problem response. `connection_failed`, `request_timeout` and
 * `bad_answer`, with outcome `unknown` unless the request provably never left. The signal's reason
 * if it is aborted.
 */
export async function exchange(runtime: Runtime, request: Exchange): Promise<TransportResponse> {
  const { fetch } = runtime;
  const { url, body, signal, probeMs, patience = 1, timeoutMs } = request;
  signal?.throwIfAborted();
  const attempt = new AbortController();
  let isLate = false;
  const end = (isAborted: boolean): void => {
    isLate = !isAborted;
    attempt.abort();
  };
  const ends = [startTimer(timeoutMs, end, signal)];
  /** Waits one step after another: a process that was suspended misses one of them, not all. */
  const listen = (ms: number, times: number): void => {
    cancel = startTimer(
      ms,
      times > 1
        ? () => {
            listen(ms, times - 1);
          }
        : end,
    );
  };
  let cancel = (): void => undefined;
  const onEvent = (): void => {
    cancel();
  };
  const probe = (): void => {
    listen(probeMs ?? 0, patience);
    // The probe ends with the attempt. Without a probe there is nothing to abort, and aborting
    // would cost more than all the rest.
    ends.push(onEvent, () => {
      attempt.abort();
    });
    // Any answer will do, even a refusal: only a black hole gives none. A slow statement keeps its
    // time.
    void fetch(new URL("/", url).href, { signal: attempt.signal }).then((response) => {
      onEvent();
      return response.body?.cancel();
    }, onEvent);
  };
  if (probeMs !== undefined) ends.push(startTimer(probeMs, probe));
  try {
    const post = body && { method: "POST", body: JSON.stringify(body) };
    const response = await fetch(url, {
      headers: {
        accept: "application/json",
        ...(post && { "content-type": "application/json" }),
        ...request.headers,
      },
      ...post,
      signal: attempt.signal,
    });
    const { headers, ok, status } = response;
    const answer = tryJson(await response.text());
    if (!ok) throw answerError(status, answer, retryAfter(headers.get("retry-after"), Date.now()));
    if (answer === undefined) throw badAnswer(`the response from ${url} is not JSON`);
    return { body: answer, headers };
  } catch (cause) {
    signal?.throwIfAborted();
    if (isLate)
      throw failure("request_timeout", `${url} did not answer within ${String(timeoutMs)} ms`, { cause });
    if (cause instanceof HighwaterError) throw cause;
    const { code } = ((cause as Error | undefined)?.cause ?? {}) as { code?: string };
    throw failure("connection_failed", `${url} cannot be reached`, {
      ...(NEVER_SENT.test(code ?? "") && { outcome: "not_applied" }),
      cause,
    });
  } finally {
    for (const each of ends) each();
  }
}

/** The error of an unexpected response. */
export function badAnswer(message: string): Error {
  return failure("bad_answer", message);
}

/** Parses a Retry-After header, in seconds or as an HTTP date, to milliseconds. */
export function retryAfter(header: string | null, wallMs: number): number | undefined {
  if (header === null) return undefined;
  const ms = /^\s*\d+\s*$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - wallMs;
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}

export function tryJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
