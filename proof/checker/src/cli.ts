// Judges histories of chaos runs: node proof/checker/src/cli.ts [--json] FILE_OR_FOLDER…
// Exit codes: 0 when no rule is violated, 1 when one is, 2 when a history cannot be judged.
import { parseArgs } from "node:util";
import { judge } from "./check.ts";
import { HistoryError } from "./faults.ts";
import { Gathering } from "./gather.ts";
import { readHistories } from "./read.ts";
import { toJson, toText } from "./report.ts";

const UNJUDGED = 2;

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    options: { json: { type: "boolean", default: false } },
    allowPositionals: true,
  });
  if (positionals.length === 0)
    throw new HistoryError("unreadable", "name at least one file or folder", null);
  const gathering = new Gathering();
  const { torn } = await readHistories(positionals, (record, origin) => {
    gathering.add(record, origin);
  });
  const report = judge(gathering.finish(), torn);
  process.stdout.write(values.json ? `${toJson(report)}\n` : toText(report));
  return report.violationCount > 0 ? 1 : 0;
}

try {
  process.exitCode = await main();
} catch (error) {
  // An unexpected error also means that nothing was judged.
  const what =
    error instanceof HistoryError
      ? `${error.fault}: ${error.message}`
      : (error as NodeJS.ErrnoException).code?.startsWith("ERR_PARSE_ARGS") === true
        ? (error as Error).message
        : String((error as Error).stack);
  process.stderr.write(`the history cannot be judged: ${what}\n`);
  process.exitCode = UNJUDGED;
}
