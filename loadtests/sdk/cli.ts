// `make bench-sdk`: what the SDKs cost above a client that is written by hand: processor time of a
// commit, 10,000 promises kept by one mark, memory of a pending promise; and what batches save.
// Options: --rounds N, --only LANGUAGE,… (typescript, python_async, python_sync).
// Exit codes: 0 when it was measured, 1 when the benchmark failed.
import { readOptions } from "@highwater/lab-tools/process";
import { record } from "../record.ts";
import { FULL, measureAll } from "./bench.ts";
import { summarize, tableOf } from "./results.ts";
import { LANGUAGES } from "./subject.ts";

const { values } = readOptions(import.meta.filename, {
  options: { rounds: { type: "string" }, only: { type: "string" } },
});
const rounds = Number(values.rounds ?? FULL.rounds);
const named = values.only?.split(",") ?? LANGUAGES;
const languages = LANGUAGES.filter((language) => named.includes(language));
if (!(rounds >= 1 && rounds <= 50) || languages.length !== named.length)
  throw new Error(`--rounds is from 1 to 50, and --only some of ${LANGUAGES.join(",")}`);

const sizes = {
  ...FULL,
  languages,
  rounds,
  promiseRounds: Math.min(FULL.promiseRounds, Math.ceil(rounds / 2)),
  batchRounds: Math.min(FULL.batchRounds, Math.ceil(rounds / 2)),
};
const measured = await measureAll(sizes, (what) => console.error(`… ${what}`));
const result = summarize(measured);
if (values.only === undefined) {
  record("sdk", result);
}
console.log(tableOf(result));
process.exit(0);
