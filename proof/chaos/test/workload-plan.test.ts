// Goal: the workload's plan depends only on its seed, and the recorded history is read back
// unchanged.
import assert from "node:assert/strict";
import { appendFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { type Invocation, type Operation } from "@highwater/checker";
import { beginningWith } from "../src/workload/clients.ts";
import { Journal } from "../src/workload/journal.ts";
import { better, type Outcome } from "../src/workload/outcomes.ts";
import { type Plan, Planner } from "../src/workload/plan.ts";
import { Random } from "../src/workload/random.ts";
import { readRecorded } from "../src/workload/recorded.ts";
import { shownBy, statementsOf } from "../src/workload/schema.ts";

const LEVELS = ["disk", "region", "global"];
const MANY = 2_000;

function planner(seed: string): Planner {
  let value = 0;
  return new Planner({ random: new Random(seed), levels: LEVELS, newValue: () => ++value });
}

function plans(seed: string): Plan[] {
  const one = planner(seed);
  return Array.from({ length: MANY }, () => one.next());
}

const valuesOf = ({ operations }: Plan): number[] =>
  operations.flatMap((operation) => ("value" in operation ? [operation.value] : []));

test("the same seed plans the same, another one something else", () => {
  assert.deepEqual(plans("one"), plans("one"));
  assert.notDeepEqual(plans("one"), plans("other"));
});

test("everything is planned that anomalies show in, and no value twice", () => {
  const all = plans("one");
  const kinds = new Set(all.flatMap(({ operations }) => operations.map(({ f }) => f)));
  assert.deepEqual([...kinds].sort(), ["append", "insert", "read", "readAppend", "sum", "transfer"]);
  const combinations = new Set(all.map(({ ack, level, readOnly }) => `${ack} ${level} ${String(readOnly)}`));
  assert.equal(combinations.size, 12, "fast and safe, at every level, reading and writing");
  const values = all.flatMap(valuesOf);
  assert.equal(new Set(values).size, values.length);
  for (const plan of all) {
    const writes = plan.operations.some(({ f }) => f !== "read" && f !== "sum");
    assert.ok(!(plan.readOnly && writes));
    assert.ok(!(plan.readOnly && plan.isDuplicated), "a read runs as often as it is sent");
  }
});

test("with replays a third is kept, and its client does not run again what an operator brings back", () => {
  let value = 0;
  const keeping = new Planner({
    random: new Random("one"),
    levels: LEVELS,
    newValue: () => ++value,
    keeps: true,
  });
  const all = Array.from({ length: MANY }, () => keeping.next());
  const kept = all.filter(({ keep }) => keep);
  assert.ok(kept.length > MANY / 4 && kept.length < MANY / 2, String(kept.length));
  const operations = kept.flatMap((plan) => plan.operations);
  const ways = new Set(operations.map((it) => ("how" in it ? it.how : it.f)));
  assert.deepEqual([...ways].sort(), ["append", "look", "make", "shown", "silent", "upsert"]);
  const made = operations.flatMap((it) => (it.f === "make" ? [it.key] : []));
  for (const key of made)
    assert.match(key, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(new Set(made).size, made.length);
  assert.ok(kept.every(({ onLost, ack }) => onLost !== "rerun" || ack === "durable"));
});

test("a body that runs again does the same to the same, with values of its own", () => {
  const one = planner("one");
  const plan = one.nextWrite();
  const again = one.again(plan);
  const shape = ({ operations }: Plan): unknown[] =>
    operations.map((operation) => ({ ...operation, value: 0 }));
  assert.deepEqual(shape(again), shape(plan));
  for (const value of valuesOf(again)) assert.ok(!valuesOf(plan).includes(value));
});

test("processes of one region begin with different gateways of it, and know all others", () => {
  const at = (region: string, gateway: string) => ({ region, gateway, tracker: region });
  const [one, two, west, europe] = [at("east", "1"), at("east", "2"), at("west", "3"), at("europe", "4")];
  const all = [one, two, west, europe];
  assert.deepEqual(beginningWith(0, all), all);
  assert.deepEqual(beginningWith(1, all), [two, one, west, europe]);
  assert.deepEqual(beginningWith(2, all), all);
  assert.deepEqual(beginningWith(1, [one, west]), [one, west], "there is only one");
});

test("results are read as what each operation has shown", () => {
  const operations: Operation[] = [
    { f: "transfer", from: 1, to: 2, amount: 3 },
    { f: "readAppend", key: "a", value: 7 },
    { f: "read", key: "b" },
    { f: "sum" },
    { f: "insert", value: 8 },
  ];
  const results = statementsOf(operations, "id").map(({ sql }) => {
    if (sql.includes("sum(")) return [["12000"]];
    return sql.startsWith("SELECT") ? (sql.includes("chaos_list") ? [["[1,2]"]] : []) : [];
  });
  results[5] = [];
  assert.deepEqual(shownBy(operations, results), [null, [1, 2], [], 12_000, null]);
  assert.throws(() => shownBy(operations, results.slice(0, 4)), /no result/);
});

test("of two answers about one id the one counts that says more", () => {
  const outcome = (of: Partial<Outcome>): Outcome => ({
    ...{ outcome: "committed", durableAt: null, position: null, shown: null, replayed: false, error: null },
    ...of,
  });
  const [ran, replayed] = [outcome({ shown: [null] }), outcome({ replayed: true })];
  const [aborted, unknown] = [outcome({ outcome: "aborted" }), outcome({ outcome: "unknown" })];
  assert.equal(better(replayed, ran), ran);
  assert.equal(better(ran, replayed), ran);
  assert.equal(better(aborted, unknown), unknown, "the other one may have run");
  assert.equal(better(unknown, replayed), replayed);
});

test("what a process had written when it was killed is read, and what it had not answered is open", async () => {
  const dir = await mkdtemp(join(tmpdir(), "highwater-recorded-"));
  try {
    const journal = new Journal(dir, "client-one");
    const invocation: Omit<Invocation, "type" | "atMs" | "txn" | "readOnly"> = {
      ...{ client: "one", session: null, rerunOf: null, ack: "commit", level: "region" },
      ...{ isolation: "serializable", after: null, operations: [] },
    };
    for (const txn of ["answered", "unknown", "resolved", "silent", "silent read"])
      journal.invoked({ ...invocation, txn, readOnly: txn.endsWith("read") });
    const nothing = { durableAt: null, position: null, shown: null, replayed: false, error: null };
    journal.note({ kind: "token", txn: "answered", token: "hw2_a", attempt: null });
    journal.answered({ txn: "answered", outcome: "committed", ...nothing });
    for (const txn of ["unknown", "resolved"]) journal.answered({ txn, outcome: "unknown", ...nothing });
    journal.resolved({ txn: "resolved", outcome: "aborted", position: null });
    journal.note({ kind: "epoch", id: "e", seq: 1, previous: null, node: "a" });
    journal.close();
    await appendFile(join(dir, "client-one.jsonl"), '{"type":"answer","txn":"sil');
    const recorded = await readRecorded(dir);
    assert.deepEqual(recorded.unanswered, ["silent", "silent read"]);
    assert.deepEqual(recorded.unresolved, ["unknown", "silent"]);
    assert.equal(recorded.tokens.get("answered")?.token, "hw2_a");
    assert.deepEqual(
      recorded.epochs.map(({ id }) => id),
      ["e"],
    );
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
});
