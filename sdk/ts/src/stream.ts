// The one event stream of a client: opened when somebody waits, closed a while after nobody does, and kept alive in
// between across cuts, silence and dead endpoints. Where none gets through, as behind a proxy that holds answers back until
// they are whole, marks are asked for instead. Owns the connection; what events mean is the business of the watcher.
import { type EndpointPool } from "./endpoints.ts";
import { fullJitter, type Runtime, sleep, startTimer } from "./runtime.ts";
import { SseParser } from "./sse.ts";
import { type Tuning } from "./tuning.ts";
import { exchange } from "./transport.ts";
import {
  type EpochRecord,
  isEpochEvent,
  isMarks,
  isMarksResponse,
  isStallEvent,
  type Marks,
  type StallEvent,
} from "./wire.ts";

export interface StreamDeps {
  readonly runtime: Runtime;
  readonly trackers: EndpointPool;
  readonly tuning: Tuning;
  readonly headers: Readonly<Record<string, string>>;
  readonly onMarks: (marks: Marks) => void;
  readonly onEpochs: (epochs: readonly EpochRecord[]) => void;
}

export const STREAM_PATH = "/v1/durability/stream";
const MARKS_PATH = "/v1/durability/marks";

export class DurabilityStream {
  readonly #deps: StreamDeps;
  #wanted = false;
  #running: Promise<void> | null = null;
  #stop = new AbortController();
  #cancelIdle: (() => void) | null = null;
  #lastEventId = "";
  #failures = 0;

  constructor(deps: StreamDeps) {
    this.#deps = deps;
  }

  /** Somebody waits: connect, or stay connected. */
  open(): void {
    this.#cancelIdle?.();
    this.#cancelIdle = null;
    this.#wanted = true;
    if (this.#running !== null) return;
    this.#stop = new AbortController();
    this.#running = this.#run(this.#stop.signal).finally(() => {
      this.#running = null;
      // Opened again between the decision to end and the end.
      if (this.#wanted) this.open();
    });
  }

