#!/usr/bin/env node
// The command `make chaos`: makes one run on the three-region system, prints a readable verdict,
// and as the last line one line of JSON. With `--replay`, lost transactions are brought back.
import { runCommand } from "./command.ts";
import { startThreeRegions } from "./nemesis/three-regions.ts";
import { isClean } from "./run.ts";

await runCommand({
  rate: 60,
  flag: "replay",
  // Every second seed asks the replicas themselves, every third one uses API keys, every fourth one
  // (from 1 on) has adjustable clocks, and every fifth one keeps receipts for seconds only. With
  // replays there are no keys: webhooks about a replay whose operator was killed would name
  // transactions that no client knows. And receipts stay: without them nothing is replayed.
  startRig: ({ only, seed, isFlagged: replays }) =>
    startThreeRegions(only, {
      asksReplicas: seed % 2 === 0,
      replays,
      hasKeys: seed % 3 === 0 && !replays,
      hasClocks: seed % 4 === 1,
      forgets: seed % 5 === 0 && !replays,
    }),
  print: (text) => {
    console.log(text);
  },
  isGood: isClean,
});
