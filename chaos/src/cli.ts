#!/usr/bin/env node
// The command `make chaos`: one run on the three-region system, a readable verdict, and last one line of JSON.
import { parseArgs } from "node:util";
import { startThreeRegions } from "./nemesis/three-regions.ts";
import { isClean, machineReadable, readable } from "./report.ts";
import { runChaos } from "./run.ts";
import { startWorkload } from "./workload/index.ts";

const USAGE = `usage: cli.ts [--duration-s 60] [--seed N] [--rate 60] [--dir FOLDER] [--only KIND,…]`;

const number = (text: string | undefined, fallback: number): number => {
  const value = text === undefined || text === "" ? fallback : Number(text);
  if (Number.isFinite(value) && value >= 0) return value;
  console.error(`not a number: ${text ?? ""}\n${USAGE}`);
  process.exit(2);
};

const { values } = parseArgs({
  options: {
    "duration-s": { type: "string" },
    seed: { type: "string" },
    rate: { type: "string" },
    dir: { type: "string" },
    only: { type: "string" },
  },
});
const seed = number(values.seed, Math.floor(Math.random() * 1_000_000));
const only = values.only === undefined || values.only === "" ? undefined : values.only.split(",");
const result = await runChaos({
  seed,
  durationMs: number(values["duration-s"], 60) * 1_000,
  rate: number(values.rate, 60),
  ...(values.dir !== undefined && values.dir !== "" && { keep: values.dir }),
  startRig: () => startThreeRegions(only),
  startWorkload,
  say: (line) => {
    console.error(line);
  },
});
console.log(readable(seed, result));
console.log(machineReadable(seed, result));
process.exit(isClean(result) ? 0 : 1);
