// Writes the pages of docs/reference and the wire types of the SDKs, or with --check says which of
// them are not what the code says.
// Exit codes: 0 written, or nothing to write; 1 with --check when there is.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readOptions } from "@highwater/lab-tools/process";
import { GENERATED, pathOf } from "./reference/pages.ts";

const isCheck = readOptions(import.meta.filename, {
  options: { check: { type: "boolean", default: false } },
}).values.check;
const stale: string[] = [];
for (const { name, render } of GENERATED) {
  const path = pathOf(name);
  const current = readCurrent(path);
  const wanted = await render(current);
  if (wanted === current) continue;
  stale.push(name);
  if (!isCheck) writeFileSync(path, wanted);
}
for (const name of stale)
  console.error(`${isCheck ? "stale (make gen)" : "written"}: ${join("docs/reference", name)}`);
process.exitCode = isCheck && stale.length > 0 ? 1 : 0;

function readCurrent(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
