// Goal: clusters from one template run initdb once, and are still unrelated to each other.

import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { eventually } from "@highwater/lab-tools/process";
import { type Cluster, startCluster } from "../src/index.ts";
import { makeTempParent } from "./support.ts";

const nodes = [
  { id: "one", region: "r" },
  { id: "two", region: "r" },
];

async function identifiers(cluster: Cluster): Promise<unknown[]> {
  const answers = await Promise.all(
    cluster.nodes.map(({ id }) =>
      cluster.query(id, "SELECT system_identifier::text AS id FROM pg_control_system()"),
    ),
  );
  return answers.map(([row]) => row?.["id"]);
}

test("clusters that start at once share a template, and have a system identifier each", async () => {
  await using temp = await makeTempParent();
  const templateDir = path.join(temp.dir, "templates");
  const start = (): Promise<Cluster> => startCluster({ nodes, templateDir });
  const [first, second] = await Promise.all([start(), start()]);
  await using _first = first;
  await using _second = second;
  const templates = (await readdir(templateDir)).filter((name) => name !== "native");
  assert.equal(templates.length, 1);
  const [[one, two], [other]] = [await identifiers(first), await identifiers(second)];
  assert.equal(one, two, "a replica has its primary's");
  assert.notEqual(one, other);

  // The copy's log is complete: it can be replayed after a crash, and streamed.
  await first.kill("one");
  await first.start("one");
  await first.waitForStreaming();

  const upstream = await second.connectionString("one");
  await first.query("two", `ALTER SYSTEM SET primary_conninfo = '${upstream}'`);
  await first.query("two", "SELECT pg_reload_conf()");
  await eventually("the replica has left its primary", async () => {
    const streams = await first.query("one", "SELECT FROM pg_stat_replication");
    return streams.length === 0;
  });
  await assert.rejects(first.waitForStreaming(["two"], { timeoutMs: 3_000 }), { code: "TIMEOUT" });
});
