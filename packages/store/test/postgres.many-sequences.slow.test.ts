// Goal: an epoch begins within the product's own limits however many sequences a tenant has made.
// Method: a real server with 100,000 of them, and a store with the limits that services have. With
// the function of migration 0034, the store gave up.
import assert from "node:assert/strict";
import { it } from "node:test";
import { eventually } from "@highwater/lab-tools/process";
import { POSTGRES_DEFAULTS } from "../src/postgres/adapter.ts";
import { makeStore, MINT, nodeSpecs, startTestCluster } from "./postgres-cluster.ts";

const EAST = "us-east";
const MANY = 100_000;
/** Each sequence is locked until the end of the transaction that makes it. */
const AT_ONCE = 5_000;

it("an epoch begins with a hundred thousand sequences, and what was not advanced is reported", async () => {
  // They are written for nothing but this test, so no file has to survive.
  const cluster = await startTestCluster({
    nodes: [{ id: EAST, region: EAST }],
    settings: { fsync: "off", max_wal_size: "8GB" },
  });
  const { callTimeoutMs } = POSTGRES_DEFAULTS;
  const store = makeStore(await nodeSpecs(cluster), "one", { callTimeoutMs });
  try {
    await store.prepare(EAST);
    await store.mint(EAST, MINT);
    await cluster.query(EAST, "CREATE SCHEMA own; CREATE SEQUENCE own.oldest");
    for (let from = 0; from < MANY; from += AT_ONCE)
      await cluster.query(
        EAST,
        `DO $$ BEGIN FOR n IN ${String(from)}..${String(from + AT_ONCE - 1)} LOOP
           EXECUTE format('CREATE SEQUENCE own.many_%s', n); END LOOP; END $$`,
      );
    await cluster.crashBackend(EAST);
    store.forget(EAST);
    await eventually("the server is back", () => cluster.query(EAST, "SELECT 1").catch(() => undefined));
    let advanced = 0;
    const problems: Record<string, string> = {};
    const record = await store.mint(EAST, {
      ...MINT,
      minSeq: 2,
      sequenceReserve: 10,
      onReserved: (reserved) => {
        advanced += reserved.advanced;
        Object.assign(problems, reserved.problems);
      },
    });
    assert.equal(record.cause, "crash_recovery");
    assert.equal(problems["own.oldest"], undefined);
    const [row] = await cluster.query(EAST, "SELECT nextval('own.oldest')::int AS value");
    assert.equal(row?.["value"], 11);
    // A machine that is fast enough advances all of them.
    if (advanced < MANY + 1) assert.ok(Object.values(problems).includes("late"), JSON.stringify(problems));
  } finally {
    await store.close();
    await cluster.close();
  }
});
