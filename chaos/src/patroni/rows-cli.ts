#!/usr/bin/env node
// The command `make patroni-rows`: every measured case on one real cluster, a table, and last one line of JSON.
import { parseArgs } from "node:util";
import { type Outcome, playRow, ROW_LEVELS, type Row, ROWS } from "./rows.ts";
import { PatroniSystem } from "./system.ts";

const { values } = parseArgs({ options: { only: { type: "string" } } });
const only = values.only === undefined || values.only === "" ? undefined : values.only.split(",");
const isAsked = ({ settings, deed }: Row): boolean => only?.includes(`${settings}/${deed}`) ?? true;

/** What is wrong with an outcome; null if nothing is. */
export function faultOf(outcome: Outcome): string | null {
  const { promoted, expected, promised, untrue } = outcome;
  if (untrue.length > 0) return `untrue verdicts: ${untrue.slice(0, 3).join("; ")}`;
  if (expected === "nobody" && promoted !== null) return `${promoted} was promoted`;
  if (expected === "laggard" && (promised.any["broken"] ?? 0) === 0) return "no promise broke";
  if ((promised.safe["broken"] ?? 0) > 0) return "a safe promise broke";
  return null;
}

const system = await PatroniSystem.start({ settings: "recommended", levels: ROW_LEVELS, served: ["east"] });
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
      `${settings}, ${deed}: ${promoted ?? "nobody"} promoted; ${String(present)} of ${String(committed)} left; ` +
        `promised by any replica ${JSON.stringify(promised.any)}, by synchronous ones ${JSON.stringify(promised.safe)}` +
        (fault === null ? "" : `  WRONG: ${fault}`),
    );
  }
} finally {
  await system.close();
}
console.log(JSON.stringify({ rows: outcomes.length, failed, outcomes }));
process.exit(failed === 0 ? 0 : 1);
