#!/usr/bin/env node
// The command `highwater edge` (`make edge`), which makes an edge's files from its source. Exit
// codes: 0 written, or nothing to write; 1 with --check when there is; 2 when the source is wrong.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { edgeFiles, readSource } from "./index.ts";

const usage = `Usage: highwater edge SOURCE [--out FOLDER] [--check]

Writes Envoy's files from the source of a region's edge (docs/guide/edge.md).
  --out FOLDER  the target folder (default: the source's \`directory\`)
  --check       write nothing; list the files that differ from the source`;

function main(): number {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      out: { type: "string" },
      check: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  const [path, ...rest] = positionals;
  if (values.help || path === undefined || rest.length > 0) {
    console.log(usage);
    return values.help ? 0 : 2;
  }
  const read = readSource(JSON.parse(readFileSync(path, "utf8")));
  if ("faults" in read) {
    for (const fault of read.faults) console.error(`${path}: ${fault}`);
    return 2;
  }
  const folder = values.out ?? read.edge.directory;
  if (!values.check) mkdirSync(folder, { recursive: true });
  let isStale = false;
  for (const [name, text] of edgeFiles(read.edge)) {
    const file = join(folder, name);
    if (readCurrent(file) === text) continue;
    isStale = true;
    if (!values.check) writeFileSync(file, text);
    console.log(`${values.check ? "stale" : "written"}: ${file}`);
  }
  return values.check && isStale ? 1 : 0;
}

function readCurrent(file: string): string | null {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return null;
  }
}

try {
  process.exitCode = main();
} catch (error) {
  const says = error instanceof Error ? error.message : String(error);
  console.error(`highwater edge: ${says} (highwater edge --help shows how to call it)`);
  process.exitCode = 2;
}
