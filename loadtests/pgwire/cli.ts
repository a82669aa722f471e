// `make bench-pgwire`: stock pgbench over a link of 16 ms, in turns: straight to PostgreSQL with
// `synchronous_commit` on and off, through PgBouncer, and through the gateway's PostgreSQL wire,
// safe and fast.
// Options: --quick (seconds, no bars), --rounds N, --seconds S (of a window), --only WORKLOAD,…,
// --ways ROW,…, --profile FOLDER (processor profiles of both services), --page (only writes the
// page again).
// Exit codes: 0 when the bars are met or --quick ran through, 1 when one is missed, pgbench is
// missing or the benchmark failed.
import { resolve } from "node:path";
import { readOptions } from "@highwater/lab-tools/process";
import { whyNoPgBouncer, whyNoPostgresProgram } from "@highwater/lab-tools/postgres";
import { reportOf } from "../rounds/bars.ts";
import { ELSEWHERE, record } from "../record.ts";
import { REFUSALS_MAX, type Subject, takeTurns } from "../rounds/turns.ts";
import { writePage } from "./page.ts";
import { COLUMNS, summarize } from "./results.ts";
import { PgwireSystem } from "./system.ts";
import { SAFE, WORKLOADS } from "./workloads.ts";

const FULL = { rounds: 3, warmUpS: 2, windowS: 10, scale: 10, connections: 1_000 };
const QUICK = { rounds: 1, warmUpS: 0, windowS: 1, scale: 1, connections: 50 };

const { values } = readOptions(import.meta.filename, {
  options: {
    quick: { type: "boolean", default: false },
    rounds: { type: "string" },
    seconds: { type: "string" },
    only: { type: "string", default: "" },
    ways: { type: "string", default: "" },
    profile: { type: "string" },
    page: { type: "boolean", default: false },
  },
});
if (values.page) {
  writePage();
  process.exit(0);
}
const sizes = values.quick ? QUICK : FULL;
const rounds = Number(values.rounds ?? sizes.rounds);
const windowS = Number(values.seconds ?? sizes.windowS);
if (!(rounds >= 1 && rounds <= 50 && windowS >= 1 && windowS <= 600))
  throw new Error("--rounds is from 1 to 50, and --seconds from 1 to 600");
const why = whyNoPostgresProgram("pgbench");
if (why !== false) throw new Error(why);
const noPool = whyNoPgBouncer();
if (noPool !== false) console.log(`rows of PgBouncer are left out: ${noPool}`);

const say = (what: string): void => {
  console.error(`… ${what}`);
};
const isNamed = (names: string, name: string): boolean => names === "" || names.split(",").includes(name);
const isWhole = values.only === "" && values.ways === "" && !values.quick;

async function run(system: PgwireSystem): Promise<boolean> {
  const memory = isNamed(values.ways, SAFE.row) ? await system.measureMemory(sizes.connections) : null;
  const subjects = WORKLOADS.filter(({ name }) => isNamed(values.only, name)).flatMap((workload) =>
    workload.ways
      .filter(({ row, via }) => isNamed(values.ways, row) && (via !== "pgbouncer" || noPool === false))
      .map((way): Subject => {
        const measure: Subject["measure"] = () => system.measure(workload, way, { ...sizes, windowS });
        return { workload: workload.name, row: way.row, measure };
      }),
  );
  // Until their code is compiled, services take several times as long.
  await subjects.find(({ row }) => row === SAFE.row)?.measure();
  const turns = await takeTurns(subjects, { rounds, refusalsMax: values.quick ? 0 : REFUSALS_MAX, say });
  const result = summarize(turns, memory);
  if (isWhole) {
    record("pgwire", { settings: { ...sizes, rounds, windowS }, memory, ...result });
    if (ELSEWHERE === undefined) writePage();
  }
  console.log(reportOf(result, COLUMNS));
  return result.bars.every(({ met }) => met);
}

let met: boolean;
{
  const profile = values.profile === undefined ? undefined : resolve(values.profile);
  await using system = await PgwireSystem.start({ scale: sizes.scale, profile });
  met = await run(system);
}
process.exit(met || values.quick ? 0 : 1);
