// An experiment: its measurements, the tables that they need, and what follows from the turns.
import type { Result } from "../rounds/bars.ts";
import type { Turn } from "../rounds/turns.ts";
import type { Bench, Measurement, Times } from "./bench.ts";
import type { Peak } from "./figures.ts";
import type { Isolation } from "@highwater/protocol";
import type { Group } from "./load/worker.ts";
import type { ExperimentSystem } from "./system.ts";

export type Mode = "quick" | "full";

export interface Findings extends Pick<Result, "ratios" | "bars"> {
  /** Where ways are compared each at its best load. */
  readonly peaks?: readonly Peak[];
}

export interface Experiment {
  readonly name: string;
  /** More environment for the gateway. Default: none. */
  readonly gatewayEnv?: Readonly<Record<string, string>>;
  /** With a gateway of its own beside the replica. */
  readonly withFarGateway?: boolean;
  /** Clients, rows and so on, for the result. */
  readonly settings: Readonly<Record<string, unknown>>;
  prepare(system: ExperimentSystem, mode: Mode): Promise<void>;
  measurements(mode: Mode): readonly Measurement[];
  /** Instead of `bench.measure`. */
  measure?(bench: Bench, measurement: Measurement, times: Times): ReturnType<Bench["measure"]>;
  /** Errors: the tables contradict what was answered. */
  check?(system: ExperimentSystem): Promise<void>;
  judge(turns: readonly Turn[]): Findings;
}

export interface Sizes extends Times {
  readonly rounds: number;
  readonly headlineS: number;
}

export const SIZES: Readonly<Record<Mode, Sizes>> = {
  quick: { rounds: 1, warmUpS: 0.3, windowS: 1, headlineS: 1 },
  full: { rounds: 3, warmUpS: 1, windowS: 8, headlineS: 30 },
};
/** The longest that a run may take, with the turns that are taken again. */
export const RUN_S_MAX = 7_200;
export const HEADLINES_MAX = 10;
/** Around each turn: opening clients, waiting for the replica and for stragglers. */
const AROUND_S = 1.5;
/** Servers, services and tables of one experiment. */
const SET_UP_S = 45;

/** Round trips of the links: a zone, a near region, a far one. */
export const LINKS_MS = [1, 16, 62] as const;
/** The link of the papers' figure 8. */
export const ZONE_MS = 1;
export const NEAR_MS = 16;

export function plannedSeconds(experiment: Experiment, mode: Mode): number {
  const { rounds, warmUpS } = SIZES[mode];
  const turns = experiment
    .measurements(mode)
    .map((each) => AROUND_S + warmUpS + windowS(each, mode) + (each.behindS ?? 0));
  return SET_UP_S + rounds * turns.reduce((sum, each) => sum + each, 0);
}

export function windowS({ isHeadline }: Pick<Measurement, "isHeadline">, mode: Mode): number {
  return isHeadline === true ? SIZES[mode].headlineS : SIZES[mode].windowS;
}

/** A row of one group of clients. */
export function rowOf(
  row: string,
  group: Omit<Group, "name" | "isolation"> & { readonly isolation?: Isolation },
  more: Omit<Measurement, "row" | "groups">,
): Measurement {
  const labels = { way: group.way, ...more.labels };
  return { ...more, row, labels, groups: [{ isolation: "serializable", ...group, name: row }] };
}
