// Goal: the product refuses a database whose Highwater tables are missing or older, and the error
// names the command `adopt`. After `adopt` verdicts are true, and no id runs twice. Method: three
// regions on real PostgreSQL; the command runs as a process, and verdicts are compared with the
// application's tables. Both tests share one system, in this order.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { after, before, test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { decodeToken } from "@highwater/protocol";
import { System } from "../src/index.ts";
import {
  commit,
  createTable,
  epochOf,
  eventually,
  keysOn,
  marksOf,
  newId,
  put,
  send,
  starve,
  stateOf,
  verdict,
} from "../src/testing.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
const REGIONS = [EAST, WEST, EUROPE] as const;
const COMMAND = fileURLToPath(
  new URL("../../../services/durability-tracker/src/cli/adopt/main.ts", import.meta.url),
);
const SAFE = { ack: "durable", level: "global", maxWaitMs: 60_000 } as const;

let system: System;

before(async () => {
  system = await System.start({ env: { TRACKER_PUBLISH_PATIENCE_MS: "300" } });
  await createTable(system, EAST);
});

after(() => system.close());

async function adopt(...args: readonly string[]): Promise<{ code: number; output: string }> {
  const endpoints = await system.endpoints(EAST);
  const env = {
    ...process.env,
    HIGHWATER_TOPOLOGY: `@${join(system.cluster.dir, "services", `topology-${EAST}.json`)}`,
    HIGHWATER_TRACKERS: endpoints.map(({ tracker }) => tracker).join(","),
  };
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [COMMAND, "--node", EAST, ...args], { env }, (error, stdout, stderr) => {
      const code = error === null ? 0 : error.code;
      if (typeof code === "number") resolve({ code, output: stdout + stderr });
      else reject(new Error(`the command did not end by itself: ${stderr}`, { cause: error }));
    });
  });
}

interface Written {
  readonly id: string;
  readonly token: string;
  readonly key: string;
}

async function write(key: string, options: Parameters<typeof commit>[2]): Promise<Written> {
  const id = newId();
  const { token, state } = await commit(system.gateway(EAST).url, [put(key)], { id, ...options });
  assert.equal(state, options?.ack === "durable" ? "durable" : "committed");
  return { id, token, key };
}

/** A tracker forgets transactions that are durable at the strongest level. */
async function hasLeftTheLedger(region: string, { token }: Written): Promise<void> {
  const { epoch, offset = 0n } = decodeToken(token) ?? {};
  await eventually(`the tracker of ${region} has seen it durable everywhere`, async () => {
    const { marks } = await marksOf(system.tracker(region).url);
    return marks?.epoch === epoch && BigInt(marks?.levels["global"] ?? 0) >= offset;
  });
}

/**
 * Commits a transaction that is durable everywhere, and one that only the primary has until the
 * replicas are fed again. A test that fails feeds them, too, for the next one.
 */
async function writeBoth(
  t: TestContext,
  prefix: string,
): Promise<{ kept: Written; unseen: Written; pending: Written; feed: () => Promise<void> }> {
  const kept = await write(`${prefix}-durable`, SAFE);
  const unseen = await write(`${prefix}-unseen`, SAFE);
  for (const region of REGIONS) await hasLeftTheLedger(region, unseen);
  const feeds: (() => Promise<void>)[] = [];
  const feed = async (): Promise<void> => {
    for (const each of feeds) await each();
  };
  t.after(feed);
  for (const replica of [WEST, EUROPE]) feeds.push(await starve(system, replica));
  const pending = await write(`${prefix}-pending`, { ack: "commit" });
  return { kept, unseen, pending, feed };
}

/** Repeated: the services use these tables, and PostgreSQL may end either side of a deadlock. */
async function dropSchemas(names: string): Promise<void> {
  await eventually(`the schemas ${names} are dropped`, async () => {
    await system.cluster.query(EAST, `DROP SCHEMA ${names} CASCADE`);
    return true;
  });
}

/** Every gateway and every tracker reports the fault and the command to run. */
async function refusedEverywhere(): Promise<void> {
  for (const region of REGIONS) {
    await eventually(`the gateway of ${region} says what to run`, async () => {
      const { status, body } = await send(system.gateway(region).url, [put(`refused-${newId()}`)]);
      return status === 503 && /us-east has no Highwater history.*make adopt/.test(body.detail ?? "");
    });
    await eventually(`the tracker of ${region} says what to run`, async () => {
      const response = await fetch(`${system.tracker(region).url}/readyz`);
      return response.status === 503 && /make adopt ARGS=/.test(await response.text());
    });
  }
}

