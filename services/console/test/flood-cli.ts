// `make bench-console`: how smoothly the console draws while events arrive, and what it holds.
// `--seconds 60`, `--rates 100,1000,3000`.
import { launchBrowser } from "@highwater/lab-tools/browser";
import { readOptions } from "@highwater/lab-tools/process";
import { floodPage, RECORDED } from "./flood.ts";
import { StandIn } from "./stand-in.ts";

const LIMIT_MS = 300_000;
const MIB = 1_048_576;

const { values } = readOptions(import.meta.filename, {
  options: {
    seconds: { type: "string", default: "60" },
    rates: { type: "string", default: "100,1000,3000" },
  },
});
await using launched = await launchBrowser();
for (const rate of values.rates.split(",").map(Number)) {
  await using standIn = await StandIn.start({ recorded: RECORDED });
  const count = rate * Number(values.seconds);
  const { before, after, frames, faults } = await floodPage(standIn, launched.browser, {
    ...{ count, perSecond: rate, limitMs: LIMIT_MS },
  });
  console.log(`${String(rate)} events a second`);
  for (const [view, { perSecond, longestMs }] of Object.entries(frames))
    console.log(
      `  ${view}: ${perSecond.toFixed(1)} frames a second, the longest pause ${longestMs.toFixed(0)} ms`,
    );
  const [from, to] = [before, after].map(({ heapBytes }) => (heapBytes / MIB).toFixed(1));
  console.log(`  heap: ${from ?? ""} MiB before, ${to ?? ""} MiB after`);
  for (const fault of faults) console.error(`  ${fault}`);
  if (faults.length > 0) process.exitCode = 1;
}
