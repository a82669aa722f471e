// Goal: malformed histories are refused with the place, and torn lines of killed processes counted.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { check } from "../src/check.ts";
import { HistoryError, type HistoryFault } from "../src/faults.ts";
import { type HistoryRecord } from "../src/history.ts";
import { readHistories } from "../src/read.ts";
import { RULES } from "../src/rules/names.ts";
import { append, epoch, failure, history, insert, read, scenario } from "./support/build.ts";

const CLI = join(import.meta.dirname, "..", "src", "cli.ts");
const folder = mkdtempSync(join(tmpdir(), "checker-"));
after(() => {
  rmSync(folder, { recursive: true, force: true });
});

const good = history(
  { one: { does: [append("x", 1)] }, two: { does: [read("x")], shows: [[1]] } },
  { lists: { x: [1] } },
);

function write(name: string, records: readonly unknown[], tail = ""): string {
  const file = join(folder, name);
  writeFileSync(file, records.map((record) => `${JSON.stringify(record)}\n`).join("") + tail);
  return file;
}

async function readAll(file: string): Promise<{ records: HistoryRecord[]; torn: number }> {
  const records: HistoryRecord[] = [];
  const { torn } = await readHistories([file], (record) => records.push(record));
  return { records, torn };
}

function run(...args: string[]): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(process.execPath, [CLI, ...args], { encoding: "utf8" });
}

test("a history is read as it was written, however it is split", async () => {
  const wide = { ...good[0], note: "ü".repeat(3_000_000) };
  const { records, torn } = await readAll(write("wide.jsonl", [wide, ...good.slice(1)]));
  assert.deepEqual(records, [wide, ...good.slice(1)]);
  assert.equal(torn, 0);
});

test("a last line without an end is torn, or whole without its newline", async () => {
  const line = JSON.stringify(good.at(-1));
  const torn = await readAll(write("torn.jsonl", good.slice(0, -1), line.slice(0, -10)));
  assert.deepEqual(torn, { records: good.slice(0, -1), torn: 1 });
  const whole = await readAll(write("whole.jsonl", good.slice(0, -1), line));
  assert.deepEqual(whole, { records: good, torn: 0 });
});

test("a malformed line is refused with its file, line and field", async () => {
  const cases: [unknown, RegExp][] = [
    [17, /the record is not an object/],
    [{ type: "told-you-so" }, /type is not one of scenario, invocation/],
    [{ ...good[1], atMs: "soon" }, /atMs is not a time/],
    [
      { ...good[1], operations: [{ f: "append", key: "x", value: 1.5 }] },
      /operations\[0\]\.value is not an integer/,
    ],
    [{ ...good[1], operations: [{ f: "remove" }] }, /operations\[0\]\.f is not one of append/],
    [{ ...good[2], position: { epoch: "e1", offset: "0x1" } }, /position\.offset is not an offset/],
    [{ ...good[2], shown: [[1, "2"]] }, /shown\[0\]\[1\] is not an integer/],
    [{ ...good[2], outcome: "maybe" }, /outcome is not one of committed/],
    [{ ...scenario(), levels: [""] }, /levels\[0\] is not a text/],
    [{ ...good.at(-1), lists: { x: 1 } }, /lists\.x is not a list/],
    [
      { ...good.at(-1), epochs: [{ ...epoch("e1", null), inHistory: 1 }] },
      /epochs\[0\]\.inHistory is not true or false/,
    ],
  ];
  for (const [record, message] of cases) {
    const file = write("malformed.jsonl", [good[0], record, ...good.slice(1)]);
    await assert.rejects(readAll(file), (error: HistoryError) => {
      assert.equal(error.fault, "malformed");
      assert.deepEqual(error.origin, { file, line: 2 });
      assert.ok(error.message.startsWith(`${file}:2: `), error.message);
      assert.match(error.message, message);
      return true;
    });
  }
  const glued = write("glued.jsonl", good.slice(0, 2), `{"type":"ans${JSON.stringify(good[2])}\n`);
  await assert.rejects(readAll(glued), { fault: "malformed", origin: { file: glued, line: 3 } });
});

test("an absent value cannot be read", async () => {
  await assert.rejects(readAll(join(folder, "nowhere.jsonl")), { fault: "unreadable" });
  await assert.rejects(readAll(import.meta.dirname), { fault: "unreadable" });
});

