// The one stream of marks, epochs and exposure, from the nearest tracker in reach. Owns connecting,
// the detection of silence, and switching to the next tracker; its subscribers interpret the
// events.
import {
  BlindEvent,
  EpochEvent,
  type EpochRecord,
  ExposureReport,
  Marks,
  validate,
  type Validation,
} from "@highwater/protocol";
import { sleep } from "@highwater/runtime";
import { hostOf } from "@highwater/service";
import { type Deps } from "../deps.ts";
import { type TrackerOrder } from "./order.ts";
import { readSse, type SseEvent } from "./sse.ts";

export interface TrackerStreamOptions {
  readonly trackers: TrackerOrder;
  readonly onEpochs: (ancestry: readonly EpochRecord[]) => void;
  readonly onMarks: (marks: Marks) => void;
  readonly onExposure: (report: ExposureReport) => void;
  /** The stream is open, and has just said something. */
  readonly onContact: () => void;
  /** Every tracker was tried once, in vain. */
  readonly onAllFailed: () => void;
}

/** Trackers send a comment about every five seconds. */
const SILENCE_MS = 15_000;
const BACKOFF_MS_MIN = 50;
const BACKOFF_MS_MAX = 2_000;
/**
 * A stream from a tracker farther away is given up this often, to see whether a nearer one is back.
 */
const NEARER_AFTER_MS = 60_000;
/**
 * After a blind tracker, another one has so long to open its stream. At a failover all trackers are
 * blind for a moment, and that of the lost region does not answer: the blind ones see again sooner
 * than a connection to it fails.
 */
const OPEN_AFTER_BLIND_MS = 1_000;

export class TrackerStream {
  readonly #deps: Pick<Deps, "clock" | "rng" | "log" | "transport">;
  readonly #options: TrackerStreamOptions;
  readonly #stop = new AbortController();
  /** Ids mean something only to the tracker that gave them. */
  readonly #lastIds = new Map<string, string>();
  /** Why a tracker could not be reached, once that is logged. */
  readonly #unreached = new Map<string, string>();
  #connected: string | null = null;
  /** What the connected tracker says of itself. */
  #isBlind = false;
  /** The last tracker that was connected is blind. */
  #hasLeftBlind = false;

  constructor(deps: Pick<Deps, "clock" | "rng" | "log" | "transport">, options: TrackerStreamOptions) {
    this.#deps = deps;
    this.#options = options;
  }

  /** The tracker whose stream is open. */
  get connected(): string | null {
    return this.#connected;
  }

  /**
   * The open stream is of a tracker that does not see the primary: no other was found that does.
   */
  get isBlind(): boolean {
    return this.#connected !== null && this.#isBlind;
  }

