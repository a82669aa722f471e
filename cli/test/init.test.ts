// Goal: `highwater init` writes a topology that the services take, and says of every unfit set of
// servers what to do. Method: real servers with streaming replication, which the test breaks one
// way after another.
import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { eventually, TemporaryFolder } from "@highwater/lab-tools/process";
import { parseTopology } from "@highwater/service";
import { type Ended, highwater } from "./support.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
const REGIONS = ["--region", "us-east=us", "--region", "us-west=us/b", "--region", "eu-west=eu"];

describe("highwater init", () => {
  let cluster: Cluster;
  let folder: TemporaryFolder;
  let urls: string[];

  before(async () => {
    folder = await TemporaryFolder.make("highwater-init-");
    cluster = await startCluster();
    urls = await Promise.all([EUROPE, EAST, WEST].map((id) => cluster.connectionString(id)));
  });

  after(async () => {
    await cluster.close();
    await folder.remove();
  });

  const init = (args: readonly string[], answers?: readonly string[]): Promise<Ended> =>
    highwater(["init", ...args], answers === undefined ? {} : { answers });
  const fileOf = (name: string): string => join(folder.path, name);

  test("the file names the nodes by their streams, with the services' role and without passwords", async () => {
    const out = fileOf("plain.json");
    const secret = urls.map((url) => url.replace("postgres@", "postgres:very-secret@"));
    const ended = await init([...secret, ...REGIONS, "--out", out, "--app-role", "app"]);
    assert.equal(ended.code, 0, ended.err);
    const text = readFileSync(out, "utf8");
    const { nodes, levels } = parseTopology(text);
    assert.deepEqual(nodes.map(({ id, region, zone }) => [id, region, zone]).sort(), [
      [EUROPE, "eu", "a"],
      [EAST, "us", "a"],
      [WEST, "us", "b"],
    ]);
    assert.equal(nodes[0]?.id, EAST, "the primary comes first");
    for (const { url, appUrl = "", replication } of nodes) {
      assert.equal(new URL(url).username, "highwater_service");
      assert.equal(new URL(appUrl).username, "app");
      assert.equal(replication, undefined);
    }
    assert.doesNotMatch(text + ended.out + ended.err, /very-secret/);
    assert.deepEqual(Object.keys(levels), ["disk", "zone", "region", "global"]);
    for (const level of Object.keys(levels))
      assert.match(ended.out, new RegExp(`^  ${level}: durable means`, "m"));
    assert.match(ended.err, /highwater doctor/);
  });

  test("a file that exists is kept without --force, and passwords are written only when asked", async () => {
    const out = fileOf("kept.json");
    const secret = urls.map((url) => url.replace("postgres@", "postgres:very-secret@"));
    assert.equal((await init([...urls, ...REGIONS, "--out", out])).code, 0);
    const kept = readFileSync(out, "utf8");
    const refused = await init([...secret, ...REGIONS, "--out", out, "--with-passwords"]);
    assert.equal(refused.code, 1);
    assert.match(refused.err, /kept\.json exists: --force overwrites it/);
    assert.equal(readFileSync(out, "utf8"), kept);
    const other = fileOf("secret.json");
    const written = await init([...secret, ...REGIONS, "--out", other, "--with-passwords", "--json"]);
    assert.equal(written.code, 0, written.err);
    assert.match(readFileSync(other, "utf8"), /postgres:very-secret@/);
    assert.equal(statSync(other).mode & 0o777, 0o600);
    const made = JSON.parse(written.out) as { nodes: { id: string; role: string; region: string }[] };
    assert.deepEqual(made.nodes[0]?.role, "primary");
    assert.doesNotMatch(written.out, /very-secret/);
    assert.equal((await init([...urls, ...REGIONS, "--out", other, "--force"])).code, 0);
    assert.doesNotMatch(readFileSync(other, "utf8"), /very-secret/);
  });

  test("regions are asked for, proposed from the names, and never guessed in silence", async () => {
    const silent = await init([...urls, "--out", fileOf("silent.json")]);
    assert.equal(silent.code, 2);
    assert.match(silent.err, /--region us-east=us-east/);
    const asked = await init(
      [...urls, "--region", "us-west=far", "--out", fileOf("asked.json")],
      ["", "Not One", "eu/b"],
    );
    assert.equal(asked.code, 0, asked.err);
    const { nodes } = parseTopology(readFileSync(fileOf("asked.json"), "utf8"));
    const placed = Object.fromEntries(nodes.map(({ id, region, zone }) => [id, `${region}/${zone}`]));
    assert.deepEqual(placed, { [EAST]: "us-east/a", [WEST]: "far/a", [EUROPE]: "eu/b" });
    const proposed = await init([...urls, "--yes", "--out", fileOf("proposed.json")]);
    assert.equal(proposed.code, 0, proposed.err);
    const wrong = await init([
      ...urls,
      "--region",
      "mars=x",
      "--region",
      "us-east",
      "--out",
      fileOf("wrong.json"),
    ]);
    assert.equal(wrong.code, 2);
    assert.match(wrong.err, /there is no node mars\. The nodes are us-east/);
    assert.match(wrong.err, /--region us-east is not NODE=REGION/);
  });

  test("a node may have another name than its stream", async () => {
    const out = fileOf("named.json");
    const named = await init([...urls.map((url, at) => `n${String(at)}=${url}`), "--yes", "--out", out]);
    assert.equal(named.code, 0, named.err);
    const { nodes } = parseTopology(readFileSync(out, "utf8"));
    assert.deepEqual(Object.fromEntries(nodes.map(({ id, replication }) => [id, replication])), {
      n0: { applicationName: EUROPE },
      n1: undefined,
      n2: { applicationName: WEST },
    });
  });

  test("wrong arguments: no string, not a URL, an unusable name", async () => {
    assert.match((await init([])).err, /name the connection string of each server/);
    const wrong = await init(["host=db1 port=5432", `Big Name=${urls[0] ?? ""}`]);
    assert.equal(wrong.code, 2);
    assert.match(wrong.err, /argument 1 is not a URL/);
    assert.match(wrong.err, /argument 2: a node's name/);
    assert.match((await init(["--regions", "x"])).err, /Unknown option '--regions'/);
  });

  test("a server that does not answer is named with the reason, all of them at once", async () => {
    const ports = [await cluster.reservePort(), await cluster.reservePort()];
    const closed = ports.map((port) => `postgresql://postgres:very-secret@127.0.0.1:${String(port)}/app`);
    const ended = await init([...urls, ...closed]);
    assert.equal(ended.code, 1);
    for (const port of ports)
      assert.match(
        ended.err,
        new RegExp(`127\\.0\\.0\\.1:${String(port)} cannot be asked: .*listen_addresses`),
      );
    assert.doesNotMatch(ended.err, /very-secret/);
    const unknown = await init([(urls[0] ?? "").replace("/app", "/nowhere")]);
    assert.match(unknown.err, /database "nowhere" does not exist\. The connection string names a database/);
  });

  test("replicas without their primary, and the same server twice", async () => {
    const [europe = "", east = "", west = ""] = urls;
    const alone = await init([europe, west]);
    assert.equal(alone.code, 1);
    // Behind the relay of a link: the port is not that of the primary itself.
    assert.match(alone.err, /are all replicas\. They follow 127\.0\.0\.1:[0-9]+\. Name the primary/);
    assert.match((await init([east, west, west])).err, /are the same server: name each server once/);
  });

  test("servers of two clusters", async () => {
    await using other = await startCluster({ nodes: [{ id: "stranger", region: "r" }] });
    const ended = await init([...urls, await other.connectionString("stranger")]);
    assert.equal(ended.code, 1);
    assert.match(ended.err, /belong to 2 clusters: .*system identifier \d+.*leave the others out/);
  });

  test("a role that may not see replication, with the grant that it needs", async () => {
    await cluster.query(EAST, "CREATE ROLE poor LOGIN");
    await eventually("the role is everywhere", async () => {
      const found = await Promise.all(
        [WEST, EUROPE].map((id) => cluster.query(id, "SELECT FROM pg_roles WHERE rolname = 'poor'")),
      );
      return found.every((rows) => rows.length === 1);
    });
    const ended = await init(urls.map((url) => url.replace("postgres@", "poor@")));
    assert.equal(ended.code, 1);
    assert.match(ended.err, /GRANT pg_monitor TO poor;/);
  });

  test("a replica without application_name, and two with the same, with the line to run", async () => {
    const before = await conninfo(cluster, WEST);
    const unnamed = before.replace(/ application_name=\S+/, "");
    await follow(cluster, WEST, unnamed, "");
    const ended = await init(urls);
    assert.equal(ended.code, 1);
    const { port } = new URL(urls[2] ?? "");
    assert.match(ended.err, new RegExp(`127\\.0\\.0\\.1:${port} has no application_name`));
    const [, line = ""] =
      /Run on [^ ]+: (ALTER SYSTEM SET primary_conninfo = '[^;]*';)/.exec(ended.err) ?? [];
    assert.match(line, /application_name=node-/);

    await follow(cluster, WEST, `${unnamed} application_name=eu-west`, "eu-west");
    assert.match((await init(urls)).err, /share the application_name eu-west\. Give each its own/);

    // The line that the command printed, as it stands.
    await cluster.query(WEST, line);
    await cluster.query(WEST, "SELECT pg_reload_conf()");
    await eventually(
      "the replica streams under its name",
      async () => (await init([...urls, "--yes", "--out", fileOf("line.json")])).code === 0,
    );
    const { nodes } = parseTopology(readFileSync(fileOf("line.json"), "utf8"));
    assert.ok(nodes.some(({ id }) => id === `node-${port}`));
    await follow(cluster, WEST, before, WEST);
  });

  test("CockroachDB, by its URL", async () => {
    const named = await init(["cockroachdb://root@db1.example.com:26257/app"]);
    assert.equal(named.code, 2);
    assert.match(named.err, /argument 1: CockroachDB cannot be used yet: .* make test-cockroach /);
  });

  test("two writable servers", async () => {
    await cluster.promote(EUROPE, { repoint: false });
    const ended = await init(urls);
    assert.equal(ended.code, 1);
    assert.match(ended.err, /are all writable, and a cluster has one primary/);
  });
});

async function conninfo(cluster: Cluster, node: string): Promise<string> {
  const [row] = await cluster.query(node, "SELECT current_setting('primary_conninfo') AS conninfo");
  return String(row?.["conninfo"]);
}

/** Resolves when the primary shows the stream under the name. Without a name, that of the cluster would count. */
async function follow(cluster: Cluster, node: string, text: string, name: string): Promise<void> {
  await cluster.query(node, `ALTER SYSTEM SET primary_conninfo = '${text}'`);
  await cluster.query(
    node,
    name === "" ? "ALTER SYSTEM SET cluster_name = ''" : "ALTER SYSTEM RESET cluster_name",
  );
  await cluster.restart(node);
  await eventually(`${node} streams as ${name || "walreceiver"}`, async () => {
    const found = await cluster.query(
      node,
      `SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming' AND conninfo ~ 'application_name=${name || "walreceiver"}( |$)'`,
    );
    return found.length === 1;
  });
}
