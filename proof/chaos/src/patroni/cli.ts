#!/usr/bin/env node
// The command `make chaos-patroni`: makes one run beside a real Patroni, prints a readable verdict,
// and as the last line one line of JSON.
import { runCommand } from "../command.ts";
import { isClean } from "../run.ts";
import { startPatroniRig } from "./rig.ts";

await runCommand({
  rate: 40,
  flag: "wrong",
  startRig: ({ only, isFlagged }) => startPatroniRig(isFlagged ? "wrong" : "recommended", only),
  print: (text) => {
    console.error(text);
  },
  // With the wrong settings a promise has to break, and the product has to report it.
  isGood: (result, isWrong) => isClean(result) && (result.judgement?.promises_broken ?? 0) > 0 === isWrong,
});
