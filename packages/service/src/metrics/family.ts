// The values of a metric's series at one moment, ready for exposure.
import { type Metric } from "./definition.ts";

export type Labels = Readonly<Record<string, string>>;

export interface Sample {
  readonly labels: Labels;
  readonly value: number;
}

export interface Distribution {
  readonly labels: Labels;
  /** For each bucket, observations in it and in no lower one. The last has no upper bound. */
  readonly counts: readonly number[];
  readonly sum: number;
  readonly count: number;
}

/** One metric with its current values. */
export interface Family {
  readonly metric: Metric;
  readonly samples: readonly Sample[];
  readonly distributions: readonly Distribution[];
}
