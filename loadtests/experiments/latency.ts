// Experiment 1, latency by placement (thesis figures 1.1 and 4.1, paper figures 5 and 6): what a
// commit costs with its replica in another zone, in a near region and in a far one.
import { compared, middleOf } from "../rounds/figures.ts";
import type { Turn } from "../rounds/turns.ts";
import { type Measurement, workloadOf } from "./bench.ts";
import { type Experiment, type Findings, LINKS_MS, NEAR_MS, rowOf, ZONE_MS } from "./experiment.ts";
import { bar } from "../rounds/bars.ts";
import type { Way } from "./load/target.ts";
import type { Group } from "./load/worker.ts";
import { keyValueTable, type Workload } from "./load/workload.ts";

const TABLE = "latency_test";
const ROWS = { quick: 100_000, full: 1_000_000 };
const RETRIES = 100;
const ALONE: readonly Way[] = ["fast", "safe", "direct_off", "direct_local", "direct_on"];
const NEAR_ONLY: readonly Way[] = ["sdk_fast", "sdk_safe"];
const HEADLINES: ReadonlySet<Way> = new Set(["fast", "safe", "direct_off", "direct_on"]);
const TOGETHER = "Highwater";

const BARS = {
  fastShareMax: 1 / 15,
  safeNearMax: 1.06,
  safeZoneMax: 1.4,
  fastAddedMsMax: 0.35,
  safeReadsMax: 1.5,
};

/** `alone`: one client, as in paper figure 5. `together`: four at once, as in paper figure 6. */
const at = (part: "alone" | "together", linkMs: number) => ({ part, link_ms: linkMs });
const alone = (linkMs: number): string => workloadOf(at("alone", linkMs));

export const latency: Experiment = {
  name: "latency",
  settings: { rows: ROWS, retries: RETRIES },
  prepare: (system, mode) => system.createTables(keyValueTable(TABLE, ROWS[mode]), [TABLE]),
  measurements: (mode) => {
    const workload = (kind: "update" | "read"): Workload => ({ kind, table: TABLE, rows: ROWS[mode] });
    return LINKS_MS.flatMap((linkMs) => [
      ...[...ALONE, ...(linkMs === NEAR_MS ? NEAR_ONLY : [])].map((way) =>
        rowOf(
          way,
          { way, workload: workload("update"), clients: 1, retries: RETRIES },
          {
            conditions: at("alone", linkMs),
            linkMs,
            isHeadline: linkMs === NEAR_MS && HEADLINES.has(way),
          },
        ),
      ),
      ...together(linkMs, workload),
    ]);
  },
  judge,
};

/** On both sides two clients update, and two read. */
function together(linkMs: number, workload: (kind: "update" | "read") => Workload): Measurement[] {
  const group = (way: Way, kind: "update" | "read", name: string, clients: number): Group => ({
    name,
    way,
    workload: workload(kind),
    isolation: "serializable",
    clients,
    retries: RETRIES,
  });
  const conditions = { conditions: at("together", linkMs), linkMs };
  return [
    {
      ...conditions,
      row: TOGETHER,
      groups: (["fast", "safe"] as const).flatMap((way) => [
        group(way, "update", `${way} updates`, 1),
        group(way, "read", `${way} reads`, 1),
      ]),
    },
    {
      ...conditions,
      row: "PostgreSQL, on",
      groups: [group("direct_on", "update", "updates", 2), group("direct_on", "read", "reads", 2)],
    },
  ];
}

function judge(turns: readonly Turn[]): Findings {
  const times = (of: Way, to: Way, linkMs: number, figure = "p50_ms"): number =>
    compared(turns, { workload: alone(linkMs), of, to, figure });
  const added = compared(
    turns,
    { workload: alone(NEAR_MS), of: "fast", to: "direct_off", figure: "p50_ms" },
    (of, to) => of - to,
  );
  const readsOf = ({ figures }: Turn): number =>
    (figures["safe reads mean_ms"] ?? Number.NaN) / (figures["fast reads mean_ms"] ?? Number.NaN);
  const reads = middleOf(turns, { workload: workloadOf(at("together", NEAR_MS)), row: TOGETHER }, readsOf);
  const byLink = LINKS_MS.flatMap((linkMs): [string, number][] => [
    [
      `mean of a synchronous commit to one that waits for nothing, ${String(linkMs)} ms`,
      times("direct_on", "direct_off", linkMs, "mean_ms"),
    ],
    [`p50 of safe to a synchronous commit, ${String(linkMs)} ms`, times("safe", "direct_on", linkMs)],
    [`p50 of a synchronous commit to fast, ${String(linkMs)} ms`, times("direct_on", "fast", linkMs)],
  ]);
  return {
    ratios: {
      ...Object.fromEntries(byLink),
      "p50 of fast in ms above an asynchronous commit, 16 ms": added,
      "mean of safe to fast reads beside updates, 16 ms": reads,
      "p50 of fast by the SDK to sockets, 16 ms": times("sdk_fast", "fast", NEAR_MS),
      "p50 of safe by the SDK to sockets, 16 ms": times("sdk_safe", "safe", NEAR_MS),
    },
    bars: [
      bar(
        "16 ms: fast p50 at most a fifteenth of a synchronous commit's",
        times("fast", "direct_on", NEAR_MS),
        { max: BARS.fastShareMax },
      ),
      bar(`16 ms: fast p50 at most ${String(BARS.fastAddedMsMax)} ms above an asynchronous commit's`, added, {
        max: BARS.fastAddedMsMax,
      }),
      bar(
        `16 ms: safe p50 at most ${String(BARS.safeNearMax)} times a synchronous commit's`,
        times("safe", "direct_on", NEAR_MS),
        { max: BARS.safeNearMax },
      ),
      bar(
        `1 ms: safe p50 at most ${String(BARS.safeZoneMax)} times a synchronous commit's`,
        times("safe", "direct_on", ZONE_MS),
        { max: BARS.safeZoneMax },
      ),
      bar(
        `16 ms: mean of safe reads beside updates at most ${String(BARS.safeReadsMax)} times fast ones'`,
        reads,
        { max: BARS.safeReadsMax },
      ),
    ],
  };
}
