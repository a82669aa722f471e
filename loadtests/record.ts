// The one way in which load tests write down what they measured: a JSON file with the machine and
// the code that it belongs to.
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { cpus, loadavg, release, totalmem } from "node:os";
import { dirname, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { jsonLines } from "@highwater/lab-tools/json";

/** Another place for what a load test leaves behind, so that the tree stays as it is. */
export const ELSEWHERE = process.env["HIGHWATER_RESULTS"];
/** Where everything goes that a load test leaves behind. */
export const RESULTS =
  ELSEWHERE === undefined ? new URL("./results/", import.meta.url) : pathToFileURL(`${resolve(ELSEWHERE)}/`);
const GIBIBYTE = 2 ** 30;
/** The code that is measured, and that which measures it. */
const MEASURED = ["../services", "../packages", "../sdk", "../lab", ".", ":!results"];
/** More digits than any of it repeats. */
const DIGITS = 4;

export interface Machine {
  readonly processor: string;
  readonly cores: number;
  readonly memory_gib: number;
  readonly kernel: string;
  readonly node: string;
  /**
   * Of the last minute, when the result was written: what the load test and all other work kept
   * busy.
   */
  readonly load_average: number;
}

export function describeMachine(): Machine {
  return {
    processor: cpus()[0]?.model.trim() ?? "unknown",
    cores: cpus().length,
    memory_gib: Math.round(totalmem() / GIBIBYTE),
    kernel: release(),
    node: process.version,
    load_average: loadavg()[0] ?? Number.NaN,
  };
}

/** Writes `results/NAME.json` and answers its path. The name may have folders. */
export function record(name: string, result: object): string {
  const file = new URL(`${name}.json`, RESULTS);
  const whole = {
    recorded: new Date().toISOString(),
    commit: commit(),
    machine: describeMachine(),
    ...result,
  };
  const rounded: unknown = JSON.parse(JSON.stringify(whole, (_, value: unknown) => round(value)));
  mkdirSync(dirname(fileURLToPath(file)), { recursive: true });
  writeFileSync(file, jsonLines(rounded, 2));
  return fileURLToPath(file);
}

function round(value: unknown): unknown {
  return typeof value === "number" ? Number(value.toFixed(DIGITS)) : value;
}

/**
 * Null where there is no history, as in an archive of the sources; with a plus sign where files
 * differ from it.
 */
export function commit(): string | null {
  try {
    const git = (...args: readonly string[]): string =>
      execFileSync("git", args, { cwd: import.meta.dirname, encoding: "utf8", stdio: "pipe" }).trim();
    const changed = git("status", "--porcelain", "--untracked-files=no", "--", ...MEASURED);
    return `${git("rev-parse", "--short=12", "HEAD")}${changed === "" ? "" : "+"}`;
  } catch {
    return null;
  }
}
