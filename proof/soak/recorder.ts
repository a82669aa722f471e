// The measured lines, by metric and then by process or table.
import type { Point } from "./growth.ts";
import { METRIC_NAMES, type MetricName } from "./metrics.ts";

export type Lines = ReadonlyMap<string, readonly Point[]>;

export class Recorder {
  readonly #metrics = new Map<MetricName, Map<string, Point[]>>(
    METRIC_NAMES.map((name) => [name, new Map()]),
  );
  readonly #startedMs = performance.now();

  get elapsedS(): number {
    return (performance.now() - this.#startedMs) / 1_000;
  }

  /** Leaves out values that could not be measured. */
  add(metric: MetricName, line: string, value: number | null | undefined, life = 0): void {
    if (value === null || value === undefined || !Number.isFinite(value)) return;
    const lines = this.#metrics.get(metric);
    const points = lines?.get(line);
    const point = { atS: this.elapsedS, value, life };
    if (points === undefined) lines?.set(line, [point]);
    else points.push(point);
  }

  of(metric: MetricName): Lines {
    return this.#metrics.get(metric) ?? new Map();
  }
}
