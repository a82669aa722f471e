// Experiment 7, sessions: what it costs that a client reads what it has written. Clients of the SDK
// write now and then, and read in between: in a session, or without one, beside the primary and
// beside the replica.
import { compared, middleOf } from "../rounds/figures.ts";
import type { Turn } from "../rounds/turns.ts";
import { type Measurement, workloadOf } from "./bench.ts";
import { type Experiment, type Findings, NEAR_MS, rowOf } from "./experiment.ts";
import { bar } from "../rounds/bars.ts";
import { keyValueTable } from "./load/workload.ts";

const TABLE = "session_test";
const ROWS = 10_000;
const CLIENTS = 16;
const RETRIES = 20;
/** Shares of the transactions that write; without any, the token stays the same. */
const WRITES = [0.01, 0.1] as const;
const PLACES = ["primary", "replica"] as const;
const [PLAIN, SESSION] = ["plain reads", "reads of a session"] as const;
/** The thesis on multi-version tracking has 6 to 8%. */
const KEPT_MIN = 0.92;

const at = (place: string, writes: number) => ({ at: `at the ${place}`, writes });

export const session: Experiment = {
  name: "session",
  withFarGateway: true,
  settings: { rows: ROWS, clients: CLIENTS, writes: WRITES },
  prepare: (system) => system.createTables(keyValueTable(TABLE, ROWS), [TABLE]),
  measurements: () =>
    PLACES.flatMap((place) =>
      WRITES.flatMap((writes) =>
        [PLAIN, SESSION].map((row): Measurement =>
          rowOf(
            row,
            {
              way: "sdk_fast",
              workload: {
                kind: "session",
                table: TABLE,
                rows: ROWS,
                at: place,
                writes,
                isCausal: row === SESSION,
              },
              clients: CLIENTS,
              retries: RETRIES,
            },
            { conditions: at(place, writes), linkMs: NEAR_MS, whole: "read" },
          ),
        ),
      ),
    ),
  judge,
};

function judge(turns: readonly Turn[]): Findings {
  const found = PLACES.flatMap((place) =>
    WRITES.map((writes) => {
      const times = (figure: string): number =>
        compared(turns, { workload: workloadOf(at(place, writes)), of: SESSION, to: PLAIN, figure });
      return {
        name: `at the ${place}, ${String(100 * writes)}% writes`,
        rate: times("per_second"),
        p50: times("p50_ms"),
      };
    }),
  );
  return {
    ratios: Object.fromEntries([
      ...found.flatMap(({ name, rate, p50 }): [string, number][] => [
        [`throughput of a session's reads to plain ones, ${name}`, rate],
        [`p50 of a session's reads to plain ones, ${name}`, p50],
      ]),
      ...WRITES.map((writes): [string, number] => [
        `share of a session's reads that the replica serves, ${String(100 * writes)}% writes`,
        servedNear(turns, writes),
      ]),
    ]),
    bars: found.map(({ name, rate }) =>
      bar(`${name}: throughput of a session's reads at least ${String(KEPT_MIN)} of plain ones`, rate, {
        min: KEPT_MIN,
      }),
    ),
  };
}

/** The others had no proof yet that the replica has the session's last write. */
function servedNear(turns: readonly Turn[], writes: number): number {
  return middleOf(
    turns,
    { workload: workloadOf(at("replica", writes)), row: SESSION },
    ({ figures }) => (figures["read at the replica per_second"] ?? 0) / (figures["per_second"] ?? Number.NaN),
  );
}
