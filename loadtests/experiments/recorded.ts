// What a run of an experiment leaves in its file of results.
import { readFileSync } from "node:fs";
import { RESULTS } from "../record.ts";
import type { Result as RoundsResult } from "../rounds/bars.ts";
import type { Cell } from "../rounds/figures.ts";
import type { Recorded as RecordedRun } from "../rounds/page.ts";
import type { Labels } from "./bench.ts";
import type { Findings, Mode, Sizes } from "./experiment.ts";

export interface LabelledCell extends Cell {
  /** Its values on the figures' axes. */
  readonly labels: Labels;
}

export interface Result extends RoundsResult, Findings {
  readonly experiment: string;
  readonly mode: Mode;
  readonly settings: Sizes & Readonly<Record<string, unknown>>;
  readonly cells: readonly LabelledCell[];
}

export type Recorded = Result & RecordedRun & { readonly seconds: number };

/** Null: there is no result yet. */
export function readRecorded(mode: Mode, name: string): Recorded | null {
  try {
    return JSON.parse(readFileSync(new URL(`experiments/${mode}/${name}.json`, RESULTS), "utf8")) as Recorded;
  } catch (cause) {
    if ((cause as { code?: unknown }).code === "ENOENT") return null;
    throw cause;
  }
}
