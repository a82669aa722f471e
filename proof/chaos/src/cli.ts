#!/usr/bin/env node
// The command `make chaos`: makes one run on the three-region system, prints a readable verdict,
// and as the last line one line of JSON.
import { runCommand } from "./command.ts";
import { startThreeRegions } from "./nemesis/three-regions.ts";
import { isClean } from "./run.ts";

await runCommand({
  rate: 60,
  // Every second seed asks the replicas themselves, every third one uses API keys, every fourth one
  // (from 1 on) has adjustable clocks, and every fifth one keeps receipts for seconds only.
  startRig: ({ only, seed }) =>
    startThreeRegions(only, {
      asksReplicas: seed % 2 === 0,
      hasKeys: seed % 3 === 0,
      hasClocks: seed % 4 === 1,
      forgets: seed % 5 === 0,
    }),
  print: (text) => {
    console.log(text);
  },
  isGood: isClean,
});
