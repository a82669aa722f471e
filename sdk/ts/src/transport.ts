// One HTTP exchange: sends a request and returns JSON or a typed error. Retries and endpoints are
// decided elsewhere.
import { answerError, failure } from "./errors.ts";
import { type FetchLike, type Runtime, startTimer } from "./runtime.ts";

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
  /** Sends the request. Default: alone. */
  readonly send?: Send | undefined;
}

/** What a request is sent with. */
export interface Init extends RequestInit {
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal: AbortSignal;
}

export interface Answer {
  readonly status: number;
  /** Absent if the answer shared a response with others. */
  readonly headers?: Headers;
  /** Undefined if it is not JSON. */
  readonly body: unknown;
}

/** Sends a request and returns its answer. */
export type Send = (url: string, init: Init) => Promise<Answer>;

/**
 * The first failure of the process is printed: with a wrong address, the program would show nothing
 * until the time of the call is over.
 */
let isTold = false;

/** Codes with which platforms report that no connection was made, so that nothing was sent. */
const NEVER_SENT = /REFUSED|UNREACH|NOTFOUND|EAI_AGAIN|CONNECT_TIMEOUT/;

/**
 * Sends the request once.
 * Errors: the typed error of a problem response. `connection_failed`, `request_timeout` and
 * `bad_answer`, with outcome `unknown` unless the request provably never left. The signal's reason
 * if it is aborted.
 */
export async function exchange(runtime: Runtime, request: Exchange): Promise<Answer> {
  const { url, body, signal, probeMs, patience = 1, timeoutMs } = request;
  const { send = (to, init) => ask(runtime.fetch, to, init) } = request;
  const attempt = new AbortController();
  let isLate = false;
  const end = (isAborted: boolean): void => {
    isLate = !isAborted;
    attempt.abort();
  };
  const ends = [startTimer(timeoutMs, end, signal)];
  const probe = (): void => {
    // Any answer will do, even a refusal: only a black hole gives none. A slow statement keeps its
    // time.
    let isAlive = false;
    const onAnswer = (response?: Response): unknown => {
      isAlive = true;
      return response?.body?.cancel();
    };
    void runtime.fetch(new URL("/", url).href, { signal: attempt.signal }).then(onAnswer, () => onAnswer());
    /** Waits one step after another: a process that was suspended misses one of them, not all. */
    const listen = (times: number): void => {
      const onTime = (): void => {
        if (times > 1) listen(times - 1);
        else if (!isAlive) end(false);
      };
      ends.push(startTimer(probeMs ?? 0, onTime));
    };
    listen(patience);
    // The probe ends with the attempt. Without a probe there is nothing to abort, and aborting
    // would cost more than all the rest.
    ends.push(() => {
      attempt.abort();
    });
  };
  if (probeMs !== undefined) ends.push(startTimer(probeMs, probe));
  let answer: Answer;
  try {
    answer = await send(url, {
      headers: {
        accept: "application/json",
        ...(body && { "content-type": "application/json" }),
        ...request.headers,
      },
      ...(body && { method: "POST", body: JSON.stringify(body) }),
      signal: attempt.signal,
    });
  } catch (cause) {
    signal?.throwIfAborted();
    if (isLate) throw failure("request_timeout", `${url}: no answer in ${timeoutMs} ms`, { cause });
    const { code } = ((cause as Error | undefined)?.cause ?? {}) as { code?: string };
    const message = `${url} cannot be reached`;
    if (!isTold) console.warn("Highwater:", message);
    isTold = true;
    throw failure("connection_failed", message, {
      ...(NEVER_SENT.test(code ?? "") && { outcome: "not_applied" }),
      cause,
    });
  } finally {
    for (const each of ends) each();
  }
  const { status, headers } = answer;
  if (status < 200 || status > 299)
    throw answerError(status, answer.body, retryAfter(headers?.get("retry-after"), Date.now()));
  return answer;
}

/** Sends a request alone and returns its answer. */
export async function ask(fetch: FetchLike, url: string, init: RequestInit): Promise<Answer> {
  return answerOf(await fetch(url, init));
}

export async function answerOf(response: Response): Promise<Answer> {
  const { status, headers } = response;
  return { status, headers, body: tryJson(await response.text()) };
}

/** Parses a Retry-After header, in seconds or as an HTTP date, to milliseconds. */
export function retryAfter(header: string | null | undefined, wallMs: number): number | undefined {
  if (header == null) return undefined;
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
