// Goal: every point of the model is measured on a real system, and every transaction that was answered is in the table. Method:
// the benchmark runs each point for a second; the test asserts no times.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { runTool, TemporaryFolder } from "@highwater/lab-tools/process";
import { BUSY, LAYOUTS, layoutRow } from "./model.ts";

const CLI = fileURLToPath(new URL("cli.ts", import.meta.url));

test("the benchmark in seconds", { timeout: 600_000 }, async () => {
  await using folder = await TemporaryFolder.make("highwater-capacity-test-");
  const { code, output } = await runTool(process.execPath, [CLI, "--quick"], {
    cwd: folder.path,
    env: { HIGHWATER_RESULTS: folder.path },
  });
  assert.equal(code, 0, output);
  for (const layout of LAYOUTS)
    assert.match(output, new RegExp(`^${BUSY} +${layoutRow(layout)} +[0-9]`, "m"), output);
  for (const streams of [1, 20, 40, 80, 200])
    assert.match(output, new RegExp(`^streams +${String(streams)} streams? +[0-9]`, "m"), output);
  assert.match(output, /^bytes: \{"announced":[1-9][0-9.]*,"log":[1-9][0-9.]*,"mark":[1-9][0-9.]*\}$/m);
  assert.equal([...output.matchAll(/, predicted to measured$/gm)].length, 21, output);
});
