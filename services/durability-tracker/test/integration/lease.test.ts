// Goal: under a lease a tracker believes positions only if the primary that reported them had not been given up meanwhile.
// Method: the tracker's own loop on a memory world and a real etcd; the lease moves while an answer is on its way.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Etcd, type HeldKey } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { type EpochId, type LevelRule, makeUuidV7, type Offset } from "@highwater/protocol";
import { realClock as clock } from "@highwater/runtime";
import { TEST_DEPLOYMENT, testDeploymentKeys } from "@highwater/service/testing";
import { type PositionsReport } from "@highwater/store";
import { MemoryStore, MemoryWorld } from "@highwater/store/memory";
import { loadConfig, type LoadedConfig } from "../../src/config.ts";
import { markIn, whyNotSynchronous } from "../../src/core/index.ts";
import { LedgerFile } from "../../src/shell/ledger-file.ts";
import { TrackerLoop } from "../../src/shell/loop.ts";

const NODES = ["east", "west"].map((id) => ({
  id,
  region: id,
  zone: `${id}-a`,
  url: `postgresql://${id}/app`,
}));
/** No test waits for it to run out. */
const TTL_S = 60;
const silent = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** Answers as the memory store does, but lets the test step in between the answer and its arrival. */
class SlowStore extends MemoryStore {
  onWay: () => Promise<void> = () => Promise.resolve();

  override async positions(node: string): Promise<PositionsReport | null> {
    await this.beforeAnswer(node);
    const report = await super.positions(node);
    const { onWay } = this;
    this.onWay = () => Promise.resolve();
    await onWay();
    return report;
  }

  /** What happens on the node before it is asked. */
  beforeAnswer: (node: string) => Promise<void> = () => Promise.resolve();
}

let etcd: Etcd;
let dir: string;

before(async () => {
  etcd = await Etcd.start();
  dir = await mkdtemp(join(tmpdir(), "highwater-lease-"));
});

after(async () => {
  await etcd.close();
  await rm(dir, { recursive: true, force: true });
});

interface Bench {
  readonly world: MemoryWorld;
  readonly store: SlowStore;
  readonly loop: TrackerLoop;
  readonly scope: string;
  readonly currentEpoch: () => { node: string; epoch: EpochId } | null;
  readonly mark: (epoch: EpochId, level: string) => Offset;
  readonly commit: (node: string, inEpoch: EpochId) => Promise<Offset>;
  /** Gives the leader key to another, or to the same one anew. */
  readonly moveTo: (node: string) => Promise<void>;
}

type Levels = Readonly<Record<string, LevelRule>>;

const loadFor = (scope: string, levels: Levels, authority: Record<string, string>): LoadedConfig =>
  loadConfig(
    {
      ...TEST_DEPLOYMENT,
      TRACKER_NAME: "east",
      TRACKER_REGION: "east",
      TRACKER_LEDGER: join(dir, `${scope}.sqlite`),
      TRACKER_PROBE_INTERVAL_MS: "20",
      TRACKER_IDLE_POLL_MS: "20",
      HIGHWATER_TOPOLOGY: JSON.stringify({ nodes: NODES, levels }),
      ...authority,
    },
    () => "",
  );

/** A tracker that follows the lease of its own scope, which east holds. */
async function withTracker(
  scope: string,
  levels: Levels,
  run: (bench: Bench) => Promise<void>,
): Promise<void> {
  const world = new MemoryWorld({ nodes: NODES, wallMs: () => Date.now(), retentionMs: 3_600_000 });
  const store = new SlowStore({ world, helper: "tracker" });
  const writer = new MemoryStore({ world, helper: "gateway" });
  const loaded = loadFor(scope, levels, {
    HIGHWATER_AUTHORITY: "lease",
    HIGHWATER_LEASE_ETCD: etcd.url,
    HIGHWATER_LEASE_SCOPE: scope,
    HIGHWATER_LEASE_POLL_MS: "1000",
  });
  assert.ok(loaded.ok);
  const { config } = loaded;
  const ledger = new LedgerFile(config.ledgerFile, (cause) => {
    throw cause;
  });
  const deploymentKeys = testDeploymentKeys();
  const onCoreFailure = (cause: Error): never => {
    throw cause;
  };
  const scheduleFault = (): null => null;
  const deps = { store, clock, ledger, log: silent, deploymentKeys, scheduleFault, onCoreFailure };
  const loop = new TrackerLoop(config, deps);
  const key = `/service/${scope}/leader`;
  let held: HeldKey = await etcd.hold(key, "east", TTL_S);
  try {
    await loop.start();
    await run({
      ...{ world, store, loop, scope },
      currentEpoch: () =>
        loop.state.topology.standing.kind === "following" ? loop.state.topology.standing : null,
      mark: (epoch, level) => markIn(loop.state, epoch, level) ?? (0n as Offset),
      commit: async (node, inEpoch) => {
        const id = makeUuidV7(Date.now(), randomBytes(10));
        const done = await writer.execute(node, {
          id,
          tag: deploymentKeys.receiptTag(0n, id),
          digest: 1n,
          epoch: inEpoch,
          statements: [{ sql: "put $1 $2", params: ["key", String(Math.random())] }],
          isolation: "read committed",
          readOnly: false,
          maxRows: 1,
          maxBytes: 1_000,
        });
        world.flush(node);
        assert.ok(done.kind === "committed");
        return done.offset;
      },
      moveTo: async (node) => {
        await held.revoke();
        held = await etcd.hold(key, node, TTL_S);
      },
    });
  } finally {
    loop.stop();
    held.abandon();
    await ledger.close();
    await store.close();
  }
}

