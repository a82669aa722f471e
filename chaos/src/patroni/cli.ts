#!/usr/bin/env node
// The command `make chaos-patroni`: one run beside a real Patroni, a readable verdict, and last one line of JSON.
import { parseArgs } from "node:util";
import { isClean, machineReadable, readable } from "../report.ts";
import { runChaos } from "../run.ts";
import { startWorkload } from "../workload/index.ts";
import { startPatroniRig } from "./rig.ts";

const USAGE = `usage: cli.ts [--duration-s 60] [--seed N] [--rate 40] [--dir FOLDER] [--only KIND,…] [--wrong]`;

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
    wrong: { type: "boolean", default: false },
  },
});
const seed = number(values.seed, Math.floor(Math.random() * 1_000_000));
const only = values.only === undefined || values.only === "" ? undefined : values.only.split(",");
const result = await runChaos({
  seed,
  durationMs: number(values["duration-s"], 60) * 1_000,
  rate: number(values.rate, 40),
  ...(values.dir !== undefined && values.dir !== "" && { keep: values.dir }),
  startRig: () => startPatroniRig(values.wrong ? "wrong" : "recommended", only),
  startWorkload,
  say: (line) => {
    console.error(line);
  },
});
console.error(readable(seed, result));
console.log(machineReadable(seed, result));
// With the wrong settings a promise has to break, and the product has to say so.
const hasBroken = (result.judgement?.promises_broken ?? 0) > 0;
process.exit(isClean(result) && hasBroken === values.wrong ? 0 : 1);
