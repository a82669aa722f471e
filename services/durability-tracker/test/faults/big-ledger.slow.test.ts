// Goal: a tracker with a big ledger that is killed again and again still judges every entry at the
// end.
// Method: a real process and file with 8,000 entries; kills while it reads them, and while it reconciles them with a new epoch.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { type ServiceProcess } from "@highwater/lab-system";
import { announce, epochOf, judge, manyPositions, startLone, startPair } from "./lone-tracker.ts";
import { EAST, eventually } from "./support.ts";

test("killed while it loads a big ledger, and while a new epoch is reconciled: all of it gets its verdict", async (context) => {
  const dir = await mkdtemp(join(tmpdir(), "highwater-ledger-"));
  const ledger = join(dir, "ledger.sqlite");
  const cluster = await startPair();
  const trackers: ServiceProcess[] = [];
  context.after(async () => {
    for (const tracker of trackers) if (tracker.running) await tracker.kill();
    await cluster.close();
    await rm(dir, { recursive: true, force: true });
  });
  const start = async (): Promise<ServiceProcess> => {
    const tracker = await startLone({ cluster, ledger, name: "big" });
    trackers.push(tracker);
    return tracker;
  };
  const first = await start();
  const epoch = await epochOf(first);
  const announced = manyPositions(epoch, 8_000);
  for (let at = 0; at < announced.length; at += 4_000)
    assert.ok(await announce(first, announced.slice(at, at + 4_000)));
  await first.kill();
  // Wherever it is when it is killed: while it starts, reads, or has just listened.
  for (const startLimitMs of [50, 150, 250, 350, 450])
    await startLone({ cluster, ledger, name: "big", startLimitMs }).then(
      (tracker) => tracker.kill(),
      () => undefined,
    );
  await cluster.crashBackend(EAST);
  const lostSoFar = async (tracker: ServiceProcess): Promise<number> => {
    const text = await (await fetch(`${tracker.url}/metrics`)).text();
    return Number(/^highwater_lost_total (\d+)$/m.exec(text)?.[1]);
  };
  const areJudged = async (): Promise<boolean> => {
    for (let at = 0; at < announced.length; at += 500) {
      const judged = await judge(tracker, announced.slice(at, at + 500));
      if (judged.some(({ verdict }) => verdict === "pending")) return false;
      assert.deepEqual(new Set(judged.map(({ verdict }) => verdict)), new Set(["lost"]));
    }
    return true;
  };
  let tracker = await start();
  for (const enough of [0, 1, 1_000]) {
    await eventually("it has begun", async () => {
      if (!(await fetch(`${tracker.url}/readyz`)).ok) return false;
      return (await lostSoFar(tracker)) >= enough || areJudged();
    });
    await tracker.kill();
    tracker = await start();
  }
  await eventually("every one is judged", areJudged);
  await tracker.kill();
});
