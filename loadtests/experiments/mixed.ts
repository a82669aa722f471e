// Experiment 2, mixed workload (thesis figures 4.2 and 4.3): inserts at a fixed rate; a share of
// them is fast. Do fast ones stay as fast beside safe ones, and does the mean fall with their
// share?
import { middleOf } from "../rounds/figures.ts";
import type { Turn } from "../rounds/turns.ts";
import { type Measurement, workloadOf } from "./bench.ts";
import { type Experiment, type Findings, NEAR_MS } from "./experiment.ts";
import { bar } from "../rounds/bars.ts";
import type { Way } from "./load/target.ts";
import type { Group } from "./load/worker.ts";
import { insertTable } from "./load/workload.ts";

const TABLE = "mixed_test";
const PER_SECOND = 1_000;
const CLIENTS = 96;
const RETRIES = 100;
const SHARES = [0, 0.25, 0.5, 0.75, 1] as const;
const SYSTEMS = { Highwater: ["fast", "safe"], PostgreSQL: ["direct_off", "direct_on"] } as const;
/** "Practically unchanged" in the thesis. */
const MIXED_MAX = 1.25;

const CONDITIONS = { link_ms: NEAR_MS };
const rowAt = (system: string, share: number): string => `${system}, ${String(share)} fast`;

export const mixed: Experiment = {
  name: "mixed",
  settings: { perSecond: PER_SECOND, clients: CLIENTS, shares: SHARES, retries: RETRIES },
  prepare: (system) => system.createTables(insertTable(TABLE), [TABLE]),
  measurements: () =>
    SHARES.flatMap((share) =>
      Object.entries(SYSTEMS).map(([system, [fast, safe]]): Measurement => ({
        conditions: CONDITIONS,
        row: rowAt(system, share),
        labels: { system, share_fast: share },
        linkMs: NEAR_MS,
        groups: [group(fast, share), group(safe, 1 - share)].filter(({ perSecond }) => perSecond !== 0),
      })),
    ),
  judge,
};

function group(way: Way, share: number): Group {
  return {
    name: way,
    way,
    workload: { kind: "insert", table: TABLE },
    isolation: "serializable",
    clients: CLIENTS,
    perSecond: PER_SECOND * share,
    retries: RETRIES,
  };
}

function judge(turns: readonly Turn[]): Findings {
  const workload = workloadOf(CONDITIONS);
  const fastAt = (share: number, { round }: Turn): number =>
    middleOf(
      turns.filter((turn) => turn.round === round),
      { workload, row: rowAt("Highwater", share) },
      ({ figures }) => figures["fast mean_ms"] ?? Number.NaN,
    );
  const row = rowAt("Highwater", 0.5);
  const mean = middleOf(turns, { workload, row }, (turn) => fastAt(0.5, turn) / fastAt(1, turn));
  return {
    ratios: { "mean of fast in a mix of halves to fast alone, 16 ms": mean },
    bars: [
      bar(`16 ms: mean of fast in a mix of halves at most ${String(MIXED_MAX)} times fast alone`, mean, {
        max: MIXED_MAX,
      }),
    ],
  };
}