  start(): void {
    if (this.#options.trackers.all.length > 0) void this.#run();
  }

  stop(): void {
    this.#stop.abort();
  }

  async #run(): Promise<void> {
    const { clock, rng } = this.#deps;
    let failures = 0;
    while (!this.#stop.signal.aborted) {
      let delivered = false;
      const { trackers } = this.#options;
      for (const tracker of trackers.inOrder()) {
        if (this.#stop.signal.aborted) return;
        delivered = await this.#follow(tracker, tracker !== trackers.all[0]);
        // It worked and then ended: begin again with the nearest.
        if (delivered) break;
      }
      if (!delivered) {
        this.#hasLeftBlind = false;
        this.#options.onAllFailed();
      }
      failures = delivered ? 0 : failures + 1;
      const ceiling = Math.min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2 ** Math.min(failures, 16));
      await sleep(clock, ceiling * (0.5 + 0.5 * rng.random()), this.#stop.signal);
    }
  }

  /** Follows one tracker to the end of its stream; true when it has said anything. */
  async #follow(tracker: string, isFar: boolean): Promise<boolean> {
    const { clock, transport, log } = this.#deps;
    const connection = new AbortController();
    const abort = (): void => {
      connection.abort();
    };
    this.#stop.signal.addEventListener("abort", abort, { once: true });
    const cancelReturn = isFar ? clock.after(NEARER_AFTER_MS, abort) : (): void => undefined;
    const cancelOpening = this.#hasLeftBlind
      ? clock.after(OPEN_AFTER_BLIND_MS, abort)
      : (): void => undefined;
    let cancelSilence = clock.after(SILENCE_MS, abort);
    let delivered = false;
    try {
      const lastId = this.#lastIds.get(tracker);
      const headers = { accept: "text/event-stream", ...(lastId && { "last-event-id": lastId }) };
      const answer = await transport.open(
        `${tracker}/v1/durability/stream?exposure=true`,
        headers,
        connection.signal,
      );
      if (answer.status !== 200) {
        abort();
        throw new Error(`the tracker answered ${String(answer.status)}`);
      }
      cancelOpening();
      log.info("tracker_stream_opened", { tracker: hostOf(tracker) });
      this.#unreached.delete(tracker);
      this.#connected = tracker;
      this.#isBlind = false;
      const observed = async function* (chunks: AsyncIterable<Uint8Array>, onChunk: () => void) {
        for await (const chunk of chunks) {
          onChunk();
          yield chunk;
        }
      };
      const onChunk = (): void => {
        delivered = true;
        cancelSilence();
        cancelSilence = clock.after(SILENCE_MS, abort);
        this.#options.onContact();
      };
      for await (const event of readSse(observed(answer.chunks, onChunk))) {
        if (event.id !== undefined) this.#lastIds.set(tracker, event.id);
        this.#take(event, tracker);
        if (this.#isBlind && this.#options.trackers.hasSeeing)
          throw new Error("the tracker is blind: it gets nothing from the primary, and another one may");
      }
      throw new Error("the tracker ended the stream");
    } catch (cause) {
      if (this.#stop.signal.aborted) return delivered;
      if (delivered || this.#connected === tracker)
        log.warn("tracker_stream_lost", { tracker: hostOf(tracker), cause });
      else this.#noteUnreached(tracker, cause);
      return delivered;
    } finally {
      if (this.#connected === tracker) this.#hasLeftBlind = this.#isBlind;
      this.#connected = null;
      cancelReturn();
      cancelOpening();
      cancelSilence();
      abort();
      this.#stop.signal.removeEventListener("abort", abort);
    }
  }

  /** Once for each reason: it is tried again and again. */
  #noteUnreached(tracker: string, cause: unknown): void {
    // It sees no more than the blind one does, so that one is not left for it again at once.
    if (this.#hasLeftBlind) this.#options.trackers.note(tracker, true);
    const reason = String(cause);
    if (this.#unreached.get(tracker) === reason) return;
    this.#unreached.set(tracker, reason);
    this.#deps.log.warn("tracker_not_reached", { tracker: hostOf(tracker), cause });
  }

  #take(event: SseEvent, tracker: string): void {
    if (event.event === "epoch") {
      const checked = parse(event.data, (value) => validate(EpochEvent, value));
      if (checked.ok) this.#options.onEpochs(checked.value.epochs);
      else this.#refuse(event, checked.faults);
    } else if (event.event === "mark") {
      const checked = parse(event.data, (value) => validate(Marks, value));
      if (checked.ok) this.#options.onMarks(checked.value);
      else this.#refuse(event, checked.faults);
    } else if (event.event === "exposure") {
      const checked = parse(event.data, (value) => validate(ExposureReport, value));
      if (checked.ok) this.#options.onExposure(checked.value);
      else this.#refuse(event, checked.faults);
    } else if (event.event === "blind") {
      const checked = parse(event.data, (value) => validate(BlindEvent, value));
      if (checked.ok) this.#noteBlind(tracker, checked.value.blind);
      else this.#refuse(event, checked.faults);
    }
  }

  #noteBlind(tracker: string, isBlind: boolean): void {
    if (isBlind !== this.#isBlind)
      this.#deps.log.warn("tracker_blind", { tracker: hostOf(tracker), blind: isBlind });
    this.#isBlind = isBlind;
    this.#options.trackers.note(tracker, isBlind);
  }

  #refuse(event: SseEvent, faults: readonly string[]): void {
    this.#deps.log.warn("tracker_event_refused", { kind: event.event, faults });
  }
}

function parse<T>(text: string, check: (value: unknown) => Validation<T>): Validation<T> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { ok: false, faults: ["/: is not JSON"] };
  }
  return check(value);
}
