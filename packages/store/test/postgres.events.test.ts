// The events in real servers: the conformance suite, what a failover takes along, and what happens in one transaction.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { type ClientBase } from "pg";
import { type Cluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { type EpochId, HighwaterError, type NodeSpec } from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import { eventConformance, newEvent } from "../src/conformance/events.ts";
import { FIRST_POSITION, type RecordedEvent } from "../src/events.ts";
import { PostgresEvents, type PostgresEventsOptions } from "../src/postgres/events.ts";
import {
  connect,
  makeStore,
  MINT,
  nodeSpecs,
  OneServer,
  PATIENT,
  startTestCluster,
} from "./postgres-cluster.ts";

const PRIMARY = "us-east";
const REPLICA = "us-west";
const ALL = { after: FIRST_POSITION, owner: null, types: null, limit: 10_000 };

function open(
  nodes: readonly NodeSpec[],
  helper: string,
  more: Partial<PostgresEventsOptions> = {},
): PostgresEvents {
  return new PostgresEvents({ nodes, clock: realClock, helper, ...PATIENT, ...more });
}

const isEpochChanged = (cause: unknown): boolean =>
  cause instanceof HighwaterError && cause.code === "epoch_changed";

eventConformance("PostgreSQL", async () => {
  const server = await OneServer.start({});
  const stores = [open([server.node], "one"), open([server.node], "two")] as const;
  return {
    stores,
    node: server.node.id,
    epoch: server.epoch,
    nextEpoch: async () => {
      await server.cluster.restart(server.node.id);
      const record = await server.store.mint(server.node.id, MINT);
      return record.id as EpochId;
    },
    age: async (ms) => {
      await server.sql("UPDATE highwater.event SET at = at - $1::float8 * interval '1 ms'", [ms]);
    },
    nowMs: () => Date.now(),
    close: async () => {
      for (const store of stores) store.close();
      await server.close();
    },
  };
});

describe("a recording", () => {
  let server: OneServer;
  const opened: PostgresEvents[] = [];
  const openOne = (helper: string, more: Partial<PostgresEventsOptions> = {}): PostgresEvents => {
    const events = open([server.node], helper, more);
    opened.push(events);
    return events;
  };
  const countRows = async (): Promise<number> => {
    const [row] = await server.sql("SELECT count(*)::int AS rows FROM highwater.event");
    return Number(row?.["rows"]);
  };

  before(async () => {
    server = await OneServer.start({});
    await server.sql("CREATE TABLE told (key text)");
  });
  after(async () => {
    for (const events of opened) events.close();
    await server.close();
  });

  it("takes along what the hook writes, once, and only for what is new", async () => {
    const received: (readonly RecordedEvent[])[] = [];
    const onRecorded = async (client: ClientBase, fresh: readonly RecordedEvent[]): Promise<void> => {
      received.push(fresh);
      for (const { key } of fresh) await client.query("INSERT INTO public.told VALUES ($1)", [key]);
    };
    const [one, two] = [openOne("hook-one", { onRecorded }), openOne("hook-two", { onRecorded })];
    const batch = Array.from({ length: 50 }, () => newEvent());
    await Promise.all(
      [one, two, one, two].map((events) => events.record(server.node.id, server.epoch, batch)),
    );
    assert.deepEqual(
      received.map((fresh) => fresh.map(({ key }) => key)),
      [batch.map(({ key }) => key)],
    );
    const rows = await server.sql("SELECT key FROM told");
    assert.equal(rows.length, 50);
    assert.deepEqual(await one.read(server.node.id, server.epoch, ALL), received[0]);
  });

  it("is undone when the hook fails, and then done again", async () => {
    let failing = true;
    const events = openOne("hook-failing", {
      onRecorded: async (client, fresh) => {
        await client.query("INSERT INTO public.told VALUES ($1)", [fresh[0]?.key]);
        if (failing) await client.query("SELECT 1 / 0");
      },
    });
    const before = await countRows();
    const event = newEvent();
    await assert.rejects(
      events.record(server.node.id, server.epoch, [event]),
      (cause: { code?: string }) => cause.code === "22012",
    );
    assert.equal(await countRows(), before);
    failing = false;
    const { fresh } = await events.record(server.node.id, server.epoch, [event]);
    assert.equal(fresh, 1);
    const reported = await server.sql("SELECT FROM told WHERE key = $1", [event.key]);
    assert.equal(reported.length, 1);
  });

  it("that violates a constraint of the hook's is not taken for another epoch", async () => {
    await server.sql("CREATE TABLE strict (v int NOT NULL)");
    const events = openOne("hook-null", {
      onRecorded: async (client) => {
        await client.query("INSERT INTO public.strict VALUES (NULL)");
      },
    });
    const work = events.record(server.node.id, server.epoch, [newEvent()]);
    await assert.rejects(work, (cause: { code?: string }) => cause.code === "23502");
  });

  it("of a thousand events with the largest metadata", async () => {
    const metadata = Object.fromEntries(
      Array.from({ length: 16 }, (_, at) => [`${"名".repeat(60)}${String(at)}`, "😀".repeat(128)]),
    );
    const batch = Array.from({ length: 1_000 }, () => newEvent({ data: { metadata } }));
    const events = openOne("huge");
    const { fresh, events: recorded } = await events.record(server.node.id, server.epoch, batch);
    assert.equal(fresh, 1_000);
    assert.deepEqual(recorded.at(-1)?.data, { metadata });
  });

  it("that waited while its epoch ended is refused once a later one has recorded", async () => {
    const client = await connect(server.node.url);
    await client.query("BEGIN");
    await client.query("SELECT FROM highwater.event_counter FOR UPDATE");
    const late = assert.rejects(
      openOne("late").record(server.node.id, server.epoch, [newEvent()]),
      isEpochChanged,
    );
    await eventually("the recording waits", async () => {
      const waiting = await server.sql("SELECT FROM pg_locks WHERE NOT granted");
      return waiting.length > 0;
    });
    // As a later epoch's recorder, which has the counter now, leaves it.
    await client.query("UPDATE highwater.event_counter SET seq = seq + 1, n = 1");
    await client.query("COMMIT");
    await client.end();
    await late;
    await server.sql("UPDATE highwater.event_counter SET seq = seq - 1, n = 100000");
  });

  it("is dated by the later of two clocks: whichever is behind, it does not expire early", async () => {
    const DAY_MS = 86_400_000;
    const at = async (name: string, offMs: number): Promise<number> => {
      const clock = { ...realClock, wallMs: () => Date.now() + offMs };
      const [event] = (await openOne(name, { clock }).record(server.node.id, server.epoch, [newEvent()]))
        .events;
      return event?.atMs ?? 0;
    };
    const beforeMs = Date.now();
    assert.ok((await at("clock-ahead", DAY_MS)) >= beforeMs + DAY_MS - 1);
    const behind = await at("clock-behind", -DAY_MS);
    assert.ok(behind >= beforeMs - 1_000 && behind < beforeMs + DAY_MS / 2);
  });

  it("is nothing that an application's role may do, or read", async () => {
    await server.sql("CREATE ROLE app_events LOGIN IN ROLE highwater_app");
    const client = await connect(
      await server.cluster.connectionString(server.node.id, { user: "app_events" }),
    );
    for (const sql of [
      "SELECT key FROM highwater.event",
      "INSERT INTO highwater.event (seq, n, key, type, at, data) VALUES (1, 1, 'x', 'x', now(), '{}')",
      "DELETE FROM highwater.event",
      "SELECT n FROM highwater.event_counter",
      "UPDATE highwater.event_counter SET n = 0",
    ])
      await assert.rejects(client.query(sql), (cause: { code?: string }) => cause.code === "42501", sql);
    await client.end();
  });
});

describe("a failover", () => {
  let cluster: Cluster;
  let nodes: NodeSpec[];
  before(async () => {
    cluster = await startTestCluster({
      nodes: [
        { id: PRIMARY, region: "us-east" },
        { id: REPLICA, region: "us-west" },
      ],
    });
    nodes = await nodeSpecs(cluster);
  });
  after(() => cluster.close());

  it("takes the events along; what was lost is recorded again, above all that was read", async () => {
    const store = makeStore(nodes, "failover");
    const events = open(nodes, "failover");
    await store.prepare(PRIMARY);
    const first = (await store.mint(PRIMARY, MINT)).id as EpochId;
    const kept = await events.record(PRIMARY, first, [newEvent(), newEvent()]);
    await eventually("the replica has them", async () => {
      const rows = await cluster.query(REPLICA, "SELECT FROM highwater.event");
      return rows.length === 2;
    });
    await assert.rejects(events.read(REPLICA, first, ALL), "a replica answers nothing");
    await cluster.link("us-east", "us-west").cut();
    const gone = await events.record(PRIMARY, first, [newEvent({ data: { of: "the first" } })]);
    await cluster.kill(PRIMARY);
    await cluster.promote(REPLICA, { command: false, repoint: false });
    await assert.rejects(events.record(REPLICA, first, gone.events), isEpochChanged, "not minted yet");
    const second = (await store.mint(REPLICA, { ...MINT, minSeq: 2 })).id as EpochId;
    await assert.rejects(events.record(REPLICA, first, gone.events), isEpochChanged);
    const again = await events.record(REPLICA, second, [...kept.events, ...gone.events]);
    assert.equal(again.fresh, 1);
    assert.deepEqual(again.events.slice(0, 2), kept.events);
    const [, , recorded] = again.events;
    assert.deepEqual([recorded?.n, recorded?.data], [1, { of: "the first" }]);
    assert.ok((recorded?.seq ?? 0) > (gone.events[0]?.seq ?? 0));
    const last = gone.events[0] ?? FIRST_POSITION;
    assert.deepEqual(await events.read(REPLICA, second, { ...ALL, after: last }), [recorded]);
    events.close();
    await store.close();
  });
});
