// Goal: the faults that the scenarios inject into the real system do what they say, and can be undone.
// Method: one host as tests of any language start it; an SDK as the witness.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Highwater, sql } from "@highwater/sdk";
import { Host } from "../src/host-client.ts";

test("held and failed over: lost; mended, the system is whole; a restart loses nothing; closing its input ends it", async () => {
  const host = await Host.start();
  try {
    const before = await host.describe();
    assert.deepEqual([before.primary, before.endpoints[0]?.region], ["us-east", "us-east"]);
    await using hw = new Highwater({ endpoints: before.endpoints, totalTimeoutMs: 60_000 });
    await hw.transaction(sql`CREATE TABLE host_test (n int)`, { ack: "durable", level: "global" });

    await host.command("hold");
    const held = await hw.transaction(sql`INSERT INTO host_test VALUES (1)`);
    await assert.rejects(held.durable({ timeout: 300 }), { name: "DurabilityTimeoutError" });
    await host.command("failover");
    await assert.rejects(held.durable({ timeout: 60_000 }), { name: "TransactionLostError" });
    const after = await host.describe();
    assert.notEqual(after.primary, before.primary);
    assert.equal(after.endpoints[0]?.region, after.primary);

    await host.command("mend");
    const second = await hw.transaction(sql`INSERT INTO host_test VALUES (2)`);
    assert.equal((await second.durable({ level: "global", timeout: 60_000 })).verdict, "durable");
    await host.command("restart");
    assert.equal((await hw.promise(second.token).durable({ timeout: 60_000 })).verdict, "durable");
    assert.deepEqual(await host.command("query", { sql: "SELECT n FROM host_test" }), [{ n: 2 }]);
    await assert.rejects(host.command("explode"), /there is no command explode/);
    await assert.rejects(host.command("hold", { region: "us-east" }), /hold takes no region/);
  } finally {
    assert.equal(await host.close(), 0);
  }
});
