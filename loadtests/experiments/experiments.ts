// All experiments, in the order of a run and of the page.
import { auction } from "./auction.ts";
import { contention } from "./contention.ts";
import type { Experiment } from "./experiment.ts";
import { groups } from "./groups.ts";
import { latency } from "./latency.ts";
import { mixed } from "./mixed.ts";
import { session } from "./session.ts";
import { tpcc } from "./tpcc.ts";

export const EXPERIMENTS: readonly Experiment[] = [
  ...[latency, mixed, contention, tpcc, auction, groups, session],
];
