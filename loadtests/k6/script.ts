// One k6 script as a process: its settings go in as k6's own; its summary and its reports on each
// transaction come out.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { endGuarded, spawnGuarded, TemporaryFolder } from "@highwater/lab-tools/process";
import type { Summary } from "./lib/summary.ts";
import { isReported, parseReported, type ReportedVerdict } from "./reported.ts";

const ACCOUNTS = 10_000;
/**
 * The tables of every script. The application's role needs all rights on them, and has them as
 * their owner.
 */
export const TABLES = [
  "CREATE TABLE load_account (id int PRIMARY KEY, balance int NOT NULL DEFAULT 0) WITH (fillfactor = 50)",
  "CREATE TABLE load_entry (id uuid PRIMARY KEY, account int NOT NULL, cents int NOT NULL)",
  `INSERT INTO load_account (id) SELECT generate_series(1, ${String(ACCOUNTS)})`,
];
/** k6 ends by itself; this is for one that does not. */
const LIMIT_MS = 4 * 3_600_000;

export interface Script {
  readonly k6: string;
  readonly name: string;
  /** The settings of `lib/settings.ts` and of the script itself. */
  readonly settings: Readonly<Record<string, string>>;
}

export interface Ended {
  /** k6's own: 0 when all thresholds are met. */
  readonly code: number;
  readonly summary: Summary;
  /** Empty without the setting `REPORT`. */
  readonly reported: readonly ReportedVerdict[];
  /** The summary as text, and k6's own messages. */
  readonly output: string;
  /** The messages of the script and of k6 during the run, line by line. */
  readonly log: readonly string[];
}

export async function runScript({ k6, name, settings }: Script): Promise<Ended> {
  await using folder = await TemporaryFolder.make("highwater-k6-");
  const [summaryFile, logFile] = [join(folder.path, "summary.json"), join(folder.path, "reported.log")];
  const all = { ACCOUNTS: String(ACCOUNTS), ...settings, SUMMARY_FILE: summaryFile };
  const given = Object.entries(all).flatMap(([variable, value]) => ["-e", `${variable}=${value}`]);
  const script = fileURLToPath(new URL(`${name}.ts`, import.meta.url));
  // No usage report, and no server of its own: two load tests may run on one machine.
  const args = ["run", "--quiet", "--no-usage-report", "--address", "", "--log-output", `file=${logFile}`];
  const child = spawnGuarded([k6, ...args, "--log-format", "raw", ...given, script], {
    stdout: "pipe",
    stderr: "pipe",
  });
  const limit = setTimeout(() => void endGuarded(child), LIMIT_MS);
  const ended = new Promise<number>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (status) => {
      resolve(status ?? 1);
    });
  });
  const streams = [child.stdout, child.stderr].flatMap((stream) => (stream === null ? [] : [text(stream)]));
  const [code, ...written] = await Promise.all([ended, ...streams]).finally(() => {
    clearTimeout(limit);
  });
  const log = existsSync(logFile) ? readFileSync(logFile, "utf8") : "";
  const output = written.join("");
  if (!existsSync(summaryFile))
    throw new Error(`k6 ended with ${String(code)} and without a summary:\n${output}${log}`);
  return {
    code,
    output,
    reported: parseReported(log),
    log: log.split("\n").filter((line) => line !== "" && !isReported(line)),
    summary: JSON.parse(readFileSync(summaryFile, "utf8")) as Summary,
  };
}

/** How many committed transactions had no verdict when k6 ended. */
export function unfinished({ counts }: Summary): number {
  const of = (name: string): number => counts[name] ?? 0;
  return of("committed") - of("durable") - of("lost") - of("broken") - of("unsettled");
}
