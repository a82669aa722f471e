// The values of a metric's series at one moment, ready to be exposed.
import { type Metric } from "./definition.ts";

export type Labels = Readonly<Record<string, string>>;

export interface Sample {
  readonly labels: Labels;
  readonly value: number;
}

export interface Distribution {
  readonly labels: Labels;
  /** For each bucket those that are in it and in none below; the last one's bound is infinite. */
  readonly counts: readonly number[];
  readonly sum: number;
  readonly count: number;
}

/** One metric as it stands now. */
export interface Family {
  readonly metric: Metric;
  readonly samples: readonly Sample[];
  readonly distributions: readonly Distribution[];
}
