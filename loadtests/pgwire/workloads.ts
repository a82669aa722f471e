// What pgbench runs, and the ways to the database that are compared.
import { countOf, keyValueTable, type Rows } from "../experiments/load/workload.ts";

const HOT: Rows = { table: "pgwire_hot", rows: 250, hot: { share: 0.95, rows: 12 } };
const UNIFORM: Rows = { table: "pgwire_uniform", rows: 256 };
export const TABLES = [HOT, UNIFORM].map(({ table }) => table);
export const CREATE = [HOT, UNIFORM].flatMap(({ table, rows }) => keyValueTable(table, rows));
/** As in the papers: pgbench's --max-tries of six. */
export const TRIES_MAX = 6;
const POOL_SIZES = [8, 32, 64] as const;

export interface Way {
  readonly row: string;
  readonly via: "direct" | "pgbouncer" | "wire";
  /** Of the connection's start-up packet; PgBouncer passes none on. */
  readonly options: string;
  /** Whether the replica is in `synchronous_standby_names`. */
  readonly synchronous: boolean;
  readonly poolSize?: number;
}

export const ON: Way = { row: "direct on", via: "direct", options: "", synchronous: true };
export const OFF: Way = {
  row: "direct off",
  via: "direct",
  options: "-c synchronous_commit=off",
  synchronous: false,
};
export const SAFE: Way = {
  row: "wire safe",
  via: "wire",
  options: "-c highwater.level=region",
  synchronous: false,
};
const FAST: Way = { ...SAFE, row: "wire fast", options: `${SAFE.options} -c highwater.ack=commit` };
const pooled = (poolSize: number): Way => ({
  row: `pgbouncer ${String(poolSize)}`,
  via: "pgbouncer",
  options: "",
  synchronous: true,
  poolSize,
});
export const POOLS = POOL_SIZES.map(pooled);

export interface Workload {
  readonly name: string;
  readonly clients: number;
  readonly isolation: "serializable" | "read committed";
  /** The text of a script, or the name of a built-in one behind an `@`. */
  readonly script: string;
  /** Counts what has changed the tables; null for reads. */
  readonly counting: string | null;
  readonly ways: readonly Way[];
}

const updates = (rows: Rows): Pick<Workload, "script" | "counting" | "isolation"> => ({
  script: updateScript(rows),
  counting: countOf({ kind: "update", ...rows }),
  isolation: "serializable",
});

const reads = { script: "@select-only", counting: null, isolation: "read committed" } as const;
const ALL = [ON, OFF, ...POOLS, SAFE, FAST];

export const WORKLOADS: readonly Workload[] = [
  { name: "one client", clients: 1, ...updates(UNIFORM), ways: [ON, OFF, pooled(8), SAFE, FAST] },
  { name: "128 hot", clients: 128, ...updates(HOT), ways: ALL },
  { name: "128 uniform", clients: 128, ...updates(UNIFORM), ways: ALL },
  {
    name: "64 TPC-B",
    clients: 64,
    script: "@tpcb-like",
    isolation: "read committed",
    counting: "SELECT count(*)::text AS total FROM pgbench_history",
    ways: ALL,
  },
  // A read waits for no replica, so the settings of commits make no difference.
  { name: "64 readers", clients: 64, ...reads, ways: [OFF, ...POOLS, SAFE] },
  { name: "one reader", clients: 1, ...reads, ways: [OFF, pooled(8), SAFE] },
];

function updateScript({ table, rows, hot }: Rows): string {
  const pick =
    hot === undefined
      ? [`\\set key random(1, ${String(rows)})`]
      : [
          "\\set percent random(1, 100)",
          `\\if :percent <= ${String(100 * hot.share)}`,
          `\\set key random(1, ${String(hot.rows)})`,
          "\\else",
          `\\set key random(${String(hot.rows + 1)}, ${String(rows)})`,
          "\\endif",
        ];
  return [...pick, `UPDATE ${table} SET value = value + 1 WHERE key = :key;`, ""].join("\n");
}
