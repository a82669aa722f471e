// `make bench-sdk`: what the SDKs cost above a client that is written by hand: processor time of a
// commit, 10,000 promises kept by one mark, memory of a pending promise.
// Options: --quick (seconds), --rounds N, --seconds S (of a window), --only LANGUAGE,… (typescript,
// python_async, python_sync; records nothing).
// Exit codes: 0 when it was measured, 1 when the benchmark failed.
import { readOptions } from "@highwater/lab-tools/process";
import { record } from "../record.ts";
import { reportOf } from "../rounds/bars.ts";
import { readTimes, TIME_OPTIONS } from "../rounds/times.ts";
import { REFUSALS_MAX } from "../rounds/turns.ts";
import { measureAll } from "./bench.ts";
import { COLUMNS, summarize } from "./results.ts";
import { LANGUAGES } from "./subject.ts";

const FULL = { rounds: 5, firstWarmUpS: 2, warmUpS: 0.2, windowS: 2 };

const { values } = readOptions(import.meta.filename, {
  options: { ...TIME_OPTIONS, only: { type: "string" } },
});
const times = readTimes(values, FULL);
const named = values.only?.split(",") ?? LANGUAGES;
const languages = LANGUAGES.filter((language) => named.includes(language));
if (languages.length !== named.length) throw new Error(`--only takes some of ${LANGUAGES.join(",")}`);

const turns = await measureAll(languages, {
  ...times,
  refusalsMax: values.quick ? 0 : REFUSALS_MAX,
  say: (what) => console.error(`… ${what}`),
});
const result = summarize(turns);
if (values.only === undefined && !values.quick) record("sdk", { settings: times, ...result });
console.log(reportOf(result, COLUMNS));
process.exit(0);