/** Sending the id again runs nothing. */
async function refusedAgain({ id, key }: Written, code = "id_expired"): Promise<void> {
  const before = await keysOn(system, EAST);
  const codes = [];
  for (const region of REGIONS) {
    const { body } = await send(system.gateway(region).url, [put(`${key}-again`)], { id });
    codes.push(body.code);
  }
  assert.deepEqual(codes, [code, code, code]);
  assert.deepEqual(await keysOn(system, EAST), before);
}

async function goesOn(key: string): Promise<void> {
  for (const region of REGIONS) {
    const { state } = await commit(system.gateway(region).url, [put(`${key}-${region}`)], SAFE);
    assert.equal(state, "durable");
  }
}

test("after DROP SCHEMA highwater the service says what to run, and after adopt it continues with the existing rows", async (t) => {
  const { kept, unseen, pending, feed } = await writeBoth(t, "dropped");
  await dropSchemas("highwater");
  await refusedEverywhere();
  await feed();

  const shown = await adopt();
  assert.equal(shown.code, 0, shown.output);
  assert.match(shown.output, /^ADOPTING us-east gives up the following; nothing is changed yet\n/);
  assert.match(shown.output, /[1-9][0-9]* pending, .*promised up to disk [0-9]+/);
  assert.equal((await adopt("--data", "intact")).code, 2, "it asks for a reason");
  await refusedEverywhere();

  const done = await adopt("--data", "intact", "--reason", "the schema was dropped", "--by", "ops");
  assert.equal(done.code, 0, done.output);
  await goesOn("after-drop");
  const [record] = await system.cluster.query(
    EAST,
    "SELECT c.issued_by, c.reason, e.cause FROM highwater.authority_command c JOIN highwater.epoch e ON e.command = c.id",
  );
  assert.deepEqual({ ...record }, { issued_by: "ops", reason: "the schema was dropped", cause: "restored" });

  // The rows are there without receipts: earlier verdicts stay, and others cannot be known.
  const present = await keysOn(system, EAST);
  for (const { key } of [kept, unseen, pending]) assert.ok(present.has(key), key);
  for (const region of REGIONS) {
    const tracker = system.tracker(region).url;
    assert.equal((await verdict(tracker, kept.token, { level: "region" })).verdict, "durable");
    assert.equal((await verdict(tracker, pending.token, { level: "region" })).verdict, "expired");
  }
  assert.equal((await stateOf(system.gateway(WEST).url, pending.id)).body.state, "expired");
  for (const written of [kept, unseen, pending]) await refusedAgain(written);

  const again = await adopt("--data", "intact", "--reason", "once more", "--by", "ops");
  assert.equal(again.code, 3);
  assert.match(again.output, /there is nothing to adopt/);
});

test("after a restore from before Highwater, transactions that adopt gives up are broken or lost, and do not run again", async (t) => {
  const { kept, unseen, pending, feed } = await writeBoth(t, "restored");
  const before = await epochOf(system.tracker(EAST).url);
  const schemas = await system.cluster.query(
    EAST,
    "SELECT string_agg(nspname, ', ') AS names FROM pg_namespace WHERE nspname LIKE 'highwater%'",
  );
  await dropSchemas(String(schemas[0]?.["names"]));
  await system.cluster.query(EAST, "TRUNCATE kv");
  await refusedEverywhere();
  await feed();
  const done = await adopt("--data", "restored", "--reason", "the nightly dump", "--by", "ops");
  assert.equal(done.code, 0, done.output);
  await goesOn("after-restore");
  assert.notEqual(await epochOf(system.tracker(EAST).url), before);

  for (const region of REGIONS) {
    const tracker = system.tracker(region).url;
    assert.equal((await verdict(tracker, kept.token, { level: "region" })).verdict, "broken");
    assert.equal((await verdict(tracker, pending.token, { level: "region" })).verdict, "lost");
  }
  // Its absent receipt is proof here: the gateway settles the id, and a run under a new one is
  // right.
  await refusedAgain(unseen, "transaction_aborted");
  assert.ok(!(await keysOn(system, EAST)).has(unseen.key));
});
