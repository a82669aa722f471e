// Reports each test file that has not reported its end. A file's summary is its last report: with it, no earlier one is missing.
// Without it, a file that ended with code 0 would count as passed, whatever it has left out.
import { resolve } from "node:path";
import type { TestEvent } from "node:test/reporters";

type Reporter = (events: AsyncIterable<TestEvent>) => AsyncGenerator<string>;

/** A reporter for a run of these files. */
export function reportEnds(files: readonly string[]): Reporter {
  return async function* (events) {
    const missing = new Set(files.map((file) => resolve(file)));
    for await (const { type, data } of events)
      if (type === "test:summary" && data.file !== undefined) missing.delete(data.file);
    if (missing.size > 0) process.exitCode = 1;
    for (const file of missing)
      yield `no end reported: ${file} is not there, has no tests, or ended before they did: results may be missing\n`;
  };
}
