// The one event stream of a client: opened when somebody waits, closed a while after nobody does, and kept alive in
// between across cuts, silence and dead endpoints. Where none gets through, as behind a proxy that holds answers back until
// they are whole, marks are asked for instead. Owns the connection; what events mean is the business of the watcher.
import { type EndpointPool } from "./endpoints.ts";
import { fullJitter, type Runtime, sleep, startTimer, whenAborted } from "./runtime.ts";
import { SseParser } from "./sse.ts";
import { type Tuning } from "./tuning.ts";
import { type EpochRecord, isEpochEvent, isMarks, isStallEvent, type Marks } from "./wire.ts";

export interface StreamDeps {
  readonly runtime: Runtime;
  readonly trackers: EndpointPool;
  readonly tuning: Tuning;
  readonly headers: Readonly<Record<string, string>>;
  readonly onMarks: (marks: Marks | null) => void;
  readonly onEpochs: (epochs: readonly EpochRecord[]) => void;
}

export class DurabilityStream {
  readonly #deps: StreamDeps;
  #isWanted = false;
  #running: Promise<void> | undefined;
  #stop = new AbortController();
  #cancelIdle: (() => void) | undefined;
  #lastEventId = "";
  #failures = 0;

  constructor(deps: StreamDeps) {
    this.#deps = deps;
  }

  /** Somebody waits: connect, or stay connected. */
  open(): void {
    this.#stayOpen();
    this.#isWanted = true;
    if (this.#running !== undefined) return;
    this.#stop = new AbortController();
    this.#running = this.#run(this.#stop.signal).finally(() => {
      this.#running = undefined;
      // Opened again between the decision to end and the end.
      if (this.#isWanted) this.open();
    });
  }

  /** Nobody waits: close after a while, unless somebody comes. */
  release(): void {
    if (!this.#isWanted) return;
    // In the background: the open connection keeps the process alive until then, and nothing else should.
    this.#cancelIdle ??= startTimer(this.#deps.tuning.streamIdleMs, () => void this.close(), true);
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
    const { runtime, trackers, tuning } = this.#deps;
    const nowMs = runtime.monotonicMs;
    while (!stop.aborted) {
      const url = trackers.pick(nowMs());
      this.#failures += 1;
      let error: unknown;
      try {
        await this.#connect(url, stop);
      } catch (cause) {
        error = cause;
      }
      runtime.observe({ type: "stream_closed", url, error });
      if (stop.aborted) return;
      if (error !== undefined) {
        // The tracker may be well all the same, and only streams not come through. Few clients ever need that.
        const { poll } = await import("./seldom.ts");
        if (await poll(this.#deps, url, stop)) {
          this.#failures = 0;
          continue;
        }
        trackers.failed(url, nowMs());
        if (this.#failures <= trackers.size && trackers.hasAwake(nowMs())) continue;
      }
      const { backoffBaseMs, backoffMaxMs } = tuning;
      const delayMs = fullJitter(this.#failures, backoffBaseMs, backoffMaxMs, runtime.random());
      await sleep(delayMs, stop, true).catch(() => undefined);
    }
  }

  /** Reads one connection to its end. Rejects when it cannot be opened, breaks before its first event, or falls silent. */
  async #connect(url: string, stop: AbortSignal): Promise<void> {
    const { runtime, tuning, headers, trackers } = this.#deps;
    const connection = new AbortController();
    const forget = whenAborted(stop, () => {
      connection.abort();
    });
    let cancelSilence: (() => void) | undefined;
    const expectWord = (withinMs: number): void => {
      cancelSilence?.();
      const silent = (): void => {
        connection.abort(new Error("the stream is silent"));
      };
      cancelSilence = startTimer(withinMs, silent, true);
    };
    let hasSpoken = false;
    try {
      expectWord(tuning.streamOpenMs);
      const {
        body,
        ok,
        status,
        headers: answered,
      } = await runtime.fetch(`${url}/v1/durability/stream`, {
        headers: {
          accept: "text/event-stream",
          ...headers,
          ...(this.#lastEventId && { "last-event-id": this.#lastEventId }),
        },
        signal: connection.signal,
      });
      if (!ok || !body || !/^text\/event-stream/.test(answered.get("content-type") ?? ""))
        throw new Error(`no stream: status ${String(status)}`);
      runtime.observe({ type: "stream_open", url });
      const parser = new SseParser(this.#lastEventId);
      const reader: { read(): Promise<{ done: boolean; value?: Uint8Array | undefined }> } = body.getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done || !value || connection.signal.aborted) return;
        expectWord(tuning.streamSilenceMs);
        for (const event of parser.push(value)) {
          hasSpoken = true;
          this.#failures = 0;
          trackers.succeeded(url);
          this.#lastEventId = event.lastEventId;
          this.#dispatch(event.type, event.data);
        }
      }
    } catch (error) {
      // One that has spoken does come through: that it broke is a reason to connect again, and no other.
      if (!hasSpoken || connection.signal.aborted) throw error;
    } finally {
      cancelSilence?.();
      forget();
      // Ends also an answer that was no stream.
      connection.abort();
    }
  }

  /** What is none of these is an event of the future: it says nothing to this client. */
  #dispatch(type: string, data: string): void {
    let body: unknown;
    try {
      body = JSON.parse(data);
    } catch {
      return;
    }
    if (type === "mark" && isMarks(body)) this.#deps.onMarks(body);
    else if (type === "epoch" && isEpochEvent(body)) this.#deps.onEpochs(body.epochs);
    else if ((type === "stalled" || type === "recovered") && isStallEvent(body))
      this.#deps.runtime.observe({ type, level: body.level });
  }
}
