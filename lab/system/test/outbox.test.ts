// Goal: consumers of the outbox get each row of the surviving history at least once, in order per key, and no row that is not in it,
// while a region is lost and consumers die. Method: writers insert a row and the same content into a table in one transaction;
// what handlers got is compared with that table.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { after, before, describe, it } from "node:test";
import { Highwater, sql } from "@highwater/sdk";
import { followOutbox, type FollowOutboxOptions, type OutboxRow } from "@highwater/sdk/outbox";
import { System } from "../src/index.ts";
import { eventually } from "../src/testing.ts";

const EAST = "us-east";
/** Outside all regions, so clients reach each of them whatever link between regions is cut. */
const CLIENTS = "clients";
const KEYS = 8;
const FAST = { pollMs: 50, retryMs: 50, leaseMs: 3_000 };
type Payload = Readonly<{ n: number }>;

describe("the outbox", () => {
  let system: System;

  before(async () => {
    system = await System.start();
    await using hw = await client();
    const table = sql`CREATE TABLE history (topic text, key text, n int)`;
    await hw.transaction(table, { ack: "durable", level: "global", maxWaitMs: 60_000, timeoutMs: 90_000 });
  });

  after(() => system.close());

  async function client(): Promise<Highwater> {
    return new Highwater({ endpoints: await system.endpoints(CLIENTS), totalTimeoutMs: 60_000 });
  }

  /** From now on no other region gets what is committed. */
  async function hold(): Promise<void> {
    for (const region of system.regions) if (region !== EAST) await system.cluster.link(EAST, region).cut();
  }

  const put = (hw: Highwater, topic: string, key: string, n: number) =>
    hw.transaction([
      sql`INSERT INTO history VALUES (${topic}, ${key}, ${n})`,
      sql`INSERT INTO highwater.outbox (topic, key, payload) VALUES (${topic}, ${key}, ${{ n }}::jsonb)`,
    ]);

  /** A consumer that notes what it gets, until it is stopped. */
  async function consume(
    topic: string,
    handler: (row: OutboxRow<Payload>) => Promise<unknown>,
    options: FollowOutboxOptions = {},
  ): Promise<AsyncDisposable> {
    const hw = await client();
    const stop = new AbortController();
    const running = followOutbox<Payload>(hw, topic, handler, { ...FAST, signal: stop.signal, ...options });
    // It is awaited at the end.
    running.catch(() => undefined);
    return {
      async [Symbol.asyncDispose]() {
        stop.abort();
        await running;
        await hw.close();
      },
    };
  }

  /** A process that is killed while it handles the first rows that it gets. They are returned. */
  async function dyingConsumer(topic: string): Promise<OutboxRow<Payload>[]> {
    const endpoints = JSON.stringify(await system.endpoints(CLIENTS));
    const script = `import { Highwater } from "@highwater/sdk";
      import { followOutbox } from "@highwater/sdk/outbox";
      await followOutbox(new Highwater({ endpoints: ${endpoints} }), "${topic}", (row) => {
        console.log(JSON.stringify(row));
        return new Promise(() => setInterval(() => undefined, 1_000));
      }, ${JSON.stringify(FAST)});`;
    const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
      ...({ cwd: import.meta.dirname, stdio: ["ignore", "pipe", "inherit"] } as const),
    });
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
    await eventually("it has a row", () => output.includes("\n"));
    const closed = once(child, "close");
    child.kill("SIGKILL");
    await closed;
    const lines = output.split("\n").slice(0, -1);
    return lines.map((line) => JSON.parse(line) as OutboxRow<Payload>);
  }

  async function left(node: string, topic: string): Promise<number> {
    const rows = await system.cluster.query(node, "SELECT FROM highwater.outbox WHERE topic = $1", [topic]);
    return rows.length;
  }

  /** The first time that each row was delivered, by key: its number in the order of the writer. */
  function firsts(rows: readonly OutboxRow<Payload>[]): Map<string, number[]> {
    const byKey = new Map<string, number[]>();
    const seen = new Set<string>();
    for (const { id, key, payload } of rows) {
      if (seen.has(id)) continue;
      seen.add(id);
      byKey.set(key, [...(byKey.get(key) ?? []), payload.n]);
    }
    return byKey;
  }

  it("nothing is delivered before another region has it", async () => {
    await using hw = await client();
    const got: OutboxRow<Payload>[] = [];
    await hold();
    await put(hw, "held", "k", 1);
    await using _ = await consume("held", async (row) => got.push(row));
    await eventually("the row was claimed", async () => {
      const rows = await system.cluster.query(EAST, "SELECT FROM highwater.outbox_hold WHERE topic = 'held'");
      return rows.length === 1;
    });
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    assert.deepEqual(got, []);
    await system.cluster.healAll();
    await eventually("the row is delivered", () => got.length > 0);
    assert.deepEqual(
      got.map(({ key, payload, writer }) => [key, payload, writer]),
      [["k", { n: 1 }, "app"]],
    );
    await eventually("it was acknowledged", async () => (await left(EAST, "held")) === 0);
  });

  it("a handler that fails, and a row that always fails: its key waits, and the others do not", async () => {
    await using hw = await client();
    for (const n of [1, 2]) for (const key of ["bad", "good"]) await put(hw, "poison", key, n);
    const got: string[] = [];
    const handler = async ({ key, payload, attempt }: OutboxRow<Payload>): Promise<void> => {
      got.push(`${key} ${String(payload.n)} ${String(attempt)}`);
      if (key === "bad") throw new Error("no");
    };
    await using _ = await consume("poison", handler, { maxAttempts: 2 });
    const parked = await eventually("it is parked", async () => {
      const { rows } = await hw.transaction(
        sql<{
          id: string;
          last_error: string;
          behind: bigint;
        }>`SELECT * FROM highwater.outbox_parked('poison')`,
      );
      return rows[0];
    });
    assert.equal(parked.last_error, "Error: no");
    assert.equal(Number(parked.behind), 1);
    await eventually("the other key is done", async () => (await left(EAST, "poison")) === 2);
    assert.deepEqual(got.filter((each) => each.startsWith("bad")).sort(), ["bad 1 1", "bad 1 2"]);
    assert.deepEqual(
      [...new Set(got.filter((each) => each.startsWith("good")).map((each) => each.slice(0, 6)))],
      ["good 1", "good 2"],
    );
  });

  it("a level that failovers do not respect is refused", async () => {
    await using hw = await client();
    await put(hw, "disk", "k", 1);
    const following = followOutbox(hw, "disk", async () => assert.fail("delivered"), { level: "disk" });
    await assert.rejects(following, { code: "invalid_options" });
  });

  it("a region is lost during delivery: what was delivered is in the history, and all of the history is delivered", async () => {
    const got: OutboxRow<Payload>[] = [];
    /** Keys that a handler is at: two consumers never have one key. */
    const busy = new Map<string, number>();
    let overlaps = 0;
    const handler = async (row: OutboxRow<Payload>): Promise<void> => {
      const now = (busy.get(row.key) ?? 0) + 1;
      busy.set(row.key, now);
      if (now > 1) overlaps += 1;
      got.push(row);
      await new Promise((resolve) => setTimeout(resolve, 5));
      busy.set(row.key, (busy.get(row.key) ?? 0) - 1);
    };
    let isWriting = true;
    const writers = Array.from({ length: KEYS }, async (_, key) => {
      await using hw = await client();
      for (let n = 0; isWriting; n += 1) {
        // A failed or lost transaction leaves a gap in the numbers, and no disorder.
        await put(hw, "failover", `key ${String(key)}`, n).catch(() => undefined);
        await new Promise((resolve) => setTimeout(resolve, 60));
      }
    });
    await using _one = await consume("failover", handler);
    await using _two = await consume("failover", handler);
    await eventually("rows are delivered", () => got.length > 100);
    got.push(...(await dyingConsumer("failover")));
    await hold();
    // Commits go on, and none of them is on another node.
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    const before = await system.cluster.query(EAST, "SELECT FROM history WHERE topic = 'failover'");
    await system.killRegion(EAST);
    const heir = await system.cluster.mostAdvancedReplica();
    await system.cluster.promote(heir);
    const survivors = await system.cluster.query(heir, "SELECT FROM history WHERE topic = 'failover'");
    assert.ok(survivors.length < before.length, "something was lost");
    const delivered = got.length;
    await eventually("rows are delivered again", () => got.length > delivered + 100);
    isWriting = false;
    await Promise.all(writers);
    await eventually("all rows are delivered", async () => (await left(heir, "failover")) === 0);
    const history = await system.cluster.query(
      heir,
      "SELECT key, n FROM history WHERE topic = 'failover' ORDER BY key, n",
    );
    const expected = new Map<string, number[]>();
    for (const { key, n } of history)
      expected.set(String(key), [...(expected.get(String(key)) ?? []), Number(n)]);
    const found = firsts(got);
    assert.deepEqual([...found.keys()].sort(), [...expected.keys()].sort());
    for (const [key, numbers] of expected) assert.deepEqual(found.get(key), numbers, key);
    assert.equal(overlaps, 0);
  });
});
