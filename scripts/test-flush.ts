// Loaded into each process that runs a test file: with --test-force-exit, Node 24.21 ends it once
// its reports are handed to standard output, and loses those that the pipe has had no room for
// (nodejs/node#64833). It would wait for an output that it can close, so this one can be: "closed"
// is when all of it is written. Also notes what time the file has taken.
import { appendFileSync, readFileSync } from "node:fs";
import { isMainThread } from "node:worker_threads";

const TICKS_PER_S = 100;
const times = process.env["HIGHWATER_TEST_TIMES"];

if (isMainThread && process.env["NODE_TEST_CONTEXT"] !== undefined) {
  Object.assign(process.stdout, {
    close: (done: () => void) => {
      process.stdout.write("", done);
    },
  });
  if (times !== undefined)
    process.on("exit", () => {
      const line = { file: process.argv[1], wallS: process.uptime(), processorS: processorSeconds() };
      appendFileSync(times, `${JSON.stringify(line)}\n`);
    });
}

/**
 * Of this process and of those that it has started and that have ended; 0 where there is no /proc.
 */
function processorSeconds(): number {
  try {
    // The second field is the command in parentheses and may itself contain blanks and parentheses.
    const [, fields = ""] = /\) (.*)/.exec(readFileSync("/proc/self/stat", "utf8")) ?? [];
    const ticks = fields.split(" ").slice(11, 15).map(Number);
    return ticks.reduce((sum, each) => sum + each, 0) / TICKS_PER_S;
  } catch {
    return 0;
  }
}
