// From turns to the result of `make bench-pgwire`: cells, ratios and bars.
import { bar, type Result } from "../rounds/bars.ts";
import { bestOf, type Cell, cellsOf, compared } from "../rounds/figures.ts";
import type { Turn } from "../rounds/turns.ts";
import { OFF, ON, POOLS, SAFE } from "./workloads.ts";

export interface Memory {
  readonly connections: number;
  /** Of the gateway, above what it takes without them. */
  readonly gateway_mib: number;
}

const BARS = {
  hotMin: 8,
  uniformMin: 1.5,
  oneClientMax: 1.08,
  readsMin: 0.55,
  readAddedMsMax: 0.12,
  cpuUsMax: 80,
  memoryMibMax: 40,
};

/** What was not measured meets no bar. */
export function summarize(turns: readonly Turn[], memory: Memory | null): Result {
  const cells = cellsOf(turns);
  const pools = POOLS.map(({ row }) => row);
  const rateTo = (workload: string, rows: readonly string[]): number =>
    compared(turns, { workload, of: SAFE.row, to: bestOf(cells, workload, rows), figure: "per_second" });
  const p50 = { of: SAFE.row, figure: "p50_ms" };
  const safe = (workload: string): Cell | undefined =>
    cells.find((cell) => cell.workload === workload && cell.row === SAFE.row);
  const ratios = {
    "hot, safe to the best synchronous row": rateTo("128 hot", [ON.row, ...pools]),
    "uniform, safe to the best synchronous row": rateTo("128 uniform", [ON.row, ...pools]),
    "TPC-B, safe to the best synchronous row": rateTo("64 TPC-B", [ON.row, ...pools]),
    "hot, safe to direct off": rateTo("128 hot", [OFF.row]),
    "uniform, safe to direct off": rateTo("128 uniform", [OFF.row]),
    "one client, safe p50 to on": compared(turns, { workload: "one client", to: ON.row, ...p50 }),
    "reads of 64 clients, wire to PgBouncer": rateTo("64 readers", pools),
    "reads of 64 clients, wire to direct": rateTo("64 readers", [OFF.row]),
    "reads of one client, p50 in ms above direct": compared(
      turns,
      { workload: "one reader", to: OFF.row, ...p50 },
      (of, to) => of - to,
    ),
  };
  const bars = [
    bar(
      `128 hot: safe at least ${String(BARS.hotMin)} times the best synchronous row`,
      ratios["hot, safe to the best synchronous row"],
      { min: BARS.hotMin },
    ),
    bar(
      "128 hot: share of the safe transactions that are given up at most 0",
      safe("128 hot")?.figures["given_up"]?.max ?? Number.NaN,
      { max: 0 },
    ),
    bar(
      `128 uniform: safe at least ${String(BARS.uniformMin)} times the best synchronous row`,
      ratios["uniform, safe to the best synchronous row"],
      { min: BARS.uniformMin },
    ),
    bar(
      `one client: safe p50 at most ${String(BARS.oneClientMax)} of direct on`,
      ratios["one client, safe p50 to on"],
      { max: BARS.oneClientMax },
    ),
    bar(
      `64 readers: at least ${String(BARS.readsMin)} of PgBouncer's throughput`,
      ratios["reads of 64 clients, wire to PgBouncer"],
      { min: BARS.readsMin },
    ),
    bar(
      `one reader: p50 at most ${String(BARS.readAddedMsMax)} ms above direct`,
      ratios["reads of one client, p50 in ms above direct"],
      { max: BARS.readAddedMsMax },
    ),
    bar(
      `gateway's processor for a safe UPDATE at most ${String(BARS.cpuUsMax)} µs`,
      safe("128 uniform")?.cpu_us["gateway"]?.median ?? Number.NaN,
      { max: BARS.cpuUsMax },
    ),
    bar(
      `gateway's memory for 1000 idle connections at most ${String(BARS.memoryMibMax)} MiB`,
      memory?.gateway_mib ?? Number.NaN,
      { max: BARS.memoryMibMax },
    ),
  ];
  return { cells, ratios, bars, turns };
}

/** Of a table. */
export const COLUMNS = {
  figures: ["per_second", "p50_ms", "p99_ms", "given_up", "failed_tries"],
  parts: ["gateway", "tracker", "pgbouncer", "primary", "replica", "pgbench"],
};
