#!/usr/bin/env node
// `make patroni-rows`: plays every measured case on one real cluster, prints a table, and as the
// last line one line of JSON. Options: --only SETTINGS/DEED,….
import { readOptions } from "@highwater/lab-tools/process";
import { faultOf, type Outcome, playRow, ROW_SYSTEM, type Row, ROWS } from "./rows.ts";
import { PatroniSystem } from "./system.ts";

const { values } = readOptions(import.meta.filename, { options: { only: { type: "string" } } });
const only = values.only === undefined || values.only === "" ? undefined : values.only.split(",");
const isAsked = ({ settings, deed }: Row): boolean => only?.includes(`${settings}/${deed}`) ?? true;

const system = await PatroniSystem.start({ settings: "recommended", ...ROW_SYSTEM });
const outcomes: Outcome[] = [];
let failed = 0;
try {
  for (const row of ROWS.filter(isAsked)) {
    const outcome = await playRow(system, row);
    const fault = faultOf(outcome);
    if (fault !== null) failed++;
    outcomes.push(outcome);
    const { settings, deed, promoted, present, committed, promised } = outcome;
    console.error(
      `${settings}, ${deed}: ${promoted ?? "no node"} promoted; ${String(present)} of ${String(committed)} left; ` +
        `promised by any replica ${JSON.stringify(promised.any)}, by synchronous ones ${JSON.stringify(promised.safe)}` +
        (fault === null ? "" : `  WRONG: ${fault}`),
    );
  }
} finally {
  await system.close();
}
console.log(JSON.stringify({ rows: outcomes.length, failed, outcomes }));
process.exit(failed === 0 ? 0 : 1);
