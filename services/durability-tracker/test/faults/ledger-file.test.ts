// Goal: whatever happens to the ledger's file, a tracker either has everything that it acknowledged, or it does not run.
// Method: real processes on real files: a file in use, a full disk, a torn end, a spoilt middle, another system's ledger.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, open, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { after, before, describe, it } from "node:test";
import { promisify } from "node:util";
import { type Cluster } from "@highwater/lab-cluster";
import { type ServiceProcess } from "@highwater/lab-system";
import {
  announce,
  epochOf,
  judge,
  manyPositions,
  startLone,
  startPair,
  untilExited,
} from "./lone-tracker.ts";
import { EAST, eventually } from "./support.ts";

const run = promisify(execFile);
/** A tracker that is killed in the middle of its stop has not written what these tests look for. */
const STOP_LIMIT_MS = 60_000;

describe("the ledger's file", () => {
  let cluster: Cluster;
  let dir: string;
  let files = 0;
  const trackers: ServiceProcess[] = [];

  before(async () => {
    dir = await mkdtemp(join(tmpdir(), "highwater-ledger-"));
    cluster = await startPair();
  });

  after(async () => {
    for (const tracker of trackers) if (tracker.running) await tracker.kill();
    await cluster.close();
    await rm(dir, { recursive: true, force: true });
  });

  const newFile = (): string => join(dir, `ledger-${String(files++)}.sqlite`);

  async function start(ledger: string, name?: string): Promise<ServiceProcess> {
    const tracker = await startLone({ cluster, ledger, ...(name === undefined ? {} : { name }) });
    trackers.push(tracker);
    return tracker;
  }

  async function held(tracker: ServiceProcess): Promise<number> {
    const text = await (await fetch(`${tracker.url}/metrics`)).text();
    return Number(/^highwater_ledger_entries (\d+)$/m.exec(text)?.[1]);
  }

  it("is one tracker's: a second one does not start, and the first goes on", async () => {
    const ledger = newFile();
    const first = await start(ledger, "first");
    const epoch = await epochOf(first);
    await assert.rejects(start(ledger, "second"), /exited while it started/);
    assert.ok(await announce(first, manyPositions(epoch, 10)));
    assert.equal(await held(first), 10);
    await first.kill();
    const second = await start(ledger, "second");
    assert.equal(await held(second), 10, "a dead tracker's lock is gone with it");
    await second.kill();
  });

  it("announced again, it is as if it had been announced once", async () => {
    const tracker = await start(newFile());
    const epoch = await epochOf(tracker);
    const batch = manyPositions(epoch, 100);
    const intents = batch.map(
      ({ id }) => ({ kind: "intent", id, epoch, by: id, endsWithinMs: 1_000 }) as const,
    );
    for (const sent of [intents, batch, batch, intents, intents, batch])
      assert.ok(await announce(tracker, sent));
    assert.equal(await held(tracker), 100);
    const again = await eventually("it is started again", async () => {
      await tracker.kill();
      return startLone({ cluster, ledger: join(dir, `ledger-${String(files - 1)}.sqlite`) });
    });
    trackers.push(again);
    assert.equal(await held(again), 100);
    assert.ok((await judge(again, batch)).every(({ verdict }) => verdict === "pending"));
    await again.kill();
  });

  it("on a full disk: what is not on disk is not acknowledged, and the tracker exits rather than go on without", async () => {
    const ledger = newFile();
    const tracker = await start(ledger);
    const epoch = await epochOf(tracker);
    const before = manyPositions(epoch, 100);
    assert.ok(await announce(tracker, before));
    // No file of the process grows any more, as on a full disk.
    const { size } = await stat(`${ledger}-wal`);
    await run("prlimit", ["--pid", String(tracker.pid), `--fsize=${String(size)}`]);
    const acknowledged = [...before];
    for (let at = 0; at < 50 && tracker.running; at++) {
      const batch = manyPositions(epoch, 200);
      // What was refused is sent again, as gateways do; it must not be acknowledged because it is in memory by now.
      for (let attempt = 0; attempt < 3; attempt++) {
        if (!(await announce(tracker, batch))) continue;
        acknowledged.push(...batch);
        break;
      }
    }
    await untilExited(tracker);
    const next = await start(ledger);
    assert.ok(acknowledged.length < 50 * 200, "it ran into the limit");
    assert.ok((await held(next)) >= acknowledged.length, `${String(acknowledged.length)} were acknowledged`);
    const known = new Set((await judge(next, acknowledged)).map(({ verdict }) => verdict));
    assert.deepEqual(known, new Set(["pending"]));
    await next.kill();
  });

  it("stopped in order, it has every mark that a client may have received", async () => {
    const ledger = newFile();
    const tracker = await start(ledger);
    const epoch = await epochOf(tracker);
    // Something that waits for ever keeps it looking.
    assert.ok(await announce(tracker, manyPositions(epoch, 1)));
    let reported = 0n;
    // Marks go to disk once in a while; whichever is the last one here, it is hardly ever that one.
    for (let wave = 0; wave < 6; wave++) {
      const [row] = await cluster.query(
        EAST,
        "SELECT (pg_logical_emit_message(true, 'test', 'x') - '0/0')::text AS at",
      );
      const at = BigInt(String(row?.["at"]));
      reported = await eventually("the mark passes it", async () => {
        const answer = await fetch(`${tracker.url}/v1/durability/marks`);
        const { marks } = (await answer.json()) as { marks: { levels: Record<string, string> } | null };
        const mark = BigInt(marks?.levels["disk"] ?? 0);
        return mark >= at ? mark : undefined;
      });
    }
    await tracker.stop(STOP_LIMIT_MS);
    const file = new DatabaseSync(ledger, { readOnly: true });
    const saved = file.prepare("SELECT body FROM mark WHERE key = ?").get(`${epoch}/disk`);
    file.close();
    // Behind the eight characters of the row's sum.
    const mark = String(saved?.["body"]).slice(8);
    assert.ok(BigInt(mark) >= reported, `${mark} < ${String(reported)}`);
  });

  it("with a torn end: everything that was acknowledged is there", async () => {
    const ledger = newFile();
    const tracker = await start(ledger);
    const epoch = await epochOf(tracker);
    assert.ok(await announce(tracker, manyPositions(epoch, 500)));
    await tracker.kill();
    const wal = await readFile(`${ledger}-wal`);
    assert.ok(wal.length > 0);
    // What a power failure leaves of a write that had begun: the head of a frame, and nonsense.
    await writeFile(
      `${ledger}-wal`,
      Buffer.concat([wal, wal.subarray(32, 32 + 24 + 1_000), Buffer.alloc(777, 0xa5)]),
    );
    const next = await start(ledger);
    assert.equal(await held(next), 500);
    await next.kill();
  });

  it("with a spoilt middle, or that is no ledger at all: the tracker does not start with less", async () => {
    const ledger = newFile();
    const tracker = await start(ledger);
    assert.ok(await announce(tracker, manyPositions(await epochOf(tracker), 5_000)));
    // A clean stop leaves everything in the main file.
    await tracker.stop(STOP_LIMIT_MS);
    const { size } = await stat(ledger);
    assert.ok(size > 100_000);
    const file = await open(ledger, "r+");
    await file.write(Buffer.alloc(size - 100 - 8_192, 0xa5), 0, size - 100 - 8_192, 8_192);
    await file.close();
    await assert.rejects(start(ledger), /exited while it started/);
    const text = newFile();
    await writeFile(text, "this is a text, and long enough to be taken for anything at all\n".repeat(100));
    await assert.rejects(start(text), /exited while it started/);
    await assert.rejects(start(join(dir, "no-such-folder", "ledger.sqlite")), /exited while it started/);
  });

  it("of another system: nothing is judged by it, and nothing of it is written there", async () => {
    const ledger = newFile();
    const here = await start(ledger);
    const epoch = await epochOf(here);
    const announced = manyPositions(epoch, 20);
    assert.ok(await announce(here, announced));
    await here.kill();
    const elsewhere = await startPair();
    try {
      const native = await startLone({ cluster: elsewhere, ledger: newFile(), name: "native" });
      trackers.push(native);
      const other = await epochOf(native);
      const lost = await startLone({ cluster: elsewhere, ledger, name: "astray" });
      trackers.push(lost);
      await eventually("it says that it follows nobody", async () => {
        const answer = await fetch(`${lost.url}/readyz`);
        return answer.status === 503;
      });
      // A crash would have everything of the other system's epoch judged, if it took that for an ancestor.
      await elsewhere.crashBackend(EAST);
      const next = await epochOf(native, other);
      assert.notEqual(next, epoch);
      assert.ok(await announce(native, manyPositions(next, 1)));
      const judged = await judge(lost, announced);
      assert.deepEqual(new Set(judged.map(({ verdict }) => verdict)), new Set(["pending"]));
      assert.equal((await fetch(`${lost.url}/readyz`)).status, 503);
      const [tombstones] = await elsewhere.query(
        EAST,
        "SELECT count(*)::int AS n FROM highwater.receipt WHERE id = ANY ($1)",
        [announced.map(({ id }) => id)],
      );
      assert.equal(tombstones?.["n"], 0);
      await native.kill();
      await lost.kill();
    } finally {
      await elsewhere.close();
    }
    const back = await start(ledger);
    assert.equal(await epochOf(back), epoch);
    assert.equal(await held(back), 20, "at home it goes on");
    await back.kill();
  });
});
