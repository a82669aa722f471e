// `make bench-tracker`: how late a promise is resolved, what the tracker costs busy and idle, with
// thousands of streams and a million pending transactions, and how soon it has a verdict for
// everything after a failover.
// Options: --profile FOLDER (processor profiles of the trackers), --part NAME (only that part, and
// nothing is recorded).
// Exit codes: 0 when the bars are met, 1 when one is missed or the benchmark failed.
import { resolve } from "node:path";
import { readOptions } from "@highwater/lab-tools/process";
import { record } from "../record.ts";
import { verdictOf } from "../rounds/bars.ts";
import { FULL, measureAll, measurePart, PARTS } from "./bench.ts";
import { resultOf, tableOf } from "./results.ts";

const { values } = readOptions(import.meta.filename, {
  options: { profile: { type: "string" }, part: { type: "string" } },
});
const profile = values.profile === undefined ? undefined : resolve(values.profile);
const manner = { profile, say: (what: string) => console.error(`… ${what}`) };
const part = PARTS.find((each) => each === values.part);
if (values.part !== undefined && part === undefined) {
  console.error(`There is no part ${values.part}; the parts are ${PARTS.join(", ")}.`);
  process.exit(2);
}
const measured = await (part === undefined ? measureAll(FULL, manner) : measurePart(part, FULL, manner));
const result = resultOf(measured);
if (part === undefined) record("tracker", result);
console.log([tableOf(result), ...result.bars.map(verdictOf)].join("\n"));
process.exit(result.bars.every((bar) => bar.met) ? 0 : 1);
