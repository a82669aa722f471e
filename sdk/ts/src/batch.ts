/**
 * Sends concurrent one-shot transactions of a client in few requests. It is a separate entry that
 * provides a `fetch` for the client's options. Errors, retries and timeouts stay the same, because
 * each transaction has its own answer.
 * @module
 */
import { type FetchLike } from "./runtime.ts";

/** Options of `batched`. */
export interface BatchOptions {
  /** How long a transaction waits for others to share its request, in milliseconds. Default: 1. */
  readonly maxDelayMs?: number;
  /** Maximum number of transactions in a request; never more than 256. Default: 64. */
  readonly maxCount?: number;
  /** Function that sends the requests. Default: the platform's `fetch`. */
  readonly fetch?: FetchLike;
}

/** Limit of the service. */
const COUNT_MAX = 256;
/** Maximum length of a request in characters. A longer transaction is sent alone. */
const CHARS_MAX = 262_144;
const PATH = "/v1/transactions";

interface Item {
  readonly init: RequestInit;
  readonly body: string;
  readonly resolve: (response: Response) => void;
  readonly reject: (reason: unknown) => void;
  /** No caller waits for the answer any more. */
  dropped: boolean;
  onDropped: () => void;
}

interface Batch {
  readonly items: Item[];
  readonly timer: ReturnType<typeof setTimeout>;
  chars: number;
}

/**
 * Creates a `fetch` that sends transactions that begin at about the same time in one request:
 * `new Highwater({ url, fetch: batched() })`. Each transaction keeps its own outcome and gets its
 * answer as soon as it ends. Other requests pass through.
 *
 * Batching pays off if one process runs many transactions at the same time. A single transaction
 * takes `maxDelayMs` longer. If you cancel a call while others share its request, the transaction
 * continues at the gateway.
 *
 * @example
 * ```ts
 * const fetch = batched({ maxDelayMs: 2 });
 * const many = new Highwater({ url: "https://highwater.example", fetch });
 * const notes = ["a", "b", "c"].map((text) =>
 *   many.transaction(sql`INSERT INTO note VALUES (${text})`),
 * );
 * console.log((await Promise.all(notes)).length);
 * await many.close();
 * ```
 */
export function batched(options: BatchOptions = {}): FetchLike {
  const { maxDelayMs = 1, maxCount = 64, fetch: send = (url, init) => globalThis.fetch(url, init) } = options;
  const countMax = Math.min(COUNT_MAX, maxCount);
  const batches = new Map<string, Batch>();
  /** Addresses of gateways that are too old for batches. */
  const without = new Set<string>();

  const leave = (key: string, url: string): void => {
    const batch = batches.get(key);
    if (batch === undefined) return;
    batches.delete(key);
    clearTimeout(batch.timer);
    const items = batch.items.filter(({ dropped }) => !dropped);
    if (items.length > 0) void sendAll(send, { url, items, without });
  };

  const join = (url: string, item: Item): void => {
    const key = keyOf(url, item.init.headers);
    if ((batches.get(key)?.chars ?? 0) + item.body.length > CHARS_MAX) leave(key, url);
    let batch = batches.get(key);
    if (batch === undefined) {
      const timer = setTimeout(() => {
        leave(key, url);
      }, maxDelayMs);
      batches.set(key, (batch = { items: [], timer, chars: 0 }));
    }
    const joined = batch;
    // A batch that no caller waits for leaves no timer.
    item.onDropped = () => {
      if (batches.get(key) === joined && joined.items.every(({ dropped }) => dropped)) leave(key, url);
    };
    batch.items.push(item);
    batch.chars += item.body.length;
    if (batch.items.length >= countMax) leave(key, url);
  };

  return (url, init) => {
    const { body, signal } = init;
    const isAlone = typeof body !== "string" || body.length > CHARS_MAX || without.has(url);
    if (isAlone || !url.endsWith(PATH) || signal?.aborted === true) return send(url, init);
    return new Promise((resolve, reject) => {
      const item: Item = { init, body, resolve, reject, dropped: false, onDropped: () => undefined };
      signal?.addEventListener(
        "abort",
        () => {
          item.dropped = true;
          reject(signal.reason as Error);
          item.onDropped();
        },
        { once: true },
      );
      join(url, item);
    });
  };
}

/** Groups requests by destination and caller. The batch has the trace of the first. */
function keyOf(url: string, headers: RequestInit["headers"] = {}): string {
  const isPlain = !(headers instanceof Headers || Array.isArray(headers));
  const entries = isPlain ? Object.entries(headers) : [...new Headers(headers)];
  return [url, ...entries.filter(([name]) => !name.startsWith("trace"))].join("\n");
}

interface Sending {
  readonly url: string;
  readonly items: readonly Item[];
  readonly without: Set<string>;
}

async function sendAll(send: FetchLike, { url, items, without }: Sending): Promise<void> {
  const alone = ({ init, resolve, reject }: Item): void => {
    send(url, init).then(resolve, reject);
  };
  if (items.length === 1) {
    items.forEach(alone);
    return;
  }
  const missing = new Set(items);
  const request = new AbortController();
  for (const item of items)
    item.onDropped = () => {
      missing.delete(item);
      // Not after the last answer: then only a reusable connection is left to abort.
      if (missing.size === 0) request.abort();
    };
  try {
    const response = await send(`${url}/batch`, {
      ...items[0]?.init,
      body: `{"transactions":[${items.map(({ body }) => body).join(",")}]}`,
      signal: request.signal,
    });
    const { status, body } = response;
    if (status === 404 || status === 405 || status === 413) {
      // Nothing has run: the gateway is too old for batches, or takes only shorter requests.
      if (status !== 413) without.add(url);
      await body?.cancel();
      missing.forEach(alone);
      return;
    }
    if (!response.ok || body === null) {
      const text = await response.text();
      for (const { resolve } of missing) resolve(new Response(text, response));
      return;
    }
    await readLines(body, (line) => {
      const answer = JSON.parse(line) as { index: number; status: number; body: unknown };
      const item = items[answer.index];
      if (item === undefined) return;
      item.onDropped = () => undefined;
      missing.delete(item);
      item.resolve(new Response(JSON.stringify(answer.body), { status: answer.status }));
    });
    if (missing.size > 0) throw new TypeError("the response ended before this transaction's answer");
  } catch (error) {
    for (const { reject } of missing) reject(error);
    request.abort();
  }
}

async function readLines(stream: ReadableStream<Uint8Array>, onLine: (line: string) => void): Promise<void> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) onLine(line);
  }
}
