#!/usr/bin/env node
// The command `make chaos`: one run on the three-region system, a readable verdict, and last one
// line of JSON.
import { runCommand } from "./command.ts";
import { startThreeRegions } from "./nemesis/three-regions.ts";
import { isClean } from "./run.ts";

await runCommand({
  rate: 60,
  // Every second seed asks the replicas themselves, every third one has API keys, every fourth one
  // (from 1 on) clocks that can be set, and every fifth one forgets within seconds.
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
