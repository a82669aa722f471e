// Calls the tracker that served the page, with the key if there is one. The key is in memory only:
// a reload forgets it.
import type { Problem } from "@highwater/protocol";
import { type Clock, sleep } from "@highwater/runtime";
import { createParser, type EventSourceMessage } from "eventsource-parser";

/** Longer than the longest heartbeat that a tracker can have. */
const SILENCE_MS = 75_000;
const RECONNECT_MS = 1_000;
const CALL_LIMIT_MS = 30_000;

/** A refusal of the tracker, or no answer (`status` 0). */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "ApiError";
    this.status = status;
    this.code = code;
  }
}

export interface Followed {
  readonly path: string;
  readonly signal: AbortSignal;
  /** The stream begins after this event. */
  readonly lastEventId?: string;
  readonly onMessage: (message: EventSourceMessage) => void;
  readonly onConnected: (isConnected: boolean, fault: string) => void;
}

export class Api {
  readonly #clock: Clock;
  readonly #fetch: typeof fetch;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(key: string | null, clock: Clock, fetcher: typeof fetch = fetch.bind(globalThis)) {
    this.#clock = clock;
    this.#fetch = fetcher;
    this.#headers = key === null ? {} : { authorization: `Bearer ${key}` };
  }

  async get<T>(path: string): Promise<T> {
    return (await (await this.#call(path, { headers: { accept: "application/json" } })).json()) as T;
  }

  async text(path: string): Promise<string> {
    return (await this.#call(path, {})).text();
  }

  /** `T`: of an answer without a body, `null`. */
  async send<T>(method: "POST" | "PATCH", path: string, body: unknown, limitMs = CALL_LIMIT_MS): Promise<T> {
    const headers = { "content-type": "application/json" };
    const answer = await this.#call(path, { method, headers, body: JSON.stringify(body) }, limitMs);
    return (answer.status === 204 ? null : await answer.json()) as T;
  }

  /** Follows a stream of events, and connects again after each cut, until the signal aborts. */
  async follow(followed: Followed): Promise<void> {
    const { signal, onConnected } = followed;
    let lastEventId = followed.lastEventId;
    const keepId = (id: string | undefined): void => {
      if (id !== undefined) lastEventId = id;
    };
    while (!signal.aborted) {
      let fault = "The tracker has ended the stream.";
      try {
        await this.#read(followed, lastEventId, keepId);
      } catch (cause) {
        fault = messageOf(cause);
      }
      if (signal.aborted) return;
      onConnected(false, fault);
      await sleep(this.#clock, RECONNECT_MS, signal);
    }
  }

  async #read(
    { path, signal, onMessage, onConnected }: Followed,
    lastEventId: string | undefined,
    keepId: (id: string | undefined) => void,
  ): Promise<void> {
    const connection = new AbortController();
    const cut = (): void => {
      connection.abort();
    };
    signal.addEventListener("abort", cut, { once: true });
    let cancel = this.#clock.after(SILENCE_MS, cut);
    try {
      const last: Record<string, string> = lastEventId === undefined ? {} : { "last-event-id": lastEventId };
      const headers = { accept: "text/event-stream", ...last };
      const { body } = await this.#call(path, { headers, signal: connection.signal });
      if (body === null) return;
      onConnected(true, "");
      const parser = createParser({
        onEvent: (message) => {
          keepId(message.id);
          onMessage(message);
        },
      });
      const reader = body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        cancel();
        cancel = this.#clock.after(SILENCE_MS, cut);
        parser.feed(value);
      }
    } finally {
      cancel();
      signal.removeEventListener("abort", cut);
      connection.abort();
    }
  }

  async #call(path: string, init: RequestInit, limitMs = CALL_LIMIT_MS): Promise<Response> {
    const headers = { ...(init.headers as Record<string, string> | undefined), ...this.#headers };
    const limit = new AbortController();
    const cancel =
      init.signal === undefined ? this.#clock.after(limitMs, () => limit.abort()) : () => undefined;
    let answer: Response;
    try {
      answer = await this.#fetch(path, { signal: limit.signal, cache: "no-store", ...init, headers });
    } catch (cause) {
      throw new ApiError(0, "no_answer", "The tracker does not answer.", { cause });
    } finally {
      cancel();
    }
    if (!answer.ok) throw await refusalOf(answer);
    return answer;
  }
}

async function refusalOf(answer: Response): Promise<ApiError> {
  const problem = (await answer.json().catch(() => ({}))) as Partial<Problem>;
  const {
    code = "unknown",
    title = `The tracker answered ${String(answer.status)}.`,
    detail = title,
  } = problem;
  return new ApiError(answer.status, code, detail);
}

export function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
