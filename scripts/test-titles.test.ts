import assert from "node:assert/strict";
import { test } from "node:test";
import { renamesIn, titlesOf } from "./test-titles.ts";

const names = (path: string, text: string): string[] => titlesOf(path, text).map(({ name }) => name);

test("titles lead through all suites, and a title in a loop is as it is written", () => {
  const source = [
    'describe("outer", () => {',
    '  it("works", async () => {});',
    "  for (const name of names) it.skip(`of ${name}`, () => {});",
    "});",
    'test("alone", (t) => t.test("inner", run));',
  ].join("\n");
  const found = ["outer", "outer > works", "outer > `of ${name}`", "alone", "alone > inner"];
  assert.deepEqual(names("a.test.ts", source), found);
});

test("titles of Python and of Terraform", () => {
  const python =
    "class A:\n    def test_one(\n        self,\n    ):\n        pass\n\n    async def test_two(self):\n        pass\n";
  assert.deepEqual(names("test_a.py", python), ["test_one", "test_two"]);
  assert.deepEqual(names("a.tftest.hcl", 'run "one" {\n  a = 1\n}\n\nrun "two" {\n}\n'), ["one", "two"]);
});

const source = (...tests: readonly [name: string, body: string][]): string =>
  tests.map(([name, body]) => `test("${name}", () => { ${body} });\n`).join("");

test("a test is renamed when its body stays, and changed when most of it does", () => {
  const renames = renamesIn([
    {
      path: "a.test.ts",
      before: source(["a", "same(1)"], ["b", "one.two(3, four, five)"], ["c", "other()"], ["d", "stays()"]),
      after: source(["A", "same(1)"], ["B", "one.two(3, four, six)"], ["d", "stays()"]),
    },
    { path: "b.test.ts", before: "", after: source(["C", "something(entirely, different)"]) },
  ]);
  const found = [
    ["a", { name: "A", hasChanged: false }],
    ["b", { name: "B", hasChanged: true }],
  ];
  assert.deepEqual([...renames], found);
});

test("of tests with equal bodies, each gets the name that is most like its own", () => {
  const renames = renamesIn([
    {
      path: "a.test.ts",
      before: source(["the first is told", "run()"], ["the second is told", "run()"]),
      after: source(["the second is reported", "run()"], ["the first is reported", "run()"]),
    },
  ]);
  assert.equal(renames.get("the first is told")?.name, "the first is reported");
  assert.equal(renames.get("the second is told")?.name, "the second is reported");
});
