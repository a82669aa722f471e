// Makes one attempt over HTTP. It connects only to a checked address, follows no redirect, reads
// little, and ends within its limit whatever the receiver does. Never rejects: a failure is a
// result.
import { request as requestHttp, type IncomingMessage, type RequestOptions } from "node:http";
import { request as requestHttps } from "node:https";
import { type LookupFunction } from "node:net";
import { type AttemptOutcome, HighwaterError, WEBHOOK_LIMITS } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import {
  type AllowList,
  checkedAddresses,
  checkUrl,
  type HostAddress,
  hostnameOf,
  type Resolve,
} from "./address.ts";
import { parseRetryAfter } from "./schedule.ts";

export interface Attempt {
  readonly outcome: AttemptOutcome;
  readonly status: number | null;
  readonly retryAfterMs: number | null;
  readonly durationMs: number;
  /** The beginning of the answer, or the error if there was none. */
  readonly answer: string | null;
}

export interface ExchangeOptions {
  readonly clock: Clock;
  readonly resolve: Resolve;
  readonly allow: AllowList;
  /** From the look-up of the name to the last byte of the answer. */
  readonly timeoutMs: number;
  /** Trusted certificates besides the system's; for tests. */
  readonly ca?: string;
}

export interface Outgoing {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The rest of an answer is not read. */
const READ_BYTES = 4_096;
const USER_AGENT = "Highwater-Webhooks/1";

interface Answer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly begin: Buffer;
}

export async function exchange(outgoing: Outgoing, options: ExchangeOptions): Promise<Attempt> {
  const { clock, timeoutMs } = options;
  const startedMs = clock.monotonicMs();
  const limit = new AbortController();
  const cancel = clock.after(timeoutMs, () => {
    limit.abort();
  });
  const over = new Promise<never>((_, reject) => {
    limit.signal.addEventListener("abort", () => {
      reject(new Error("the time is over"));
    });
  });
  try {
    // A race as well as a signal, because a resolver may ignore the signal.
    const answer = await Promise.race([talk(outgoing, options, limit.signal), over]);
    return { ...judge(answer, clock.wallMs()), durationMs: elapsed(clock, startedMs) };
  } catch (cause) {
    const failed = { status: null, retryAfterMs: null, durationMs: elapsed(clock, startedMs) };
    if (limit.signal.aborted) return { ...failed, outcome: "timeout", answer: null };
    if (cause instanceof HighwaterError) return { ...failed, outcome: "refused", answer: cause.message };
    return { ...failed, outcome: "connection", answer: codeOf(cause) };
  } finally {
    cancel();
    limit.abort();
    over.catch(() => undefined);
  }
}

async function talk(outgoing: Outgoing, options: ExchangeOptions, signal: AbortSignal): Promise<Answer> {
  const { allow, resolve, ca } = options;
  const url = checkUrl(outgoing.url, allow);
  const addresses = await checkedAddresses(url, { allow, resolve, signal });
  signal.throwIfAborted();
  const settings: RequestOptions = {
    method: "POST",
    hostname: hostnameOf(url),
    port: url.port === "" ? (url.protocol === "https:" ? 443 : 80) : Number(url.port),
    path: url.pathname + url.search,
    headers: {
      host: url.host,
      "content-type": "application/json",
      "content-length": String(Buffer.byteLength(outgoing.body)),
      "user-agent": USER_AGENT,
      ...outgoing.headers,
    },
    // A new connection each time: a kept one may lead to an address that would be refused now.
    agent: false,
    lookup: pinned(addresses),
    signal,
  };
  return new Promise((resolveAnswer, reject) => {
    const request =
      url.protocol === "https:"
        ? requestHttps({ ...settings, ...(ca !== undefined && { ca }) })
        : requestHttp(settings);
    request.on("error", reject);
    request.on("upgrade", (response: IncomingMessage, socket) => {
      socket.destroy();
      resolveAnswer({ status: response.statusCode ?? 0, retryAfter: undefined, begin: Buffer.alloc(0) });
    });
    request.on("response", (response) => {
      readBegin(response).then((begin) => {
        request.destroy();
        const { statusCode, headers } = response;
        resolveAnswer({ status: statusCode ?? 0, retryAfter: headers["retry-after"], begin });
      }, reject);
    });
    request.end(outgoing.body);
  });
}

/** Answers every look-up with the checked addresses. */
function pinned(addresses: readonly HostAddress[]): LookupFunction {
  return (_hostname, { all }, callback) => {
    if (all === true) {
      callback(null, [...addresses]);
      return;
    }
    const [first] = addresses;
    if (first === undefined) callback(new Error("no address"), "", 4);
    else callback(null, first.address, first.family);
  };
}

async function readBegin(response: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes >= READ_BYTES) break;
  }
  return Buffer.concat(chunks).subarray(0, READ_BYTES);
}

function judge(answer: Answer, nowMs: number): Omit<Attempt, "durationMs"> {
  const { status, retryAfter, begin } = answer;
  const asksToWait = status === 429 || status === 503;
  return {
    outcome: outcomeOf(status),
    status,
    retryAfterMs: asksToWait ? parseRetryAfter(retryAfter, nowMs) : null,
    answer: printable(begin),
  };
}

function outcomeOf(status: number): AttemptOutcome {
  if (status >= 200 && status < 300) return "delivered";
  if (status >= 300 && status < 400) return "redirect";
  return status === 410 ? "gone" : "status";
}

/** Text that a database can store and a terminal can show. */
function printable(begin: Buffer): string {
  const text = new TextDecoder().decode(begin.subarray(0, WEBHOOK_LIMITS.answerBytes));
  return text.replace(/[^\P{C}\n\t]/gu, "\uFFFD");
}

/** Only the code, because a message may contain addresses of this network. */
function codeOf(cause: unknown): string {
  const { code } = cause as { code?: unknown };
  return typeof code === "string" ? code : "the exchange failed";
}

function elapsed(clock: Clock, startedMs: number): number {
  return Math.max(0, Math.round(clock.monotonicMs() - startedMs));
}
