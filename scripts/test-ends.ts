// Reports each test file that was named and has not told its end. A file's summary is the last that it tells: with it, nothing
// that it told before is lost. Without it, a file that ended with code 0 would count as passed, whatever it has left out.
import { resolve } from "node:path";
import type { TestEvent } from "node:test/reporters";

export default async function* reportEnds(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const files = new Set(process.argv.slice(1).map((file) => resolve(file)));
  for await (const { type, data } of events)
    if (type === "test:summary" && data.file !== undefined) files.delete(data.file);
  if (files.size > 0) process.exitCode = 1;
  for (const file of files)
    yield `no end told: ${file} is not there, has no tests, or ended before they did: results may be missing\n`;
}
