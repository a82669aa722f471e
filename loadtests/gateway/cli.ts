// `make bench-gateway`: the same transaction through the gateway with its tracker, by hand-written
// sockets and by the SDKs with their defaults, and by node-postgres alone, on one primary with one
// replica and no added delay. Rows take turns.
// Options: --quick (seconds, no bars), --rounds N, --seconds S (of a window), --rows ROW,… (only
// those; records nothing), --profile FOLDER (processor profiles of both services).
// Exit codes: 0 when the bars are met or --quick ran through, 1 when one is missed or the benchmark
// failed.
import { resolve } from "node:path";
import { readOptions } from "@highwater/lab-tools/process";
import { record } from "../record.ts";
import { reportOf } from "../rounds/bars.ts";
import { readTimes, TIME_OPTIONS } from "../rounds/times.ts";
import { REFUSALS_MAX, type Subject, takeTurns } from "../rounds/turns.ts";
import { LANGUAGES, whyNotHere } from "../sdk/subject.ts";
import { Bench } from "./bench.ts";
import { BenchSystem } from "./bench-system.ts";
import {
  COLUMNS,
  FAST,
  KEPT,
  MANY,
  MANY_UPDATES,
  ONE,
  ONE_UPDATE,
  PREPARED,
  SAFE,
  SDK_ROWS,
  summarize,
  UNPREPARED,
} from "./results.ts";
import { SELECT, UPDATE } from "./workload.ts";

const FULL = { rounds: 3, firstWarmUpS: 5, warmUpS: 1, windowS: 8 };

const { values } = readOptions(import.meta.filename, {
  options: { ...TIME_OPTIONS, rows: { type: "string", default: "" }, profile: { type: "string" } },
});
const times = readTimes(values, FULL);
const profile = values.profile === undefined ? undefined : resolve(values.profile);

async function subjectsOf(system: BenchSystem, bench: Bench): Promise<Subject[]> {
  const gateway = await system.startGateway("gateway", { profile });
  const database = await system.appUrl();
  const rows = (workload: string, clients: number, names: readonly string[]): Subject[] => {
    const statements = workload === ONE || workload === MANY ? [UPDATE, SELECT] : [UPDATE];
    return names.map((row) => {
      const at = { workload, row, clients };
      const isPrepared = row === PREPARED;
      if (isPrepared || row === UNPREPARED)
        return bench.connections(at, { kind: "direct", url: database, statements, isPrepared });
      const ack = row === SAFE ? "durable" : "commit";
      const keep = row === KEPT;
      return bench.connections(at, { kind: "gateway", url: gateway.url, statements, ack, keep }, gateway);
    });
  };
  const sdks = LANGUAGES.filter((language) => whyNotHere(language) === false).flatMap((language) =>
    (["sdk", "unshared"] as const).map((way) => {
      const row = `${SDK_ROWS[language]}${way === "unshared" ? " unshared" : ""}`;
      return bench.sdk({ workload: MANY, row, clients: 64 }, { language, way }, gateway);
    }),
  );
  // Many clients first: until its code is compiled, the gateway takes several times as long.
  return [
    ...rows(MANY, 64, [FAST, PREPARED, UNPREPARED]),
    ...sdks,
    ...rows(MANY_UPDATES, 128, [FAST, SAFE, KEPT]),
    ...rows(ONE, 1, [FAST, PREPARED, UNPREPARED]),
    ...rows(ONE_UPDATE, 1, [FAST, PREPARED]),
  ];
}

async function run(system: BenchSystem): Promise<boolean> {
  const bench = new Bench(system, times);
  try {
    const all = await subjectsOf(system, bench);
    const named = values.rows.split(",").filter((name) => name !== "");
    const unknown = named.filter((name) => all.every(({ row }) => row !== name));
    if (unknown.length > 0) throw new Error(`there is no row ${unknown.join(", ")}`);
    const subjects = all.filter(({ row }) => named.length === 0 || named.includes(row));
    const turns = await takeTurns(subjects, {
      rounds: times.rounds,
      refusalsMax: values.quick ? 0 : REFUSALS_MAX,
      say: (what) => console.error(`… ${what}`),
    });
    await bench.check();
    const result = summarize(turns);
    if (named.length === 0 && !values.quick) record("gateway", { settings: times, ...result });
    const bars = values.quick ? [] : result.bars;
    console.log(reportOf({ ...result, bars }, COLUMNS));
    return bars.every(({ met }) => met);
  } finally {
    bench.close();
  }
}

for (const language of LANGUAGES) {
  const why = whyNotHere(language);
  if (why !== false) console.log(`rows of ${SDK_ROWS[language]} are left out: ${why}`);
}
let met: boolean;
{
  await using system = await BenchSystem.start(profile);
  met = await run(system);
}
process.exit(met ? 0 : 1);
