// The shared part of `make chaos` and `make chaos-patroni`: reads options, makes one run, prints a
// readable verdict and, as the last line, one JSON object. Options: --duration-s N (default 60),
// --seed N, --rate N (transactions a second), --only KIND,… (of faults), --dir FOLDER (keeps the
// histories there), --wrong (Patroni with settings that break promises). Exit codes: 0 for a good
// run, 1 for a bad one, 2 for a bad option.
import { readOptions } from "@highwater/lab-tools/process";
import { machineReadable, readable } from "./report.ts";
import { type ChaosResult, runChaos } from "./run.ts";
import { type Rig } from "./system.ts";
import { startWorkload } from "./workload/index.ts";

interface RigOptions {
  readonly only: readonly string[] | undefined;
  readonly isFlagged: boolean;
  readonly seed: number;
}

export interface Command {
  /** Default of --rate, in transactions a second. */
  readonly rate: number;
  /** An option that only this command has, without its dashes. */
  readonly flag?: string;
  readonly startRig: (options: RigOptions) => Promise<Rig>;
  /** Prints the readable verdict. */
  readonly print: (text: string) => void;
  /** Whether the command has succeeded. */
  readonly isGood: (result: ChaosResult, isFlagged: boolean) => boolean;
}

/** Ends the process and never returns. */
export async function runCommand({ rate, flag, startRig, print, isGood }: Command): Promise<never> {
  const number = (text: string | undefined, fallback: number): number => {
    const value = text === undefined || text === "" ? fallback : Number(text);
    if (Number.isFinite(value) && value >= 0) return value;
    console.error(`not a number: ${text ?? ""} (--help lists the options)`);
    process.exit(2);
  };
  const { values } = readOptions(import.meta.filename, {
    options: {
      "duration-s": { type: "string" },
      seed: { type: "string" },
      rate: { type: "string" },
      dir: { type: "string" },
      only: { type: "string" },
      ...(flag !== undefined && { [flag]: { type: "boolean" as const } }),
    },
  });
  const seed = number(values.seed, Math.floor(Math.random() * 1_000_000));
  const only = values.only === undefined || values.only === "" ? undefined : values.only.split(",");
  const isFlagged = flag !== undefined && (values as Readonly<Record<string, unknown>>)[flag] === true;
  const result = await runChaos({
    seed,
    durationMs: number(values["duration-s"], 60) * 1_000,
    rate: number(values.rate, rate),
    ...(values.dir !== undefined && values.dir !== "" && { keep: values.dir }),
    startRig: () => startRig({ only, isFlagged, seed }),
    startWorkload,
    say: (line) => {
      console.error(line);
    },
  });
  print(readable(seed, result));
  console.log(machineReadable(seed, result));
  process.exit(isGood(result, isFlagged) ? 0 : 1);
}
