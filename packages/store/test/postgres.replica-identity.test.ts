// Goal: only what is on a configured replica's disk counts as its position, however a service names its replicas.
// Method: real replicas with the default name, with slots, behind one address, cloned again, and beside streams of
// unknown programs.
import assert from "node:assert/strict";
import { createServer, connect as connectTo, type Server, type Socket } from "node:net";
import { after, afterEach, before, describe, it } from "node:test";
import { type Cluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { type EpochId, type NodeSpec, type Offset, type ReplicaIdentity } from "@highwater/protocol";
import { type PositionsReport } from "../src/port.ts";
import { type PostgresStore } from "../src/postgres/adapter.ts";
import { commitOf, makeStore, MINT, nodeSpecs, specOf, startTestCluster } from "./postgres-cluster.ts";
import { startStranger } from "./stranger.ts";

/** The default name of a replica. */
const DEFAULT_NAME = "walreceiver";
const FAR_AHEAD = 1n << 60n;

describe("which stream is whose", () => {
  let cluster: Cluster;
  let specs: NodeSpec[];
  let primary: string;
  let one: string;
  let two: string;
  let epoch: EpochId;
  const stores: PostgresStore[] = [];
  const cleanUp: (() => unknown)[] = [];

  before(async () => {
    cluster = await startTestCluster();
    specs = await nodeSpecs(cluster);
    [primary = "", one = "", two = ""] = specs.map(({ id }) => id);
    const store = storeThatKnows({});
    await store.prepare(primary);
    epoch = (await store.mint(primary, MINT)).id as EpochId;
    await cluster.query(primary, "CREATE TABLE kv (key text PRIMARY KEY, value text NOT NULL)");
    for (const slot of ["slot_one", "slot_two", "slot_spare"])
      await cluster.query(primary, "SELECT pg_create_physical_replication_slot($1)", [slot]);
    await follow(one, { name: DEFAULT_NAME, slot: "slot_one" });
    await follow(two, { name: DEFAULT_NAME, slot: "slot_two" });
  });

  afterEach(async () => {
    for (const undo of cleanUp.splice(0).reverse()) await undo();
  });

  after(async () => {
    for (const store of stores) await store.close();
    await cluster.close();
  });

  /** A store that knows how to recognise the nodes; those that are not named have their id as their name. */
  function storeThatKnows(identities: Record<string, ReplicaIdentity>): PostgresStore {
    const store = makeStore(
      specs.map((spec) => {
        const replication = identities[spec.id];
        return replication === undefined ? spec : { ...spec, replication };
      }),
      `store-${String(stores.length)}`,
    );
    stores.push(store);
    return store;
  }

  async function follow(replica: string, how: { name: string; slot?: string; port?: number }): Promise<void> {
    const streams = async (): Promise<unknown[]> =>
      (
        await cluster.query(
          primary,
          `SELECT r.pid FROM pg_stat_replication r LEFT JOIN pg_replication_slots s ON s.active_pid = r.pid
           WHERE application_name = $1 AND coalesce(slot_name, '') = $2 AND flush_lsn IS NOT NULL AND replay_lsn IS NOT NULL`,
          [how.name, how.slot ?? ""],
        )
      ).map(({ pid }) => pid);
    const before = await streams();
    const [{ primary_conninfo: now } = {}] = await cluster.query(replica, "SHOW primary_conninfo");
    let conninfo = String(now).replace(/application_name=\S+/, `application_name=${how.name}`);
    if (how.port !== undefined) conninfo = conninfo.replace(/port=\d+/, `port=${String(how.port)}`);
    await cluster.query(replica, `ALTER SYSTEM SET primary_conninfo TO '${conninfo.replaceAll("'", "''")}'`);
    await cluster.query(replica, `ALTER SYSTEM SET primary_slot_name TO '${how.slot ?? ""}'`);
    await cluster.query(replica, "SELECT pg_reload_conf()");
    // The stream that it had may look the same, and is about to end.
    await eventually(`${replica} streams as told`, async () =>
      (await streams()).some((pid) => !before.includes(pid)),
    );
  }

  const seen = async (store: PostgresStore, wanted?: Offset): Promise<PositionsReport["replicas"]> =>
    (await store.positions(primary, wanted))?.replicas ?? [];
  const named = async (store: PostgresStore): Promise<string[]> =>
    (await seen(store)).map(({ node }) => node).sort();
  const positionOf = async (store: PostgresStore, node: string, wanted?: Offset): Promise<Offset | null> =>
    (await seen(store, wanted)).find((replica) => replica.node === node)?.flushed ?? null;

  async function commit(store: PostgresStore, key: string): Promise<Offset> {
    const put = { sql: "INSERT INTO kv VALUES ($1, $1)", params: [key] };
    return commitOf(await store.execute(primary, specOf(epoch, [put]))).offset;
  }

  /** A way to the primary from another address of this machine. */
  async function doorFrom(localAddress: string): Promise<number> {
    const [{ port } = { port: 0 }] = cluster.nodes;
    const sockets = new Set<Socket>();
    const server: Server = createServer((near) => {
      const far = connectTo({ host: "127.0.0.1", port, localAddress });
      for (const [from, to] of [
        [near, far],
        [far, near],
      ] as const) {
        sockets.add(from);
        from.on("error", () => undefined).on("close", () => to.destroy());
        from.pipe(to);
      }
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    cleanUp.push(() => {
      server.close();
      for (const socket of sockets) socket.destroy();
    });
    return (server.address() as { port: number }).port;
  }

  it("no replica has its own name: nothing counts", async () => {
    const byId = storeThatKnows({});
    const byDefaultName = storeThatKnows({ [one]: { applicationName: DEFAULT_NAME } });
    assert.deepEqual(await named(byId), []);
    assert.deepEqual(await named(byDefaultName), [], "two streams match one node");
  });

  it("slots distinguish two replicas behind one address", async () => {
    const store = storeThatKnows({
      [one]: { slot: "slot_one", address: "127.0.0.1" },
      [two]: { slot: "slot_two", address: "127.0.0.0/8", applicationName: DEFAULT_NAME },
    });
    await eventually("both count", async () => (await named(store)).length === 2);
    const sessions = new Map((await seen(store)).map(({ node, session }) => [node, session]));
    const truth = await cluster.query(
      primary,
      "SELECT slot_name, active_pid FROM pg_replication_slots WHERE active",
    );
    for (const [node, slot] of [
      [one, "slot_one"],
      [two, "slot_two"],
    ] as const) {
      const pid = truth.find((row) => row["slot_name"] === slot)?.["active_pid"];
      assert.ok(sessions.get(node)?.startsWith(`${String(pid)}/`), `${node} is fed through ${slot}`);
    }
    const elsewhere = storeThatKnows({ [one]: { slot: "slot_one", address: "127.0.0.9" } });
    assert.deepEqual(await named(elsewhere), [], "every criterion has to match");
  });

  it("one stream that matches two nodes counts for neither, and does not hide a third", async () => {
    const store = storeThatKnows({
      [one]: { slot: "slot_one" },
      [two]: { address: "127.0.0.1", applicationName: DEFAULT_NAME },
    });
    assert.deepEqual(
      await named(store),
      [],
      "the stream through slot_one matches both, and two streams match one",
    );
    cleanUp.push(() => follow(two, { name: DEFAULT_NAME, slot: "slot_two" }));
    await follow(two, { name: two });
    const third = storeThatKnows({
      [primary]: { slot: "slot_one", address: "127.0.0.1" },
      [one]: { slot: "slot_one" },
    });
    await eventually("each has one", async () => (await named(third)).length === 2);
    assert.deepEqual(
      await named(third),
      [one, two].sort(),
      "a primary follows no node: its criteria take nothing away",
    );
  });

  it("addresses tell replicas apart", async () => {
    const port = await doorFrom("127.0.0.7");
    const [{ port: direct } = { port: 0 }] = cluster.nodes;
    cleanUp.push(() => follow(two, { name: DEFAULT_NAME, slot: "slot_two", port: direct }));
    await follow(two, { name: DEFAULT_NAME, slot: "slot_two", port });
    const store = storeThatKnows({ [one]: { address: "127.0.0.1" }, [two]: { address: "127.0.0.4/30" } });
    await eventually("both count", async () => (await named(store)).length === 2);
    const offset = await commit(store, "by-address");
    await store.helpFlush(primary, epoch);
    await eventually("both pass", async () => {
      const replicas = await seen(store);
      return replicas.length === 2 && replicas.every(({ flushed }) => flushed >= offset);
    });
  });

  it("what only stores the log neither counts nor disturbs; a second server under one slot's address does", async () => {
    const [{ lsn } = {}] = await cluster.query(primary, "SELECT pg_current_wal_flush_lsn()::text AS lsn");
    const byAddress = storeThatKnows({ [one]: { slot: "slot_one" }, [two]: { slot: "slot_two" } });
    const bySlot = storeThatKnows({ [one]: { slot: "slot_spare" } });
    const byName = storeThatKnows({ [one]: { applicationName: "archive" } });
    const url = await cluster.connectionString(primary);
    const stranger = { url, startAt: String(lsn), flushed: FAR_AHEAD };
    const storing = await startStranger({
      ...stranger,
      applicationName: "archive",
      slot: "slot_spare",
      replayed: 0n,
    });
    cleanUp.push(() => {
      storing.stop();
    });
    await eventually("the primary shows it", async () => {
      const shown = await cluster.query(
        primary,
        "SELECT flush_lsn FROM pg_stat_replication WHERE application_name = 'archive'",
      );
      return shown[0]?.["flush_lsn"] != null;
    });
    for (const store of [bySlot, byName])
      assert.deepEqual(await named(store), [], "not even under the slot or the name of a node");
    assert.deepEqual(await named(byAddress), [one, two].sort());
    const posing = await startStranger({ ...stranger, applicationName: one, replayed: FAR_AHEAD });
    cleanUp.push(() => {
      posing.stop();
    });
    const byNameOrAddress = storeThatKnows({ [one]: { address: "127.0.0.1" }, [two]: { slot: "slot_two" } });
    await eventually("it poses as a server", async () => (await named(storeThatKnows({}))).length === 1);
    assert.ok(!(await named(byNameOrAddress)).includes(one), "two streams match");
    assert.ok(
      ((await positionOf(byAddress, one)) ?? FAR_AHEAD) < FAR_AHEAD,
      "by its slot it is still told apart",
    );
  });

  it("a replica that was cloned anew has another stream under its old slot", async () => {
    const store = storeThatKnows({ [one]: { slot: "slot_one" } });
    const session = async (): Promise<string | undefined> =>
      (await seen(store)).find(({ node }) => node === one)?.session;
    await eventually("it counts", async () => (await session()) !== undefined);
    const first = await session();
    await cluster.rejoin(one);
    await follow(one, { name: DEFAULT_NAME, slot: "slot_one" });
    await eventually("it counts again", async () => (await session()) !== undefined);
    assert.notEqual(await session(), first);
  });

  describe("a replica that is asked", () => {
    const asking = (): PostgresStore => storeThatKnows({ [one]: { ask: true }, [two]: { ask: true } });
    // A report has only the replicas that have answered, so the first one is empty.
    const bothHave = (store: PostgresStore, offset: Offset): Promise<unknown> =>
      eventually("both have it", async () => {
        const replicas = await seen(store, offset);
        return replicas.length === 2 && replicas.every(({ flushed }) => flushed >= offset);
      });

    it("proves what it has, without anybody's help but the one who waits", async () => {
      const store = asking();
      const offset = await commit(store, "asked");
      await bothHave(store, offset);
      const replicas = await seen(store, offset);
      const [{ end } = {}] = await cluster.query(
        primary,
        "SELECT (pg_current_wal_insert_lsn() - '0/0')::text AS end",
      );
      for (const { flushed } of replicas) assert.ok(flushed <= BigInt(String(end)));
      assert.equal((await store.probe(one)).upstream, null, "its own stream proves nothing");
    });

    it("proves nothing that it has not replayed, and then no witness is written again and again", async () => {
      const store = asking();
      await cluster.query(one, "SELECT pg_wal_replay_pause()");
      cleanUp.push(() => cluster.query(one, "SELECT pg_wal_replay_resume()"));
      await eventually("it pauses", async () => {
        const [state] = await cluster.query(one, "SELECT pg_get_wal_replay_pause_state() AS state");
        return state?.["state"] === "paused";
      });
      const offset = await commit(store, "paused");
      await eventually(
        "the other has it",
        async () => ((await positionOf(store, two, offset)) ?? 0n) >= offset,
      );
      const witnessed = async (): Promise<bigint> => {
        const [row] = await cluster.query(
          primary,
          "SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS next",
        );
        return BigInt(String(row?.["next"]));
      };
      const [before, beganMs] = [await witnessed(), performance.now()];
      for (let poll = 0; poll < 200; poll++)
        assert.ok(
          ((await positionOf(store, one, offset)) ?? 0n) < offset,
          "it received it and has not replayed it",
        );
      const seconds = BigInt(Math.ceil((performance.now() - beganMs) / 1_000));
      assert.ok((await witnessed()) - before <= seconds + 1n, "one in a second, however often it is asked");
      await cluster.query(one, "SELECT pg_wal_replay_resume()");
      await eventually(
        "it has it as well",
        async () => ((await positionOf(store, one, offset)) ?? 0n) >= offset,
      );
    });

    it("has another life after it was cloned anew, and none while it is away", async () => {
      const store = asking();
      const offset = await commit(store, "cloned");
      const life = async (): Promise<string | undefined> =>
        (await seen(store, offset)).find(({ node, flushed }) => node === one && flushed >= offset)?.session;
      await eventually("it has it", async () => (await life()) !== undefined);
      const first = await life();
      await cluster.rejoin(one);
      await eventually("the new one has it", async () => ![undefined, first].includes(await life()));
    });

    it("of another history proves only what both have", async () => {
      const store = asking();
      const shared = await commit(store, "shared");
      await bothHave(store, shared);
      // What one has, two has as well: a replica that is past the point at which another was promoted can't follow it.
      await cluster.query(one, "ALTER SYSTEM SET primary_conninfo TO ''");
      await cluster.query(one, "SELECT pg_reload_conf()");
      await eventually("the stream has ended", async () => {
        const sql = "SELECT FROM pg_stat_replication WHERE application_name = $1";
        return (await cluster.query(primary, sql, [one])).length === 0;
      });
      const received = async (node: string): Promise<bigint> => {
        const sql = "SELECT (pg_last_wal_receive_lsn() - '0/0')::text AS at";
        return BigInt(String((await cluster.query(node, sql))[0]?.["at"]));
      };
      const held = await received(one);
      await eventually("the other has what it has", async () => (await received(two)) >= held);
      // The old primary goes on alone, over the same offsets as the new one.
      await cluster.promote(two, { command: false, repoint: false });
      await cluster.query(one, "ALTER SYSTEM SET primary_slot_name TO ''");
      await cluster.follow(one, two);
      const lost = await commit(store, "lost");
      await store.helpFlush(primary, epoch);
      await eventually("the new history has passed the offset on the replica", async () => {
        await cluster.query(two, "SELECT pg_logical_emit_message(true, 'noise', repeat('x', 8000))");
        const [{ at } = {}] = await cluster.query(
          one,
          "SELECT (pg_last_wal_replay_lsn() - '0/0')::text AS at",
        );
        return BigInt(String(at)) > lost + 100_000n;
      });
      const last = await commit(store, "last");
      for (let poll = 0; poll < 200; poll++)
        for (const { node, flushed } of await seen(store, last))
          assert.ok(flushed < lost, `${node} has nothing of what was committed after the promotion`);
      // What a replica is asked is answered in a later report.
      await eventually(
        "it proves what both have",
        async () => ((await positionOf(store, one, last)) ?? 0n) >= shared,
      );
    });
  });
});
