// The one event stream of a client. It opens when a call waits, closes a while after the last one,
// and survives cuts, silence and dead endpoints in between. If no stream gets through, for example
// behind a proxy that buffers responses, the client polls for marks instead. Owns the connection;
// the watcher decides what events mean.
import { type HighwaterError } from "./errors.ts";
import { type Shared } from "./shared.ts";
import { poll } from "./polling.ts";
import { linesOf } from "./lines.ts";
import { fullJitter, sleep, startTimer } from "./runtime.ts";
import { EVENT_CHARS_MAX, sseParser } from "./sse.ts";
import { tryJson } from "./transport.ts";
import { type BlindEvent, isEpochEvent, isMarks, type MarksResponse, type StallEvent } from "./wire.ts";

/**
 * How long a stream may take to open after a blind tracker. At a failover all trackers are blind
 * for a moment, and that of the lost region does not answer.
 */
const OPEN_AFTER_BLIND_MS = 1_000;

/** A report: marks, epochs (the current one and its ancestors, oldest first), or both. */
export type MarksUpdate = Partial<Pick<MarksResponse, "marks" | "epochs">>;

export class DurabilityStream {
  readonly #shared: Shared;
  readonly #onUpdate: (update: MarksUpdate) => void;
  /** No address serves marks to this caller; the error is the last one's. */
  readonly #onRefused: (error: HighwaterError, url: string) => void;
  #isWanted = false;
  #running: Promise<void> | undefined;
  #stop = new AbortController();
  #cancelIdle: (() => void) | undefined;
  #lastEventId = "";
  #failures = 0;
  /** The last tracker that spoke is blind, and the client looks for one that sees. */
  #hasLeftBlind = false;

  constructor(
    shared: Shared,
    onUpdate: (update: MarksUpdate) => void,
    onRefused: (error: HighwaterError, url: string) => void,
  ) {
    this.#shared = shared;
    this.#onUpdate = onUpdate;
    this.#onRefused = onRefused;
  }

  /** Connects, or stays connected, because a call waits. */
  open(): void {
    this.#stayOpen();
    this.#isWanted = true;
    if (this.#running !== undefined) return;
    this.#stop = new AbortController();
    this.#running = this.#run(this.#stop.signal).finally(() => {
      this.#running = undefined;
      // `open` was called between the decision to end and the end.
      if (this.#isWanted) this.open();
    });
  }

  /** Closes after a while, because no call waits. A call of `open` cancels that. */
  release(): void {
    if (!this.#isWanted) return;
    // In the background: until then only the open connection should keep the process alive.
    this.#cancelIdle ??= startTimer(this.#shared.streamIdleMs, () => void this.close(), undefined, true);
  }

  async close(): Promise<void> {
    this.#stayOpen();
    this.#isWanted = false;
    this.#stop.abort();
    await this.#running;
  }

  #stayOpen(): void {
    this.#cancelIdle?.();
    this.#cancelIdle = undefined;
  }

  async #run(stop: AbortSignal): Promise<void> {
    const { trackers, observe } = this.#shared;
    while (!stop.aborted) {
      const url = trackers.pick();
      this.#failures += 1;
      const error: unknown = await this.#connect(url, stop).catch((cause: unknown) => cause);
      observe({ type: "stream_closed", url, error });
      if (stop.aborted) return;
      if (error !== undefined) {
        // The tracker may be fine, and only streams do not get through.
        const why = this.#hasLeftBlind ? error : await poll(this.#shared, this.#onUpdate, url, stop);
        if (!why) {
          this.#failures = 0;
          continue;
        }
        trackers.failed(url);
        if (this.#failures <= trackers.size && trackers.hasAwake()) continue;
        this.#hasLeftBlind = false;
        if ((why as HighwaterError).retry === "never") this.#onRefused(why as HighwaterError, url);
      }
      const delayMs = fullJitter(this.#failures, this.#shared);
      await sleep(delayMs, stop, true).catch(() => undefined);
    }
  }

  /**
   * Reads one connection. Rejects if it does not open, breaks before its first event, or is silent.
   */
  async #connect(url: string, stop: AbortSignal): Promise<void> {
    const { trackers, fetch, headers, observe, streamOpenMs, streamSilenceMs } = this.#shared;
    const connection = new AbortController();
    const { signal } = connection;
    const end = (isAborted: boolean): void => {
      connection.abort(isAborted ? undefined : new Error("silent stream"));
    };
    let cancel = startTimer(this.#hasLeftBlind ? OPEN_AFTER_BLIND_MS : streamOpenMs, end, stop, true);
    let hasSpoken = false;
    let isBlind = false;
    try {
      const answer = await fetch(`${url}/v1/durability/stream`, {
        headers: {
          accept: "text/event-stream",
          ...headers,
          ...(this.#lastEventId && { "last-event-id": this.#lastEventId }),
        },
        signal,
      });
      const { body, ok, status } = answer;
      if (!ok || !body || !/^text\/event-stream/.test(answer.headers.get("content-type") ?? ""))
        throw new Error(`no stream: ${status}`);
      observe({ type: "stream_open", url });
      const parse = sseParser(this.#lastEventId);
      for await (const line of linesOf(answer, EVENT_CHARS_MAX)) {
        if (signal.aborted) return;
        cancel();
        cancel = startTimer(streamSilenceMs, end, stop, true);
        const event = parse(line);
        if (event) {
          hasSpoken = true;
          this.#failures = 0;
          this.#lastEventId = event.lastEventId;
          const data = tryJson(event.data);
          if (event.type === "blind") isBlind = (data as Partial<BlindEvent> | undefined)?.blind === true;
          if (!isBlind) trackers.succeeded(url);
          else if (event.type === "blind") trackers.failed(url);
          this.#dispatch(event.type, data);
        }
        // This tracker gets nothing new from the primary; another one may.
        if (isBlind && trackers.hasAwake()) return;
      }
    } catch (error) {
      // A connection that has delivered an event works. If it breaks, connect again, and nothing
      // more.
      if (!hasSpoken || signal.aborted) throw error;
    } finally {
      cancel();
      if (hasSpoken) this.#hasLeftBlind = isBlind;
      // Also ends a response that is not a stream.
      connection.abort();
    }
  }

  /** Ignores other types: they are events of a newer service. */
  #dispatch(type: string, body: unknown): void {
    if (type === "mark" && isMarks(body)) this.#onUpdate({ marks: body });
    else if (type === "epoch" && isEpochEvent(body)) this.#onUpdate(body);
    else if (type === "stalled" || type === "recovered")
      this.#shared.observe({ type, level: (body as Partial<StallEvent> | undefined)?.level });
  }
}
