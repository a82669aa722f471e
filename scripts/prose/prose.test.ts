// Goal: each rule of prose finds what it should, in prose alone. Method: every rule's two example sentences, and small files in
// which the same forbidden words stand where they are prose and where they are not.
import assert from "node:assert/strict";
import { test } from "node:test";
import { findingsIn } from "./prose.ts";
import { RULES } from "./rules.ts";

const found = (path: string, text: string): string[] =>
  findingsIn(path, text).map(({ rule, line }) => `${rule} ${String(line)}`);

for (const [rule, { example }] of Object.entries(RULES))
  test(`${rule}: one sentence breaks the rule, the other does not`, () => {
    const rulesBroken = example.map((sentence) => findingsIn("page.md", sentence).map((one) => one.rule));
    assert.ok(rulesBroken[0]?.includes(rule));
    assert.deepEqual(
      rulesBroken[1]?.filter((one) => one !== "wide"),
      [],
    );
  });

test("Markdown: code, links' targets and names are no prose; headings, cells and items are", () => {
  const page = [
    "# The `epoch reigns`, epochReigns, epoch_reigns and state.told are code",
    "[A link](told-by-nobody.md) to https://example.com/nobody and ``a `told` span",
    "over two lines``.",
    "",
    "```text\nnobody is told\n```",
    "",
    "    nobody is told",
    "",
    "## Nobody reigns",
    "",
    "| cell | Nobody |",
    "| --- | --- |",
    "* an item is",
    "  told",
    "",
    "| packages/rows.slow.test.ts: *nobody is told* |",
    "",
    'Tests: "nobody is told",',
    '"what is told"',
  ].join("\n");
  assert.deepEqual(found("page.md", page).sort(), ["nobody 11", "nobody 13", "reign 11", "told 16"]);
});

test("Markdown: a line is wide by its text; tables and code may be", () => {
  const words = "word ".repeat(25);
  assert.deepEqual(found("page.md", `A line.\n${words}\n`), ["wide 2"]);
  const link = `A [link](${"x".repeat(100)}) is as wide as its text.`;
  assert.deepEqual(found("page.md", `${link}\n\n| ${words} |\n\n\`\`\`sh\n${words}\n\`\`\`\n`), []);
});

test("TypeScript: comments and messages are prose, other strings and code are not", () => {
  const source = [
    "// Nobody reads",
    "// what is told.",
    'const nobody = "// nobody is told"; // told',
    "/**",
    " * What a comment begins with may be a noun. What follows is a sentence.",
    " */",
    "const told = `/* nobody */ ${nobody}`.replace(/nobody\\//, told);",
    'throw new HighwaterError("told_by_nobody", `nobody ${nobody}`, { code: "told" + call("nobody here") });',
    'const metric = { help: "who is told", name: "nobody told" };',
    "// oxlint-disable-next-line told",
  ].join("\n");
  assert.deepEqual(found("source.ts", source).sort(), [
    "nobody 1",
    "nobody 8",
    "subject 5",
    "told 2",
    "told 3",
    "told 9",
  ]);
});

test("TypeScript and Python: names of tests and messages of assertions have no banned words, and may be long", () => {
  const source = [
    'it("nobody waits", () => {',
    '  assert.equal("told", "told", `nobody told ${"told"}`);',
    '  assert.ok(isTold, "heard");',
    '  assert.ok(found.includes("told"), "What is there, is found.");',
    '  it.told("nobody");',
    "});",
  ].join("\n");
  assert.deepEqual(found("a.ts", source).sort(), ["heard 3", "nobody 1", "nobody 2", "told 2"]);
  assert.deepEqual(found("a.py", "def test_who_is_told():\n    told_nobody()\n"), ["told 1"]);
});

test("TypeScript and Python: a comment is wide by its column", () => {
  const words = "word ".repeat(18);
  assert.deepEqual(found("source.ts", `const a = 1; // ${words}\n`), ["wide 1"]);
  assert.deepEqual(found("source.py", `    # ${words}\nword = 1 # ${words}\n`), ["wide 2"]);
});

test("SQL, Terraform and Make: comments and descriptions are prose, other strings are not", () => {
  assert.deepEqual(found("a.sql", "SELECT 'told' -- Nobody\n-- is told\n").sort(), ["nobody 1", "told 2"]);
  const source = ['a = "nobody" # told', 'description = "Nobody reads."', "# Who knows, knows."].join("\n");
  assert.deepEqual(found("a.tf", source).sort(), ["nobody 2", "told 1"]);
  assert.deepEqual(found("Makefile", "told: nobody ## Run what is told\n\t@echo told\n"), ["told 1"]);
});

test("Python: docstrings, comments and messages are prose, other strings and code are not", () => {
  const source = [
    '"""Nobody knows.',
    "",
    "    told in an example",
    '"""',
    "told = '# nobody'  # told",
    'raise UsageError("nobody is told")',
    'parser.add_argument("--told", help="who is told")',
    'query = """SELECT told"""',
    "run(",
    '    """SELECT nobody""",',
    ")",
  ].join("\n");
  assert.deepEqual(found("source.py", source).sort(), ["nobody 1", "nobody 6", "told 5", "told 6", "told 7"]);
});
