// Goal: every attempt that becomes durable is counted once at each level, with the time that it took, in whatever way it got there.
// Method: what the core reports of lags, added up; the clock is the test's.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Driven, record } from "../../test/support/core.ts";
import { type CoreConfig, type Effect } from "./index.ts";

const LEVELS: Partial<CoreConfig> = {
  levels: [
    { name: "disk", rule: { primary: true } },
    { name: "region", rule: { replicas: 1, outside: "region" } },
  ],
};
const first = record(1);

interface PublishedLag {
  readonly count: number;
  readonly lagsMs: readonly number[];
}

function lagsAt(level: string, effects: readonly Effect[]): PublishedLag[] {
  return effects.flatMap((effect) =>
    effect.kind === "publish_lag" && effect.level === level ? [effect] : [],
  );
}

const counted = (level: string, { effects }: Driven): number =>
  lagsAt(level, effects).reduce((sum, { count }) => sum + count, 0);

test("a mark that passes many attempts is reported once, with their number and a sample of their times", () => {
  const it = new Driven(LEVELS);
  it.follow(first);
  const announcedMs: number[] = [];
  for (let n = 1; n <= 1_000; n++) {
    it.position(n, 1, 100 + n);
    announcedMs.push(it.nowMs);
  }
  const effects = it.positions(1_100);
  const [disk, ...others] = lagsAt("disk", effects);
  assert.equal(others.length, 0);
  assert.equal(disk?.count, 1_000);
  assert.ok(disk.lagsMs.length <= 16);
  const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;
  const trueMean = mean(announcedMs.map((atMs) => it.nowMs - atMs));
  assert.ok(Math.abs(mean(disk.lagsMs) - trueMean) <= 2, `${String(mean(disk.lagsMs))} ${String(trueMean)}`);
  assert.deepEqual(lagsAt("region", effects), []);
});

test("each level has its own time, and a repeated mark counts no attempt twice", () => {
  const it = new Driven(LEVELS);
  it.follow(first);
  it.position(1, 1, 50);
  const announcedMs = it.nowMs;
  it.positions(50, {});
  const diskMs = it.nowMs - announcedMs;
  it.sleep(500);
  it.confirm(50, { b: ["s1", 50] });
  it.positions(90, { b: ["s1", 90] });
  assert.deepEqual(
    lagsAt("disk", it.effects).map(({ count, lagsMs }) => ({ count, lagsMs })),
    [{ count: 1, lagsMs: [diskMs] }],
  );
  const [region] = lagsAt("region", it.effects);
  assert.equal(counted("region", it), 1);
  assert.ok((region?.lagsMs[0] ?? 0) >= 500);
});

test("an attempt that is announced below the mark was durable from the start, and counts too", () => {
  const it = new Driven(LEVELS);
  it.follow(first);
  it.positions(100);
  it.intent(1, 1);
  it.sleep(40);
  it.position(1, 1, 60);
  it.position(2, 1, 70);
  const disk = lagsAt("disk", it.effects);
  assert.equal(counted("disk", it), 2);
  assert.deepEqual(
    disk.map(({ lagsMs }) => lagsMs[0]),
    [42, 0],
  );
});

test("an attempt that is carried over a failover counts with its whole time", () => {
  const it = new Driven({ levels: [{ name: "disk", rule: { primary: true } }] });
  it.follow(first);
  it.position(1, 1, 40);
  it.sleep(5_000);
  it.follow(first, record(2, { node: "b", fork: 50, start: 60 }));
  it.positions(70);
  assert.equal(counted("disk", it), 1);
  assert.ok((lagsAt("disk", it.effects)[0]?.lagsMs[0] ?? 0) >= 5_000);
});
