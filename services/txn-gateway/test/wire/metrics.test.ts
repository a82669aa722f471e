// Goal: what happens on the wire is in the same metrics as over HTTP. Method: a gateway with room
// for two sessions, and its metrics before and after.
import assert from "node:assert/strict";
import { after, before, beforeEach, it } from "node:test";
import { WireClient, type WireError } from "./client.ts";
import { HOME, WireSystem } from "./system.ts";

const PREFIX = "highwater_gateway_";

let wire: WireSystem;
before(async () => {
  wire = await WireSystem.start({
    GATEWAY_PG_MAX_CONNECTIONS: "2",
    GATEWAY_EXPOSURE_TRANSACTIONS: "1",
    GATEWAY_MAX_WAIT_MS: "500",
  });
});
after(() => wire[Symbol.asyncDispose]());
// A test needs all the room that there is.
beforeEach(() => wire.empty());

/** The sample of the name and labels; 0 if there is none yet. */
async function sample(name: string, labels: string): Promise<number> {
  const response = await fetch(`${wire.system.gateway(HOME).url}/metrics`);
  const start = `${PREFIX}${name}{${labels}`;
  const lines = (await response.text()).split("\n").filter((line) => line.startsWith(start));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
}

/** How much the sample grows by the work. */
async function growth(name: string, labels: string, work: () => Promise<unknown>): Promise<number> {
  const earlier = await sample(name, labels);
  await work();
  return (await sample(name, labels)) - earlier;
}

const commits = (ack: string): readonly [string, string] => [
  "commit_seconds_count",
  `ack="${ack}",isolation="unknown",access="write",form="wire"`,
];

it("commits are timed by their acknowledgement, and refused ones are counted", async () => {
  const client = await wire.open();
  const write = (): Promise<unknown> => client.query("INSERT INTO kv VALUES (gen_random_uuid()::text, 1)");
  assert.equal(await growth(...commits("durable"), write), 1);
  assert.equal(await growth(...commits("durable"), () => client.query("SELECT 1")), 0);
  await client.query("SET highwater.ack = 'commit'");
  assert.equal(await growth(...commits("commit"), write), 1);
  await wire.cut();
  await write();
  const refused = async (): Promise<void> => {
    assert.equal((await client.query("INSERT INTO kv VALUES ('refused', 1)")).code, "53400");
  };
  assert.equal(await growth("refusals_total", 'code="exposure_limit"', refused), 1);
  await wire.heal();
  client.end();
});

it("sessions that find no room are counted", async () => {
  const clients = await Promise.all([wire.open(), wire.open()]);
  const third = (): Promise<void> => assert.rejects(wire.open(), ({ code }: WireError) => code === "53300");
  assert.equal(await growth("refusals_total", 'code="overloaded"', third), 1);
  for (const client of clients) client.end();
});

it("reads and their waits for a commit are counted on the port for reads", async () => {
  const reader = await WireClient.open(wire.system.pgReadUrl(HOME));
  const read = (): Promise<unknown> => reader.query("SELECT 1");
  assert.equal(await growth("nearby_reads_total", 'served="primary"', read), 1);
  const writer = await wire.open();
  await writer.query("SET highwater.ack = 'commit'");
  const { token = "" } = await writer.query("INSERT INTO kv VALUES ('read', 1)");
  await reader.query(`SET highwater.after = '${token}'`);
  assert.equal(await growth("wire_after_seconds_count", 'outcome="arrived"', read), 1);
  await reader.query("SET highwater.after = 'nonsense'");
  const refused = async (): Promise<void> => {
    assert.equal((await reader.query("SELECT 1")).code, "22023");
  };
  assert.equal(await growth("wire_after_seconds_count", 'outcome="refused"', refused), 1);
  reader.end();
  writer.end();
});
