// Goal: what a failover discarded can be read again, by its owner alone, and nothing else stays.
// Method: the whole product as real processes; a region is lost with commits that had not
// replicated. The trackers of other regions had their contents.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { LostDetails, LostList } from "@highwater/protocol";
import { System } from "../src/index.ts";
import {
  commit,
  createTable,
  eventually,
  KEEPING,
  newId,
  post,
  put,
  putAhead,
  send,
  starve,
  verdict,
} from "../src/testing.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
const SECRET_VALUE = "a value that only its owner may see";

async function ask<T>(url: string): Promise<{ status: number; body: T }> {
  const response = await fetch(url);
  return { status: response.status, body: (await response.json()) as T };
}

const lostAt = async (system: System, region: string, query = ""): Promise<LostList> =>
  (await ask<LostList>(`${system.tracker(region).url}/v1/lost${query}`)).body;

/** The contents that a tracker holds, in bytes on its disk. */
async function bytesOnDisk(system: System, region: string): Promise<Buffer> {
  const file = join(system.cluster.dir, "services", `ledger-${region}.sqlite-contents`);
  const parts = await Promise.all(
    [file, `${file}-wal`].map((each) => readFile(each).catch(() => Buffer.of())),
  );
  return Buffer.concat(parts);
}

describe("contents of kept transactions", () => {
  let system: System;
  const lostId = newId();
  const interactiveId = newId();
  const eastOnlyId = newId();

  before(async () => {
    system = await System.start({ env: KEEPING });
    await createTable(system, EAST);
    await system.cluster.query(EAST, "CREATE TABLE note (id int PRIMARY KEY, body text)");
    await system.cluster.query(EAST, "GRANT ALL ON note TO app");
  });

  after(() => system.close());

  it("are with a tracker when the answer says so, unreadable on its disk, and gone once durable everywhere", async () => {
    await system.cluster.link(EAST, EUROPE).cut();
    const statements = [{ sql: "INSERT INTO note VALUES ($1, $2)", params: [1, SECRET_VALUE] }];
    const { status, body } = await send(system.gateway(EAST).url, statements, { keep: true });
    assert.equal(status, 200, JSON.stringify(body));
    assert.equal(body.kept, true);
    const held = await bytesOnDisk(system, EAST);
    assert.ok(held.includes(body.id), "the tracker knows whose contents they are");
    assert.ok(!held.includes(SECRET_VALUE) && !held.includes("INSERT INTO note"));
    await system.cluster.link(EAST, EUROPE).heal();
    assert.equal(
      (await verdict(system.tracker(EAST).url, body.token, { level: "global" })).verdict,
      "durable",
    );
    for (const region of [EAST, WEST, EUROPE])
      await eventually(`the tracker of ${region} has forgotten them`, async () => {
        const metrics = await (await fetch(`${system.tracker(region).url}/metrics`)).text();
        return /^highwater_contents_transactions 0$/m.test(metrics);
      });
    const plain = await send(system.gateway(EAST).url, [put("plain")]);
    assert.equal(plain.body.kept, undefined, "nothing is said where nothing was asked");
  });

  it("are refused before anything runs if they are too large", async () => {
    const statements = [{ sql: "INSERT INTO note VALUES ($1, $2)", params: [2, "x".repeat(70_000)] }];
    const { status, body } = await send(system.gateway(EAST).url, statements, { keep: true });
    assert.deepEqual([status, body.code, body.limit?.name], [413, "contents_too_large", "keepBytes"]);
    const rows = await system.cluster.query(EAST, "SELECT FROM note WHERE id = 2");
    assert.equal(rows.length, 0);
  });

  it("survive the region that executed them, with what the client was answered", async () => {
    const gateway = system.gateway(EAST).url;
    // From here on no commit reaches a replica, and announcements still reach all trackers.
    await putAhead(system, { heir: WEST, other: EUROPE });
    await starve(system, WEST);
    const unkept = await commit(gateway, [put("unkept")]);
    const one = await send(
      gateway,
      [{ sql: "INSERT INTO note VALUES ($1, $2) RETURNING id", params: [3, SECRET_VALUE] }],
      { id: lostId, keep: true },
    );
    assert.deepEqual([one.status, one.body.kept], [200, true], JSON.stringify(one.body));
    const begun = await post<{ id: string }>(`${gateway}/v1/transactions/begin`, {
      id: interactiveId,
      keep: true,
    });
    assert.equal(begun.status, 200);
    const pin = { "highwater-session": begun.headers.get("highwater-session") ?? "" };
    const ran = await post(
      `${gateway}/v1/transactions/${interactiveId}/statements`,
      { seq: 1, statements: [{ sql: "INSERT INTO note VALUES (4, 'four')" }] },
      pin,
    );
    assert.equal(ran.status, 200, JSON.stringify(ran.body));
    const done = await post<{ kept?: boolean }>(
      `${gateway}/v1/transactions/${interactiveId}/commit`,
      { seq: 2, statements: [{ sql: "SELECT count(*) FROM note" }] },
      pin,
    );
    assert.deepEqual([done.status, done.body.kept], [200, true]);

    for (const region of [WEST, EUROPE])
      await eventually(`the tracker of ${region} has the contents`, async () => {
        const held = await bytesOnDisk(system, region);
        return [lostId, interactiveId].every((id) => held.includes(id));
      });
    // What follows only the tracker of the region that is about to be lost gets to know.
    await Promise.all([WEST, EUROPE].map((region) => system.tracker(region).stop()));
    const eastOnly = await send(gateway, [{ sql: "INSERT INTO note VALUES (5, 'five')" }], {
      id: eastOnlyId,
      keep: true,
    });
    assert.deepEqual([eastOnly.status, eastOnly.body.kept], [200, true]);
    await system.killRegion(EAST);
    await Promise.all([WEST, EUROPE].map((region) => system.restartService(region, "tracker")));
    await system.cluster.promote(WEST);
    await commit(system.gateway(WEST).url, [put("after")], { ack: "durable" });
    const tracker = system.tracker(EUROPE).url;
    const listed = await eventually("the losses are listed", async () => {
      const { lost } = await lostAt(system, EUROPE);
      return lost.length >= 3 ? lost : undefined;
    });
    const of = (id: string) => listed.find((each) => each.id === id);
    assert.equal(of(unkept.id)?.contents, "not_kept");
    assert.equal(of(lostId)?.contents, "kept");
    assert.equal(of(lostId)?.answered, "yes");
    const dependsOn = of(interactiveId)?.dependsOn;
    assert.equal(dependsOn?.ids[0], lostId, "it ran behind that one");
    assert.deepEqual([dependsOn.ids.includes(unkept.id), dependsOn.more], [true, false]);
    assert.ok(of(lostId)?.dependsOn?.ids.includes(interactiveId) === false, "it ran before that one");
    assert.equal(of(unkept.id)?.dependsOn, undefined, "its own order is not known");

    const { body, status } = await ask<LostDetails>(`${tracker}/v1/lost/${lostId}`);
    assert.equal(status, 200, JSON.stringify(body));
    assert.deepEqual(body.kept?.statements[0]?.params, [3, SECRET_VALUE]);
    assert.deepEqual(
      { ...body.kept?.statements[0]?.result, digest: undefined },
      { command: "INSERT", rowCount: 1, digest: undefined },
    );
    assert.match(body.kept?.digest ?? "", /^[0-9a-f]{64}$/);
    const { body: talk } = await ask<LostDetails>(`${tracker}/v1/lost/${interactiveId}`);
    assert.equal(talk.kept?.form, "interactive");
    assert.deepEqual(talk.dependsOn, dependsOn);
    assert.deepEqual(
      talk.kept?.statements.map(({ sql, result }) => [sql, result?.command]),
      [
        ["INSERT INTO note VALUES (4, 'four')", "INSERT"],
        ["SELECT count(*) FROM note", "SELECT"],
      ],
    );
    const { body: none } = await ask<LostDetails>(`${tracker}/v1/lost/${unkept.id}`);
    assert.equal(none.kept, null);
    const audit = await system.cluster.query(
      WEST,
      "SELECT target FROM highwater_audit.entry WHERE action = 'contents.read' ORDER BY n",
    );
    assert.deepEqual(
      audit.map(({ target }) => target),
      [lostId, interactiveId],
    );
  });

  it("are listed in pages, and by what is known of them", async () => {
    const first = await lostAt(system, EUROPE, "?limit=1");
    assert.equal(first.lost.length, 1);
    const rest = await lostAt(system, EUROPE, `?after=${String(first.next)}`);
    assert.equal(rest.next, null);
    assert.ok(rest.lost.every(({ id }) => id !== first.lost[0]?.id));
    const kept = await lostAt(system, EUROPE, "?contents=kept");
    assert.deepEqual(new Set(kept.lost.map(({ id }) => id)), new Set([lostId, interactiveId]));
    const wrong = await ask(`${system.tracker(EUROPE).url}/v1/lost?contents=some&limit=0&nothing=1`);
    assert.equal(wrong.status, 400);
  });

  it("are handed in by the lost region's tracker when it comes back", async () => {
    const others = await lostAt(system, EUROPE);
    assert.ok(others.lost.every(({ id }) => id !== eastOnlyId));
    await system.restartService(EAST, "tracker");
    await eventually("it lists what it alone had", async () => {
      const { lost } = await lostAt(system, EAST, "?contents=kept");
      return lost.some(({ id }) => id === eastOnlyId);
    });
    const { body } = await ask<LostDetails>(`${system.tracker(EAST).url}/v1/lost/${eastOnlyId}`);
    assert.equal(body.kept?.statements[0]?.sql, "INSERT INTO note VALUES (5, 'five')");
    assert.ok(body.dependsOn?.ids.includes(interactiveId));
  });

  it("are erased at every tracker, and stay refused", async () => {
    const erase = await fetch(`${system.tracker(EUROPE).url}/v1/lost/contents?owner=0`, { method: "DELETE" });
    const erased = (await erase.json()) as { erased: number };
    assert.deepEqual([erase.status, erased.erased], [200, 2], JSON.stringify(erased));
    for (const region of [EUROPE, WEST])
      await eventually(`the tracker of ${region} has erased them`, async () => {
        const { lost } = await lostAt(system, region, "?contents=erased");
        return lost.length === 2;
      });
    // The tracker that came back reads the mark from the new primary.
    await eventually("the tracker of the lost region has erased what it had", async () => {
      const { lost } = await lostAt(system, EAST, "?contents=kept");
      return lost.length === 0;
    });
    const { body } = await ask<LostDetails>(`${system.tracker(EUROPE).url}/v1/lost/${lostId}`);
    assert.deepEqual([body.contents, body.kept, body.answered], ["erased", null, "yes"]);
    assert.equal(body.dependsOn, undefined);
    const late = await send(system.gateway(WEST).url, [put("late")], { keep: true });
    assert.deepEqual([late.status, late.body.kept], [200, false], "its id carries a time before the mark");
  });
});
