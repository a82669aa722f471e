// Goal: every variant of every workload runs, its figures count only transactions that are in the tables, and the report is
// complete. Method: the benchmark runs each variant for a second; the test asserts no times.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { runTool, TemporaryFolder } from "@highwater/lab-tools/process";
import { whyNoPgBouncer, whyNoPostgresProgram } from "@highwater/lab-tools/postgres";
import { WORKLOADS } from "./workloads.ts";

const CLI = fileURLToPath(new URL("cli.ts", import.meta.url));

const skip = whyNoPostgresProgram("pgbench");

test("the benchmark in seconds", { skip, timeout: 1_200_000 }, async () => {
  await using folder = await TemporaryFolder.make("highwater-pgwire-test-");
  const { code, output } = await runTool(process.execPath, [CLI, "--quick"], {
    cwd: folder.path,
    env: { HIGHWATER_RESULTS: folder.path },
  });
  assert.equal(code, 0, output);
  for (const { name, ways } of WORKLOADS)
    for (const { row, via } of ways) {
      if (via === "pgbouncer" && whyNoPgBouncer() !== false) continue;
      assert.match(output, new RegExp(`^${name} +${row} +[0-9]`, "m"), `${name}, ${row}: ${output}`);
    }
  assert.equal([...output.matchAll(/^(?:met {3}|MISSED) /gm)].length, 8, output);
});
