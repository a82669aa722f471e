// Reports each test file that has not reported its end. A file's summary is its last report: with
// it, no earlier one is missing. Without it, a file that ended with code 0 would count as passed,
// whatever it has left out. Reports also each test that is skipped, or marked as to do, without a
// reason.
import { resolve } from "node:path";
import type { TestEvent } from "node:test/reporters";
import FIGURES from "./ratchets.json" with { type: "json" };

type Reporter = (events: AsyncIterable<TestEvent>) => AsyncGenerator<string>;

const isNoReason = (reason?: string | boolean): boolean =>
  reason === true || (typeof reason === "string" && reason.trim() === "");

/** A reporter for a run of these files. */
export function reportEnds(files: readonly string[]): Reporter {
  return async function* (events) {
    const missing = new Set(files.map((file) => resolve(file)));
    const unexplained: string[] = [];
    for await (const { type, data } of events) {
      if (type === "test:summary" && data.file !== undefined) missing.delete(data.file);
      if ((type === "test:pass" || type === "test:fail") && [data.skip, data.todo].some(isNoReason))
        unexplained.push(`${data.file ?? "?"}:${String(data.line ?? "?")}: "${data.name}"`);
    }
    const isUnexplained = unexplained.length > FIGURES.skips["make test"].withoutReason;
    if (missing.size > 0 || isUnexplained) process.exitCode = 1;
    for (const file of missing)
      yield `no end reported: ${file} is not there, has no tests, or ended before they did: results may be missing\n`;
    for (const test of isUnexplained ? unexplained : [])
      yield `no reason: ${test} is skipped or to do: say why, as in { skip: "needs Linux" }\n`;
  };
}
