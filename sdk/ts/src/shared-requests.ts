// One-shot transactions of a client that are under way at the same time share requests. Owns which
// of them leave together, and whose answer is whose. Errors, retries and time limits stay each
// transaction's own (decision 0213).
import { linesOf } from "./lines.ts";
import { type FetchLike, within } from "./runtime.ts";
import { type Answer, answerOf, ask, type Init, type Send } from "./transport.ts";

/** Maximum number of transactions in a request. */
const COUNT_MAX = 64;
/**
 * Maximum length of a transaction in characters; a longer one is sent alone. So a full request
 * stays below the 4 MiB that the service takes.
 */
const CHARS_MAX = 16_384;
/**
 * Steps of promises within which callers that go on in the same turn begin their transactions. The
 * platform's shortest timer would take a millisecond.
 */
const STEPS_OF_TURN = 50;

interface Item {
  readonly init: Init;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (reason: unknown) => void;
}

/** Returns a function that sends one-shot transactions, several of them in one request. */
export function sharing(fetch: FetchLike, gatherMs: number): Send {
  /** The transactions of the next request, while one is on its way. */
  const lanes = new Map<string, Item[]>();

  return (url, init) => {
    if ((init.body as string).length > CHARS_MAX) return ask(fetch, url, init);
    // A shared request has no trace of its own: each transaction's goes into the body.
    const { traceparent: _own, tracestate: _too, ...headers } = init.headers;
    // Only the same caller's requests to the same gateway can be one.
    const key = url + JSON.stringify(headers);
    const lane = lanes.get(key) ?? [];
    const leave = (): Promise<unknown> => {
      const items = lane.splice(0).filter((item) => !item.init.signal.aborted);
      return send(items, fetch, url, headers);
    };
    const run = async (): Promise<void> => {
      lanes.set(key, lane);
      while (lane.length > 0) {
        for (let step = 0; step < STEPS_OF_TURN; step++) await Promise.resolve();
        // The bound is short, so that no slow statement and no far gateway holds the others back.
        await within(leave(), gatherMs, undefined, () => new Error()).catch(() => undefined);
      }
      lanes.delete(key);
    };
    return new Promise((resolve, reject) => {
      init.signal.addEventListener("abort", () => {
        reject(init.signal.reason as Error);
      });
      const count = lane.push({ init, resolve, reject });
      if (!lanes.has(key)) void run();
      else if (count === COUNT_MAX) void leave();
    });
  };
}

/** Resolves when the response has ended. */
async function send(
  items: readonly Item[],
  fetch: FetchLike,
  url: string,
  headers: Init["headers"],
): Promise<unknown> {
  const missing = new Set(items);
  const sendAlone = (): Promise<unknown> =>
    Promise.all([...missing].map(({ init, resolve, reject }) => ask(fetch, url, init).then(resolve, reject)));
  if (items.length < 2) return sendAlone();
  const request = new AbortController();
  let lines = items.length;
  const settle = (item: Item): void => {
    missing.delete(item);
    // Only callers that have given up lack an answer. After the last line, only a reusable
    // connection would be left to abort.
    if (missing.size === 0 && lines > 0) request.abort();
  };
  for (const item of items)
    item.init.signal.addEventListener("abort", () => {
      settle(item);
    });
  try {
    const response = await fetch(`${url}/batch`, {
      method: "POST",
      headers,
      body: bodyOf(items),
      signal: request.signal,
    });
    if (response.ok) {
      for await (const line of linesOf(response)) {
        const answer = JSON.parse(line) as Answer & { index: number };
        const item = items[answer.index];
        lines -= 1;
        if (item) settle(item);
        item?.resolve(answer);
      }
      if (missing.size > 0) throw new Error("no answer");
    } else {
      const answer = await answerOf(response);
      // Nothing has run: the gateway, or a proxy, does not take it as a whole.
      if ([400, 404, 405, 413].includes(answer.status)) return await sendAlone();
      for (const { resolve } of missing) resolve(answer);
    }
  } catch (error) {
    for (const { reject } of missing) reject(error);
    request.abort();
  }
  return undefined;
}

function bodyOf(items: readonly Item[]): string {
  const transactions = items.map(({ init }) => init.body).join();
  const traceparents = items.map(({ init }) => init.headers["traceparent"] ?? "");
  return `{"transactions":[${transactions}],"traceparents":${JSON.stringify(traceparents)}}`;
}