  /** Nobody waits: close after a while, unless somebody comes. */
  release(): void {
    if (!this.#wanted || this.#cancelIdle !== null) return;
    // In the background: the open connection keeps the process alive until then, and nothing else should.
    this.#cancelIdle = startTimer(this.#deps.tuning.streamIdleMs, () => void this.close(), {
      background: true,
    });
  }

  async close(): Promise<void> {
    this.#cancelIdle?.();
    this.#cancelIdle = null;
    this.#wanted = false;
    this.#stop.abort();
    await this.#running;
  }

  async #run(stop: AbortSignal): Promise<void> {
    const { runtime, trackers, tuning } = this.#deps;
    while (!stop.aborted) {
      const url = trackers.pick(runtime.monotonicMs());
      this.#failures += 1;
      try {
        await this.#connect(url, stop);
        runtime.log.debug?.("stream ended", { url });
      } catch (error) {
        if (stop.aborted) return;
        runtime.log.warn?.("stream failed", { url, error });
        // The tracker may be well all the same, and only streams not come through.
        if (await this.#poll(url, stop)) continue;
        trackers.failed(url, runtime.monotonicMs());
        if (this.#failures <= trackers.size && trackers.hasAwake(runtime.monotonicMs())) continue;
      }
      const delayMs = fullJitter(this.#failures, {
        ...{ baseMs: tuning.backoffBaseMs, maxMs: tuning.backoffMaxMs, random: runtime.random() },
      });
      await sleep(delayMs, stop, true).catch(() => undefined);
    }
  }

  /** Asks for marks for a while, rarer while they do not rise. False when even the first question gets no answer. */
  async #poll(url: string, stop: AbortSignal): Promise<boolean> {
    const { runtime, tuning, headers } = this.#deps;
    const untilMs = runtime.monotonicMs() + tuning.pollForMs;
    let newest = "";
    for (let same = 0, polls = 0; ; polls += 1) {
      try {
        const request = { url: `${url}${MARKS_PATH}`, headers, timeoutMs: tuning.streamOpenMs, signal: stop };
        const { body } = await exchange(runtime, request);
        if (!isMarksResponse(body)) return polls > 0;
        this.#failures = 0;
        if (body.epochs.length > 0) this.#deps.onEpochs(body.epochs);
        if (body.marks !== null) this.#deps.onMarks(body.marks);
        const text = JSON.stringify(body.marks);
        same = text === newest ? same + 1 : 0;
        newest = text;
        const delayMs = Math.min(tuning.pollMaxMs, tuning.pollBaseMs * 2 ** Math.min(same, 20));
        await sleep(delayMs * (0.75 + runtime.random() / 2), stop, true);
      } catch {
        return polls > 0 && !stop.aborted;
      }
      if (stop.aborted || runtime.monotonicMs() > untilMs) return true;
    }
  }

  /** Reads one connection to its end. Rejects when it cannot be opened, breaks, or falls silent. */
  async #connect(url: string, stop: AbortSignal): Promise<void> {
    const { runtime, tuning, headers } = this.#deps;
    const connection = new AbortController();
    const onStop = (): void => {
      connection.abort();
    };
    stop.addEventListener("abort", onStop, { once: true });
    let cancelSilence = (): void => undefined;
    const expectWord = (withinMs: number): void => {
      cancelSilence();
      const silent = (): void => {
        connection.abort(new Error("the stream is silent"));
      };
      cancelSilence = startTimer(withinMs, silent, { background: true });
    };
    const heard = (): void => {
      expectWord(tuning.streamSilenceMs);
    };
    try {
      expectWord(tuning.streamOpenMs);
      const response = await runtime.fetch(`${url}${STREAM_PATH}`, {
        headers: {
          accept: "text/event-stream",
          ...headers,
          ...(this.#lastEventId === "" ? {} : { "last-event-id": this.#lastEventId }),
        },
        signal: connection.signal,
      });
      const type = response.headers.get("content-type") ?? "";
      if (!response.ok || response.body === null || !type.startsWith("text/event-stream")) {
        await response.body?.cancel();
        throw new Error(`the stream answers status ${String(response.status)} of type ${type}`);
      }
      runtime.log.debug?.("stream opened", { url });
      await this.#read(response.body.getReader(), { url, heard, signal: connection.signal });
    } finally {
      cancelSilence();
      stop.removeEventListener("abort", onStop);
      connection.abort();
    }
  }

  async #read(
    reader: { read(): Promise<{ done: boolean; value?: Uint8Array | undefined }> },
    options: { url: string; heard: () => void; signal: AbortSignal },
  ): Promise<void> {
    const parser = new SseParser(this.#lastEventId);
    for (;;) {
      const { done, value } = await reader.read();
      if (done || value === undefined || options.signal.aborted) return;
      options.heard();
      for (const event of parser.push(value)) {
        this.#failures = 0;
        this.#deps.trackers.succeeded(options.url);
        this.#lastEventId = event.lastEventId;
        this.#dispatch(event.type, event.data);
      }
    }
  }

  #dispatch(type: string, data: string): void {
    const { log } = this.#deps.runtime;
    let body: unknown;
    try {
      body = JSON.parse(data);
    } catch {
      body = undefined;
    }
    if (type === "mark" && isMarks(body)) this.#deps.onMarks(body);
    else if (type === "epoch" && isEpochEvent(body)) this.#deps.onEpochs(body.epochs);
    else if (type === "stalled" && isStallEvent(body)) log.warn?.("level stalled", stallFields(body));
    else if (type === "recovered" && isStallEvent(body)) log.info?.("level recovered", stallFields(body));
    // Also an event of the future: it says nothing to this client.
    else log.debug?.("stream event passed over", { type });
  }
}

function stallFields(event: StallEvent): Record<string, unknown> {
  return { level: event.level, epoch: event.epoch, offset: event.offset, pending: event.pending };
}