test("records that are together no history are refused", () => {
  const cases: [HistoryFault, RegExp, HistoryRecord[]][] = [
    ["incomplete", /no scenario/, good.slice(1)],
    ["incomplete", /no final state/, good.slice(0, -1)],
    ["contradictory", /second scenario/, [...good, scenario()]],
    ["contradictory", /second final/, [...good, ...good.slice(-1)]],
    ["contradictory", /one is invoked twice/, [...good, ...good.slice(1, 2)]],
    ["contradictory", /one is answered twice/, [...good, ...good.slice(2, 3)]],
    [
      "contradictory",
      /nobody has invoked one/,
      good.filter((it) => it.type !== "invocation" || it.txn !== "one"),
    ],
    ["contradictory", /no level galaxy/, [...good, failure(1, ["galaxy"])]],
    [
      "contradictory",
      /1 is written twice/,
      history({ one: { does: [append("x", 1)] }, two: { does: [insert(1)] } }),
    ],
    [
      "contradictory",
      /only reads, and writes/,
      history({ one: { does: [insert(1)], invocation: { readOnly: true } } }),
    ],
    ["contradictory", /1 operations have shown 0 things/, history({ one: { does: [read("x")], shows: [] } })],
    ["contradictory", /read, cannot have shown 7/, history({ one: { does: [read("x")], shows: [7] } })],
    [
      "contradictory",
      /comes before itself/,
      history(
        { one: { does: [append("x", 1)] } },
        { lists: { x: [1] }, epochs: [epoch("e1", "e2"), epoch("e2", "e1")] },
      ),
    ],
  ];
  for (const [fault, message, records] of cases) {
    assert.throws(
      () => check(records),
      (error) => {
        assert.ok(error instanceof HistoryError, String(error));
        assert.equal(error.fault, fault);
        assert.match(error.message, message);
        return true;
      },
    );
  }
});

test("lines may come in any order, in any number of files", () => {
  assert.deepEqual(check([...good].reverse()), check(good));
  const split = mkdtempSync(join(folder, "split-"));
  for (const [at, record] of good.entries())
    writeFileSync(join(split, `${String(at)}.jsonl`), JSON.stringify(record));
  writeFileSync(join(split, "client.notes"), "not a history");
  const { status, stdout } = run("--json", split);
  assert.equal(status, 0, stdout);
  assert.equal((JSON.parse(stdout) as { committed: number }).committed, 2);
});

test("the program answers with its status: good, violated, cannot be judged", () => {
  const fine = run(write("good.jsonl", good));
  assert.deepEqual([fine.status, fine.stderr], [0, ""]);
  assert.match(fine.stdout, /2 of 2 transactions committed[^]*weak: there was no failure[^]*no violations/);
  const bad = history({ one: { does: [append("x", 1)], receipt: null } });
  const wrong = run(write("bad.jsonl", bad));
  assert.equal(wrong.status, 1);
  assert.match(wrong.stdout, /VIOLATED fate\.durable-absent \(3\)[^]*T1 = one[^]*3 violations/);
  const json = JSON.parse(run("--json", write("bad.jsonl", bad, '{"type"')).stdout) as Record<
    string,
    unknown
  >;
  assert.equal(json.violations, 3);
  assert.deepEqual(json.violations_by_rule, { "fate.durable-absent": 3 });
  assert.equal(json.torn_lines, 1);
  for (const args of [[], [join(folder, "nowhere")], ["--loud"], [write("half.jsonl", good.slice(0, 2))]]) {
    const { status, stdout, stderr } = run(...args);
    assert.deepEqual([status, stdout], [2, ""]);
    assert.match(stderr, /cannot be judged/);
  }
});

test("a run that proves little says so", () => {
  const { weak } = check(
    history({ one: { does: [append("x", 1)], answer: { outcome: "aborted" }, final: null, receipt: null } }),
  );
  for (const note of [
    /nothing has committed/,
    /no list was read/,
    /1 of 1 keys were written and never read/,
    /no failure/,
  ]) {
    assert.ok(
      weak.some((text) => note.test(text)),
      `${String(note)} in ${weak.join("; ")}`,
    );
  }
});

test("the checker imports nothing but itself and what Node.js brings along", () => {
  const root = join(import.meta.dirname, "..");
  const files = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".ts"),
  );
  assert.ok(files.length > 10);
  for (const name of files) {
    const file = join(root, "src", name);
    const text = readFileSync(file, "utf8");
    assert.doesNotMatch(text, /import\(|require\(/, name);
    for (const [, from = ""] of text.matchAll(/^(?:import|export)\b[^;]*?from "([^"]+)";/gm)) {
      if (from.startsWith("node:")) assert.ok(builtinModules.includes(from.slice(5)), from);
      else
        assert.ok(
          join(dirname(file), from).startsWith(join(root, "src")) && from.startsWith("."),
          `${name}: ${from}`,
        );
    }
  }
});

test("every rule is explained, and violated by some test", () => {
  const tests = readdirSync(import.meta.dirname, { encoding: "utf8" }).filter((name) =>
    name.endsWith(".test.ts"),
  );
  const text = tests.map((name) => readFileSync(join(import.meta.dirname, name), "utf8")).join("\n");
  const readme = readFileSync(join(import.meta.dirname, "..", "README.md"), "utf8");
  for (const rule of Object.keys(RULES)) {
    assert.ok(text.includes(`"${rule}"`), `no test violates ${rule}`);
    assert.ok(readme.includes(`\`${rule}\``), `the README does not explain ${rule}`);
  }
});
