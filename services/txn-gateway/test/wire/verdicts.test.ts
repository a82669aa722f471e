// Goal: when an epoch ends, each held commit gets its verdict, whatever the order of held answers.
// Method: pipelines with held commits, and the promotion of a replica that lacks some of them.
import assert from "node:assert/strict";
import { it } from "node:test";
import { eventually, newId, starve } from "@highwater/lab-system/testing";
import { reportField } from "../../src/wire/frames/build.ts";
import { message, query, type WireClient } from "./client.ts";
import { AWAY, HOME, WireSystem } from "./system.ts";

const set = (id: string): Buffer => query(`SET highwater.id = '${id}'`);
const insert = (key: string): Buffer => query(`INSERT INTO kv VALUES ('${key}', 1)`);
/** A COPY has no receipt. */
const copy = (key: string): Buffer =>
  Buffer.concat([query("COPY kv FROM STDIN"), message("d", `${key}\t1\n`), message("c")]);
const RESET = query("RESET highwater.id");

async function has(wire: WireSystem, node: string, keys: readonly string[]): Promise<void> {
  await eventually(`${node} has ${keys.join(", ")}`, async () => {
    const text = "SELECT FROM kv WHERE key = ANY ($1)";
    const rows = await wire.system.cluster.query(node, text, [keys]).catch(() => []);
    return rows.length === keys.length;
  });
}

/** The tags that arrive until the connection ends, and the last error's code and detail. */
async function ending(client: WireClient) {
  await client.closed();
  const { untaken } = client;
  const field = (name: string): string => {
    const bytes = untaken.findLast(({ type }) => type === "E")?.bytes ?? Buffer.alloc(0);
    return reportField(bytes, 0, bytes.length, name);
  };
  const tags = untaken
    .filter(({ type }) => type === "C")
    .map(({ bytes }) => bytes.toString("latin1", 5, bytes.length - 1));
  return { tags, code: field("C"), detail: field("D") };
}

it("nothing has reached the replica: the code is of the first commit, and the detail names each lost one", async () => {
  await using wire = await WireSystem.start();
  const [both, behind, before, fast, error, none] = await Promise.all(
    Array.from({ length: 6 }, () => wire.open()),
  );
  assert.ok(both && behind && before && fast && error && none);
  const clients = [both, behind, before, fast, error, none];
  for (const client of clients) await client.query("SELECT 1");
  await fast.query("SET highwater.ack = 'commit'");
  await fast.query("INSERT INTO kv VALUES ('there', 1)");
  await error.query("SELECT 1");
  await starve(wire.system, AWAY);
  const ids = Array.from({ length: 5 }, () => newId());
  const [first = "", second = "", third = "", fourth = "", fifth = ""] = ids;
  both.send(set(first), insert("both 1"), set(second), insert("both 2"));
  behind.send(copy("behind 1"), set(third), insert("behind 2"));
  before.send(set(fourth), insert("before 1"), RESET, copy("before 2"));
  fast.send(copy("fast 1"), insert("fast 2"));
  error.send(insert("there"), set(fifth), insert("error 1"));
  none.send(copy("none 1"), insert("none 2"));
  await has(
    wire,
    HOME,
    ["both", "behind", "before", "fast", "none"].flatMap((name) => [`${name} 1`, `${name} 2`]),
  );
  await has(wire, HOME, ["error 1"]);
  await wire.system.cluster.kill(HOME);
  await wire.system.cluster.promote(AWAY);
  const lost = (id: string): string => `Transaction ${id} is lost.`;
  const moved = "The primary of this session is no longer the primary.";
  assert.deepEqual(await ending(both), {
    tags: ["SET"],
    code: "40001",
    detail: `${lost(first)} ${lost(second)}`,
  });
  assert.deepEqual(await ending(behind), { tags: [], code: "57P01", detail: `${moved} ${lost(third)}` });
  assert.deepEqual(await ending(before), { tags: ["SET"], code: "40001", detail: lost(fourth) });
  const ofFast = await ending(fast);
  assert.equal(ofFast.code, "57P01");
  assert.match(ofFast.detail, /^The primary [^.]*\. Transaction \S+ is lost\.$/);
  const ofError = await ending(error);
  assert.deepEqual([ofError.code, ofError.detail], ["40001", lost(fifth)]);
  assert.deepEqual(await ending(none), { tags: [], code: "57P01", detail: moved });
});

it("what has reached the replica is answered, with a receipt or without, up to the first that is lost", async () => {
  await using wire = await WireSystem.start();
  const [kept, mixed] = await Promise.all([wire.open(), wire.open()]);
  // The only level that a single node can reach.
  for (const client of [kept, mixed]) await client.query("SET highwater.level = 'disk'");
  const pids = [HOME, AWAY].map((region) => wire.system.tracker(region).pid ?? assert.fail("no process"));
  const [first, second, third, fourth] = [newId(), newId(), newId(), newId()];
  // Stopped trackers cannot report anything durable.
  for (const pid of pids) process.kill(pid, "SIGSTOP");
  try {
    kept.send(set(first), insert("kept 1"), set(second), insert("kept 2"));
    mixed.send(copy("mixed 1"), set(third), insert("mixed 2"));
    await has(wire, AWAY, ["kept 1", "kept 2", "mixed 1", "mixed 2"]);
    await starve(wire.system, AWAY);
    mixed.send(set(fourth), insert("mixed 3"));
    await has(wire, HOME, ["mixed 3"]);
    assert.deepEqual(
      [kept, mixed].map(({ untaken }) => untaken.map(({ type }) => type).join("")),
      ["CZ", "G"],
    );
    await wire.system.cluster.kill(HOME);
    await wire.system.cluster.promote(AWAY);
  } finally {
    for (const pid of pids) process.kill(pid, "SIGCONT");
  }
  const { tags, code } = await ending(kept);
  assert.deepEqual([tags, code], [["SET", "INSERT 0 1", "SET", "INSERT 0 1"], "57P01"]);
  assert.deepEqual(await ending(mixed), {
    tags: ["COPY 1", "SET", "INSERT 0 1", "SET"],
    code: "40001",
    detail: `Transaction ${fourth} is lost.`,
  });
});
