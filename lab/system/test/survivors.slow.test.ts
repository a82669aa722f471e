// Goal: all trackers are equal. Whichever die, a survivor answers for announcements that they had
// accepted, and clients move to it and miss nothing. A restarted tracker gives the same verdicts as
// the others. Method: SDK clients with open promises; trackers and then a whole region are killed;
// verdicts are compared everywhere.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { TokenVerdict } from "@highwater/protocol";
import { Highwater, sql, TransactionLostError } from "@highwater/sdk";
import { System } from "../src/index.ts";
import { createTable, keysOn, putAhead, starve, verdicts } from "../src/testing.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
/** For a promise that is open until the replicas are fed again, or another node is promoted. */
const WAIT_MS = 300_000;
const COUNT = 40;

interface Open {
  readonly key: string;
  readonly token: string;
  readonly settled: Promise<TokenVerdict["verdict"]>;
}

/** Fast commits of one client that waits for each promise. */
async function commitAll(client: Highwater, prefix: string): Promise<Open[]> {
  return Promise.all(
    Array.from({ length: COUNT }, async (_, at) => {
      const key = `${prefix}-${String(at)}`;
      const done = await client.transaction([sql`INSERT INTO kv (key, value) VALUES (${key}, 1)`]);
      const settled = done.durable({ level: "region", timeoutMs: WAIT_MS }).then(
        ({ verdict }) => verdict,
        (cause: unknown) => {
          if (cause instanceof TransactionLostError) return "lost" as const;
          throw cause;
        },
      );
      settled.catch(() => undefined);
      return { key, token: done.token, settled };
    }),
  );
}

test("trackers die with promises open: clients move to a survivor and miss nothing, also of a lost region", async () => {
  await using system = await System.start();
  await createTable(system, EAST);
  const { cluster } = system;
  const feed = new Map<string, () => Promise<void>>();
  for (const replica of [WEST, EUROPE]) feed.set(replica, await starve(system, replica));
  const client = new Highwater({ endpoints: await system.endpoints(EUROPE) });
  try {
    // First the client's own tracker dies, then the one to which it moved.
    const first = await commitAll(client, "moved");
    await system.tracker(EUROPE).kill();
    const second = await commitAll(client, "again");
    await system.tracker(EAST).kill();
    for (const resume of feed.values()) await resume();
    for (const { key, settled } of [...first, ...second]) assert.equal(await settled, "durable", key);

    // Restarted, they agree, although each missed a part.
    for (const region of [EUROPE, EAST]) await system.restartService(region, "tracker");
    const tokens = [...first, ...second].map(({ token }) => token);
    for (const region of system.regions)
      for (const { verdict } of await verdicts(system.tracker(region).url, tokens))
        assert.equal(verdict, "durable");

    // The primary's region is lost with its tracker, and another tracker is dead as well.
    await system.ready();
    await putAhead(system, { heir: WEST, other: EUROPE });
    await starve(system, WEST);
    const doomed = await commitAll(client, "doomed");
    await system.tracker(EUROPE).kill();
    await system.killRegion(EAST);
    await cluster.promote(WEST);
    for (const { key, settled } of doomed) assert.equal(await settled, "lost", key);
    const present = await keysOn(system, WEST);
    assert.ok(doomed.every(({ key }) => !present.has(key)));
    await system.restartService(EUROPE, "tracker");
    const said = await Promise.all(
      [WEST, EUROPE].map(async (region) => {
        const judged = await verdicts(
          system.tracker(region).url,
          doomed.map(({ token }) => token),
        );
        return judged.map(({ id, verdict, retriedIn }) => ({ id, verdict, retriedIn }));
      }),
    );
    assert.deepEqual(said[0], said[1], "the one that was dead says the same");
    assert.ok(said[0]?.every(({ verdict }) => verdict === "lost"));
  } finally {
    await client.close();
  }
});
