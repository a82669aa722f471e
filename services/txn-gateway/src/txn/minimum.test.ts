import assert from "node:assert/strict";
import { test } from "node:test";
import { achievedLevel, minimumOf, raised } from "./minimum.ts";

const LEVELS = ["disk", "region", "global"];
const key = { minLevel: "region" };

test("a write is raised to the minimum, and to nothing beyond it", () => {
  const waiting = { ack: "durable", maxWaitMs: 5 } as const;
  const commit = { ack: "commit", level: "global", maxWaitMs: 5 } as const;
  assert.deepEqual(raised(commit, true, key, LEVELS), { ...waiting, level: "region" });
  assert.deepEqual(raised({ ...waiting, level: "disk" }, true, key, LEVELS), { ...waiting, level: "region" });
  assert.equal(raised({ ...waiting, level: "global" }, true, key, LEVELS).level, "global");
  assert.equal(raised(commit, true, {}, LEVELS), commit);
  assert.equal(raised(commit, false, key, LEVELS), commit, "a read");
  assert.equal(raised({ ...waiting, level: "disk" }, false, key, LEVELS).level, "region", "a safe read");
});

test("a level that is gone counts as the strongest", () => {
  assert.equal(minimumOf({ minLevel: "zone" }, LEVELS), "global");
});

test("the achieved level is the better of what marks and the verdict say", () => {
  assert.equal(achievedLevel("global", "disk", LEVELS), "global");
  assert.equal(achievedLevel("disk", "region", LEVELS), "region");
  assert.equal(achievedLevel(null, "region", LEVELS), "region");
  assert.equal(achievedLevel(null, null, LEVELS), null);
});
