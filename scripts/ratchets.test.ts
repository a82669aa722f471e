// Goal: no figure of the tree is worse than scripts/ratchets.json says, and each kind of figure can fail. Method: the test measures the
// tree; made-up trees show that each kind can fail.
import assert from "node:assert/strict";
import { test } from "node:test";
import { compare, folderOf, kindOf, measure } from "./ratchets.ts";

test("no figure is worse", async (t) => {
  const { worse, better } = compare(await measure());
  for (const line of better) t.diagnostic(line);
  assert.equal(worse.join("\n"), "");
});

test("a figure is worse beyond its slack, and better below it", () => {
  const verdict = (code: number): number[] => {
    const { worse, better } = compare({ lines: { chaos: { code } } }, { lines: { chaos: { code: 100 } } });
    return [worse.length, better.length];
  };
  assert.deepEqual([99, 100, 120, 121].map(verdict), [
    [0, 1],
    [0, 0],
    [0, 0],
    [1, 0],
  ]);
});

test("fewer mutants are worse, more bytes are, and so is a folder that has no figure or a list of mutants that is gone", () => {
  const figures = { mutants: { simulation: { caught: 3 } }, bundles: { sdk: { gzip: 100 } }, lines: {} };
  const worse = (measured: Parameters<typeof compare>[0]): string[] =>
    compare(measured, figures).worse.map((line) => line.split(";")[0] ?? "");
  assert.deepEqual(worse({ mutants: { simulation: { caught: 2 } } }), ["simulation: 2 mutants caught"]);
  assert.deepEqual(worse({ mutants: {} }), ["simulation: 0 mutants caught"]);
  assert.deepEqual(worse({ bundles: { sdk: { gzip: 125 } } }), ["sdk: 125 bytes minified and packed"]);
  assert.deepEqual(worse({ lines: { "sdk/go": { code: 500 } } }), ["sdk/go: 500 lines of code"]);
  assert.deepEqual(worse({ mutants: { simulation: { caught: 4 } }, bundles: { sdk: { gzip: 124 } } }), []);
});

test("lines count by folder and kind, and those of generated files and of data do not", () => {
  const paths = ["README.md", "proof/chaos/src/run.ts", "sdk/python/src/highwater/aio.py", "sdk/notes.md"];
  assert.deepEqual(paths.map(folderOf), [".", "proof/chaos", "sdk/python", "sdk"]);
  const kind = (path: string): unknown => kindOf(path, "code");
  assert.deepEqual(paths.map(kind), ["prose", "code", "code", "prose"]);
  const tests = ["a/b.test.ts", "a/test/b.ts", "sdk/python/tests/a.py", "a/sim/b.ts", "tests/a.tftest.hcl"];
  assert.deepEqual([...new Set(tests.map(kind))], ["tests"]);
  assert.deepEqual([...new Set(["package-lock.json", "a.svg", "requirements.txt"].map(kind))], [undefined]);
  assert.equal(kindOf("a.yml", "# Generated (make gen): change dashboards/src instead.\n"), undefined);
});
