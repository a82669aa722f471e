// What the console knows of the tracker now: follows its stream of marks and reads its metrics. A
// stream can bring a thousand marks a second, so what views see changes only a few times a second.
import { batch, signal } from "@preact/signals";
import type {
  BlindEvent,
  EpochEvent,
  EpochRecord,
  ExposureReport,
  Marks,
  MarksResponse,
  StallEvent,
} from "@highwater/protocol";
import { type Buckets, type Clock, quantileBetween, sleep } from "@highwater/runtime";
import { type Api, messageOf } from "./api.ts";
import { begunText } from "./epoch-text.ts";
import { MarkHistory } from "./mark-history.ts";
import {
  type Authority,
  authorityIn,
  bucketsIn,
  commitIn,
  epochAgeIn,
  type LevelRow,
  levelsIn,
  type NodeRow,
  nodesIn,
  parseMetrics,
  type Samples,
} from "./metrics-text.ts";
import { makeSoon } from "./timing.ts";

const SHOW_MS = 200;
const METRICS_MS = 2_000;
/** Five minutes of the plots. */
const MAX_POINTS = 150;
const MAX_HAPPENINGS = 50;

/** Of one reading of the metrics. Lists are in the order of the levels. Null: nothing to show. */
export interface Point {
  readonly atMs: number;
  readonly commitMs: number | null;
  readonly durableMs: readonly (number | null)[];
  readonly lagBytes: readonly (number | null)[];
}

export interface Happening {
  readonly atMs: number;
  readonly text: string;
  readonly isBad: boolean;
}

export interface Measured {
  readonly nodes: readonly NodeRow[];
  readonly levels: readonly LevelRow[];
  readonly authority: Authority;
  readonly epochAgeMs: number | null;
}

export class Live {
  readonly connection = signal<"connecting" | "live" | "lost">("connecting");
  readonly fault = signal("");
  readonly isBlind = signal(false);
  readonly levels = signal<readonly string[]>([]);
  readonly marks = signal<Marks | null>(null);
  /** The current epoch and its ancestors, oldest first. */
  readonly epochs = signal<readonly EpochRecord[]>([]);
  readonly exposure = signal<ExposureReport | null>(null);
  readonly happenings = signal<readonly Happening[]>([]);
  /** Null: the tracker's metrics have not been read. */
  readonly measured = signal<Measured | null>(null);
  readonly metricsFault = signal("");
  readonly points = signal<readonly Point[]>([]);
  readonly history = new MarkHistory();
  readonly #api: Api;
  readonly #clock: Clock;
  readonly #stop = new AbortController();
  readonly #buckets = new Map<string, Buckets>();
  readonly #showSoon: () => void;
  #newestMarks: Marks | null = null;
  #newestExposure: ExposureReport | null = null;

  constructor(api: Api, clock: Clock) {
    this.#api = api;
    this.#clock = clock;
    this.#showSoon = makeSoon(clock, SHOW_MS, () => {
      batch(() => {
        this.marks.value = this.#newestMarks;
        this.exposure.value = this.#newestExposure;
      });
    });
  }

  start(): void {
    const { signal: stop } = this.#stop;
    void this.#api.follow({
      path: "/v1/durability/stream?exposure=true",
      signal: stop,
      onMessage: ({ event, data }) => {
        this.#take(event ?? "", JSON.parse(data));
      },
      onConnected: (isConnected, fault) => {
        this.connection.value = isConnected ? "live" : "lost";
        this.fault.value = fault;
        if (isConnected) void this.#readLevels();
      },
    });
    void this.#keepMeasuring();
  }

  stop(): void {
    this.#stop.abort();
  }

  #take(event: string, data: unknown): void {
    if (event === "mark") {
      const marks = data as Marks;
      this.history.note(this.#clock.wallMs(), marks);
      this.#newestMarks = marks;
      this.#showSoon();
    } else if (event === "exposure") {
      this.#newestExposure = data as ExposureReport;
      this.#showSoon();
    } else if (event === "epoch") this.#takeEpochs((data as EpochEvent).epochs);
    else if (event === "blind") {
      const { blind } = data as BlindEvent;
      if (blind !== this.isBlind.peek())
        this.#happened(
          blind
            ? "The tracker is blind: the primary does not answer it."
            : "The tracker sees the primary again.",
          blind,
        );
      this.isBlind.value = blind;
    } else if (event === "stalled" || event === "recovered") {
      const { level, pending } = data as StallEvent;
      if (event === "stalled")
        this.#happened(`Level ${level} is stalled: ${String(pending)} transactions wait for its mark.`, true);
      else this.#happened(`Level ${level} has recovered.`, false);
    }
  }

  #takeEpochs(epochs: readonly EpochRecord[]): void {
    const before = this.epochs.peek().at(-1);
    const current = epochs.at(-1);
    if (before !== undefined && current !== undefined && before.id !== current.id)
      this.#happened(`${begunText(current)}.`, true);
    this.epochs.value = epochs;
  }

  #happened(text: string, isBad: boolean): void {
    const happening = { atMs: this.#clock.wallMs(), text, isBad };
    this.happenings.value = [happening, ...this.happenings.peek()].slice(0, MAX_HAPPENINGS);
  }

  async #readLevels(): Promise<void> {
    try {
      const { levels } = await this.#api.get<MarksResponse>("/v1/durability/marks");
      this.levels.value = levels;
    } catch (cause) {
      this.fault.value = messageOf(cause);
    }
  }

  async #keepMeasuring(): Promise<void> {
    const { signal: stop } = this.#stop;
    while (!stop.aborted) {
      try {
        this.#measure(parseMetrics(await this.#api.text("/metrics")));
        this.metricsFault.value = "";
      } catch (cause) {
        this.metricsFault.value = messageOf(cause);
      }
      await sleep(this.#clock, METRICS_MS, stop);
    }
  }

  #measure(samples: Samples): void {
    const levels = this.levels.peek();
    const rows = levelsIn(samples, levels);
    const durableMs = levels.map((level) => {
      const buckets = bucketsIn(samples, level);
      const before = this.#buckets.get(level) ?? [];
      this.#buckets.set(level, buckets);
      return quantileBetween(before, buckets, 0.5);
    });
    const point = {
      atMs: this.#clock.wallMs(),
      commitMs: commitIn(samples),
      durableMs,
      lagBytes: rows.map(({ lagBytes }) => lagBytes),
    };
    batch(() => {
      this.measured.value = {
        nodes: nodesIn(samples),
        levels: rows,
        authority: authorityIn(samples),
        epochAgeMs: epochAgeIn(samples),
      };
      if (levels.length > 0) this.points.value = [...this.points.peek(), point].slice(-MAX_POINTS);
    });
  }
}
