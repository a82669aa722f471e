// Writes the generated files, or with --check says which of them are not what the code says.
// Exit codes: 0 written, or nothing to write; 1 with --check when there is.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { readOptions } from "@highwater/lab-tools/process";
import { files, ROOT } from "./files.ts";

const isCheck = readOptions(import.meta.filename, {
  options: { check: { type: "boolean", default: false } },
}).values.check;
let stale = 0;
for (const { path, content } of await files()) {
  const file = new URL(path, ROOT);
  if (content === readCurrent(file)) continue;
  stale++;
  console.error(`${isCheck ? "stale (make gen)" : "written"}: dashboards/${path}`);
  if (isCheck) continue;
  mkdirSync(new URL(".", file), { recursive: true });
  writeFileSync(file, content);
}
process.exitCode = isCheck && stale > 0 ? 1 : 0;

function readCurrent(file: URL): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
