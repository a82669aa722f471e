// Goal: Prometheus reads what was counted, whatever the labels contain, and the catalogue follows
// Prometheus' own rules.
import assert from "node:assert/strict";
import { test } from "node:test";
import { CATALOGUE } from "./catalogue/index.ts";
import { counter, gauge, histogram } from "./definition.ts";
import { MetricSet } from "./registry.ts";

const about = { help: "A thing.", question: "How is it?" };

test("a counter counts by the values of its labels, and is there at 0 where they are all known", () => {
  const set = new MetricSet();
  const calls = set.counter(
    counter("calls_total", { ...about, labels: { how: ["well", "badly"], why: "a word" } }),
  );
  const ends = set.counter(counter("ends_total", { ...about, labels: { how: ["well", "badly"] } }));
  calls.add("well", "a");
  calls.add("well", "a");
  calls.add("badly", "a");
  calls.addMany(5, "well", "b");
  ends.add("badly");
  assert.equal(
    set.render(),
    `# HELP calls_total A thing.
# TYPE calls_total counter
calls_total{how="well",why="a"} 2
calls_total{how="badly",why="a"} 1
calls_total{how="well",why="b"} 5
# HELP ends_total A thing.
# TYPE ends_total counter
ends_total{how="well"} 0
ends_total{how="badly"} 1
`,
  );
  assert.equal(calls.total, 8);
});

test("a histogram's buckets are cumulative, a bound belongs to its own bucket, and a weight counts so many", () => {
  const set = new MetricSet();
  const waits = set.histogram(histogram("wait_seconds", { ...about, buckets: [0.5, 1, 2] }));
  for (const value of [0.25, 0.5, 0.75, 2, 8]) waits.at().observe(value);
  waits.at().observe(1.5, 4);
  assert.deepEqual(set.render().split("\n").slice(2, -1), [
    'wait_seconds_bucket{le="0.5"} 2',
    'wait_seconds_bucket{le="1"} 3',
    'wait_seconds_bucket{le="2"} 8',
    'wait_seconds_bucket{le="+Inf"} 9',
    "wait_seconds_sum 17.5",
    "wait_seconds_count 9",
  ]);
});

test("what stands in a label cannot end it", () => {
  const set = new MetricSet();
  set.read(gauge("load", { ...about, labels: { name: "any" } }), () => [
    { labels: { name: 'a"} 7\n\\' }, value: 0.5 },
  ]);
  assert.equal(set.render().split("\n")[2], 'load{name="a\\"} 7\\n\\\\"} 0.5');
});

test("a gauge that has nothing to say says nothing", () => {
  const set = new MetricSet();
  set.read(gauge("load", about), () => null);
  assert.equal(set.render(), "# HELP load A thing.\n# TYPE load gauge\n");
});

test("a name is there once, and is what the catalogue says it is", () => {
  const set = new MetricSet();
  set.counter(counter("a_total", about));
  assert.throws(() => set.counter(counter("a_total", about)), /a_total is there twice/);
  assert.throws(() => set.counter(gauge("b", about)), /b is a gauge/);
  assert.throws(
    () => set.counter(counter("c_total", { ...about, labels: { a: "", b: "", c: "", d: "", e: "" } })),
    /too many labels/,
  );
});

test("the catalogue keeps to the rules of Prometheus' names", () => {
  const all = CATALOGUE.flatMap(({ metrics }) => metrics);
  assert.ok(all.length > 60);
  assert.equal(new Set(all.map(({ name }) => name)).size, all.length);
  for (const { name, kind, labels, unit, help, question, buckets } of all) {
    assert.match(name, /^(?:highwater|process|nodejs)_[a-z_]*[a-z]$/, name);
    assert.equal(name.endsWith("_total"), kind === "counter", name);
    if (unit === "seconds" || unit === "bytes") assert.match(name, new RegExp(`_${unit}(?:_total)?$`), name);
    else assert.doesNotMatch(name, /_(?:seconds|bytes|ms)(?:_|$)/, name);
    for (const label of Object.keys(labels)) assert.match(label, /^[a-z]+$/, name);
    assert.ok(!("le" in labels), name);
    assert.match(help, /\.$/, name);
    assert.match(question, /\?/, name);
    assert.equal(buckets.length > 0, kind === "histogram", name);
    assert.deepEqual(
      [...buckets].sort((a, b) => a - b),
      buckets,
      name,
    );
  }
});
