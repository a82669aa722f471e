// Goal: a tracker that is killed at any step keeps every announcement that it has acknowledged, and gateways send the
// others again.
// Method: a proxy stops the gateway's announcements at the step, the process is killed, and started with what it has on
// disk. Then everything is lost in a failover: each tracker has to report each transaction by itself.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  EAST,
  eventually,
  FaultySystem,
  isIntentOf,
  isPositionOf,
  newId,
  WEST,
  type Written,
} from "./support.ts";

test("kill -9 of a tracker at each step of an announcement", async () => {
  await using faulty = await FaultySystem.start();
  await faulty.starve(WEST);
  const written: Written[] = [];
  const steps = [
    // Before the tracker has it: the gateway has to send it again.
    ["request", isIntentOf],
    // The tracker has said that it is on disk: the gateway gets that answer, and sends it no more.
    ["answer", isIntentOf],
    ["request", isPositionOf],
    ["answer", isPositionOf],
  ] as const;
  for (const [stage, wanted] of steps) {
    const id = newId();
    const held = faulty.proxy(WEST).hold(stage, wanted(id));
    const committing = faulty.put(id);
    await held.reached;
    await faulty.bounceTracker(WEST, async () => {
      held.release();
      written.push(await committing);
    });
    written.push(await faulty.put());
  }
  // Acknowledged in full: the last word is on disk before the kill.
  const last = newId();
  const acknowledged = faulty.proxy(WEST).hold("answer", isPositionOf(last));
  written.push(await faulty.put(last));
  await acknowledged.reached;
  acknowledged.release();
  await faulty.bounceTracker(WEST);

  await faulty.failOver();
  const ids = written.map(({ id }) => id);
  for (const region of [WEST, EAST]) await faulty.untilReported(region, ids);
  // The verdict is published: killed now, it says the same again.
  await faulty.bounceTracker(WEST);
  for (const region of [WEST, EAST])
    for (const verdict of await faulty.verdicts(region, written)) assert.equal(verdict.verdict, "lost");
  const present = await faulty.keysOn(WEST);
  assert.deepEqual(
    [...present].filter((key) => ids.includes(key)),
    [],
  );
  await eventually("it is a ledger like any other", async () => {
    const after = await faulty.put();
    return (await faulty.verdicts(WEST, [after], "disk"))[0]?.verdict === "durable";
  });
});
