// Goal: the lint rules that enforce the architecture refuse what they should, and nothing else. Method: Oxlint checks made-up
// files with the project's rules and must report exactly the marked lines.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { TemporaryFolder } from "@highwater/lab-tools/process";
import { ROOT } from "./tree.ts";

const PLUGIN = "scripts/oxlint-plugin.js";
const AMBIENT = `export const a = Date.now(); // refused
export const b = performance.now(); // refused
export const c = Math.random(); // refused
export const d = process.env; // refused
`;
const FILES: Readonly<Record<string, string>> = {
  "proof/checker/src/a.ts": `import "./b.ts";
import "../b.ts";
import "../../b/c.ts";
import "node:fs";
import "node:fs/promises";
import "fs"; // refused
import "pg"; // refused
import "@highwater/protocol"; // refused
export * from "pg"; // refused
`,
  "packages/protocol/src/a.ts": `import "pg";
import "@highwater/runtime"; // refused
import "@highwater/lab-tools/process"; // refused
// The values are PostgreSQL's texts; GATEWAY_PG_PORT, wall and renewals are words of no engine.
export const lastLsn = 0; // refused
export const a = "pg_current_xact_id()"; // refused
// The end of the WAL. // refused
export type WalPosition = string; // refused
export const b = \`crdb_internal\`; // refused
`,
  "packages/store/src/a.ts": `import "pg";
// The end of the WAL.
import "../b.ts";
import "@highwater/authority";
import "@highwater/protocol/testing";
import "@highwater/lab-tools/process";
import "@highwater/service"; // refused
import "@highwater/service/identity"; // refused
`,
  "packages/authority/src/a.ts": `import "@highwater/protocol";
import "@highwater/runtime";
import "@highwater/lab-cluster";
import "@highwater/store"; // refused
import "@highwater/store/postgres"; // refused
// Only PostgreSQL does it. // refused
export const flushLsn = 0; // refused
`,
  "sdk/ts/src/a.ts": `import "./b.ts";
import "@highwater/protocol"; // refused
import "node:fs"; // refused
export const now = Date.now();
`,
  "services/durability-tracker/src/core/a.ts": `import "./b.ts";
import "@highwater/protocol";
import "../b.ts"; // refused
import "node:fs"; // refused
import "@highwater/store"; // refused
setTimeout(() => undefined, 1); // refused
export const at = new Date(); // refused
export const replayLsns = []; // refused
`,
  "services/durability-tracker/src/core/a.test.ts": `import "node:test";
setTimeout(() => undefined, 1);
`,
  "services/txn-gateway/src/a.ts": AMBIENT,
  "services/txn-gateway/src/main.ts": AMBIENT.replaceAll(" // refused", ""),
  "services/txn-gateway/src/b.ts": `const { pathname } = new URL("b", import.meta.url); // refused
export const a = new URL("b", import.meta.url).pathname; // refused
export const b = { pathname, ...{ a } }; // refused
`,
  "services/txn-gateway/src/long.ts": `export function long(): void { // refused
${"  void 0;\n".repeat(70)}}
`,
  "services/txn-gateway/test/a.ts": `export const a = { ...{ b: Date.now() } };
export const b = new URL("b", import.meta.url).pathname; // refused
`,
  "lab/system/src/a.ts": `import { type A } from "./b.ts"; // refused
export type B = A;
`,
};

test("the rules of imports, of ambient things and of syntax report what they are for", async () => {
  await using folder = await TemporaryFolder.make("highwater-oxlint-");
  const write = (path: string, text: string): void => {
    mkdirSync(dirname(join(folder.path, path)), { recursive: true });
    writeFileSync(join(folder.path, path), text);
  };
  for (const [path, text] of Object.entries(FILES)) write(path, text);
  // No rule of these needs types, which would need the packages.
  const rules = readFileSync(join(ROOT, ".oxlintrc.json"), "utf8");
  write(".oxlintrc.json", rules.replace(`"typeAware": true`, `"typeAware": false`));
  write(PLUGIN, "");
  copyFileSync(join(ROOT, PLUGIN), join(folder.path, PLUGIN));
  const found = await lint(folder.path);
  const wanted = Object.entries(FILES).flatMap(([path, text]) =>
    text.split("\n").flatMap((line, n) => (line.includes("// refused") ? [`${path}:${String(n + 1)}`] : [])),
  );
  assert.deepEqual([...new Set(found)].sort(), wanted.sort());
});

/** The places of all reports. */
function lint(cwd: string): Promise<string[]> {
  const program = createRequire(import.meta.url).resolve("oxlint/package.json");
  const args = [join(dirname(program), "bin", "oxlint"), "-f", "unix", "."];
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, { cwd }, (error, stdout, stderr) => {
      if (error !== null && error.code !== 1) reject(new Error(stderr + stdout, { cause: error }));
      else resolve([...stdout.matchAll(/^(.+\.ts:\d+):\d+: /gm)].map(([, place]) => String(place)));
    });
  });
}