test("positions of a primary that is given up before they arrive do not count", () =>
  withTracker("shop", { disk: { primary: true } }, async (bench) => {
    const { world, store, loop, currentEpoch, commit, moveTo } = bench;
    await eventually("east reigns", () => currentEpoch()?.node === "east");
    const epoch = currentEpoch()?.epoch;
    assert.ok(epoch !== undefined);
    const mark = (): Offset => bench.mark(epoch, "disk");
    const first = await commit("east", epoch);
    await eventually("what east has is believed", () => mark() >= first);

    let second = 0n as Offset;
    // The commit is there when the node is asked; the lease moves while its answer is on its way.
    const reported = new Promise<void>((resolve) => {
      store.beforeAnswer = async (node) => {
        store.beforeAnswer = () => Promise.resolve();
        second = await commit(node, epoch);
        store.onWay = async () => {
          await moveTo("west");
          resolve();
        };
      };
    });
    await reported;
    await eventually("the tracker notices", () => {
      const { standing } = loop.state.topology;
      return standing.kind === "unsettled" && standing.reason === "west holds the lease, but is not writable";
    });
    assert.ok(second > first && mark() < second, `${String(mark())} is below ${String(second)}`);

    // The same holder again is another term: reports of the last one do not count either, those of this one do.
    await moveTo("east");
    await eventually("east reigns again", () => currentEpoch()?.node === "east");
    assert.equal(currentEpoch()?.epoch, epoch, "its log was never interrupted");
    await eventually("it tells again", () => mark() >= second);

    world.replicate("west");
    world.promote("west");
    await moveTo("west");
    await eventually("west reigns", () => currentEpoch()?.node === "west");
    const next = currentEpoch()?.epoch;
    assert.ok(next !== undefined && next !== epoch);
    const last = mark();
    // The old primary is still writable, and no service follows it.
    assert.ok((await commit("east", epoch)) > last);
    const third = await commit("west", next);
    await eventually("what west has is believed", () => bench.mark(next, "disk") >= third);
    assert.deepEqual([mark(), currentEpoch()?.node], [last, "west"]);
  }));

test("what the synchronous standbys have counts only if the manager still lists them when it has arrived", () =>
  withTracker(
    "sync",
    { safe: { synchronous: 1 } },
    async ({ world, store, loop, currentEpoch, mark, commit, ...bench }) => {
      const put = (name: string, value: unknown): Promise<unknown> =>
        etcd.call("/v3/kv/put", {
          key: Buffer.from(`/service/${bench.scope}/${name}`).toString("base64"),
          value: Buffer.from(JSON.stringify(value)).toString("base64"),
        });
      await put("config", { synchronous_mode: true });
      await put("sync", { leader: "east", sync_standby: "west" });
      world.setSynchronous("east", ["west"]);
      await eventually("east reigns", () => currentEpoch()?.node === "east");
      const epoch = currentEpoch()?.epoch;
      assert.ok(epoch !== undefined);
      const commitToWest = async (): Promise<Offset> => {
        const offset = await commit("east", epoch);
        world.replicate("west");
        return offset;
      };
      const first = await commitToWest();
      await eventually("west has it, and may be promoted", () => mark(epoch, "safe") >= first);

      // The primary shows west as synchronous all the while; the manager strikes it out while that answer is on its way.
      const reported = new Promise<Offset>((resolve) => {
        store.beforeAnswer = async () => {
          store.beforeAnswer = () => Promise.resolve();
          const offset = await commitToWest();
          store.onWay = async () => {
            await put("sync", { leader: "east", sync_standby: null });
            resolve(offset);
          };
        };
      });
      const second = await reported;
      await eventually("the tracker says what it waits for", () =>
        /lists 0 of 1 synchronous standbys/.test(whyNotSynchronous(loop.state, "safe") ?? ""),
      );
      assert.ok(mark(epoch, "safe") < second);
      await put("sync", { leader: "east", sync_standby: "west" });
      await eventually("it may be promoted again", () => mark(epoch, "safe") >= second);

      // A new term of the same leader is another epoch of the manager, and its list is not written yet.
      const before = mark(epoch, "safe");
      await put("sync", { leader: "north", sync_standby: "west" });
      await bench.moveTo("east");
      const third = await commitToWest();
      await eventually("the list is another leader's", () =>
        /lists 0 of 1 synchronous standbys/.test(whyNotSynchronous(loop.state, "safe") ?? ""),
      );
      assert.equal(mark(epoch, "safe"), before);
      await put("sync", { leader: "east", sync_standby: "west" });
      await eventually("it is east's", () => mark(epoch, "safe") >= third);
    },
  ));

test("a level that counts synchronous standbys is refused where no lease is followed", () => {
  for (const authority of ["ancestry", "operator"]) {
    const loaded = loadFor("none", { safe: { synchronous: 1 } }, { HIGHWATER_AUTHORITY: authority });
    assert.ok(!loaded.ok);
    assert.deepEqual(loaded.faults, [
      "HIGHWATER_TOPOLOGY: level safe counts synchronous standbys, which needs HIGHWATER_AUTHORITY=lease",
    ]);
  }
});
