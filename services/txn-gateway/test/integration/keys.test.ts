// Goal: an operator creates, lists, revokes and expires keys, and gateways follow, also through a failover. Method: the real
// command as a process, a real cluster of three nodes, and the key ring that a gateway has.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { hostname, tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import pg from "pg";
import { decideAuthority } from "@highwater/authority";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { programFile, SERVICE_ROLE, systemRoles } from "@highwater/lab-system";
import { EpochGraph, HighwaterError, type NodeSpec } from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import { type AuditEntry, PostgresKeys, PostgresStore, POSTGRES_DEFAULTS } from "@highwater/store";
import { KeyRing, ownerTag, type Principal } from "@highwater/service";
import { roleUrl } from "../../src/identity/role-url.ts";
import { MemoryLog } from "../support/fakes.ts";

/** The owner of the role app_orders: its first key's id. */
let ordersOwner = "";
const MAIN = new URL("../../src/cli/keys/main.ts", import.meta.url);
let cluster: Cluster;
let nodes: readonly NodeSpec[];
let store: PostgresStore;
let ring: KeyRing;
let primaryEpoch = { node: "a", epoch: "first" };
const graph = new EpochGraph();
const folder = mkdtempSync(join(tmpdir(), "highwater-keys-"));

before(async () => {
  cluster = await startCluster({
    nodes: ["a", "b", "c"].map((id) => ({ id, region: id })),
    settings: { wal_writer_delay: "10ms" },
  });
  nodes = await Promise.all(
    cluster.nodes.map(async ({ id, region, zone }) => ({
      id,
      region,
      zone,
      url: await cluster.connectionString(id),
    })),
  );
  const options = { nodes, clock: realClock, helper: "keys-test" };
  const patience = { connectTimeoutMs: 30_000, callTimeoutMs: 30_000 };
  store = new PostgresStore({ ...POSTGRES_DEFAULTS, ...options, ...patience });
  const reader = new PostgresKeys({ ...options, ...patience });
  ring = new KeyRing({
    reader,
    clock: realClock,
    log: new MemoryLog(),
    primaryEpoch: () => primaryEpoch,
    refreshMs: 100,
  });
});

after(async () => {
  ring.stop();
  await store.close();
  await cluster.close();
  rmSync(folder, { recursive: true });
});

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function keys(line: string, stdin = "", as: readonly NodeSpec[] = nodes): Promise<Ran> {
  const topology = JSON.stringify({ nodes: as, levels: { disk: { primary: true } } });
  // A slow machine must not make a living node one that does not answer.
  const patience = { GATEWAY_CONNECT_TIMEOUT_MS: "30000" };
  const env = { PATH: process.env["PATH"] ?? "", HIGHWATER_TOPOLOGY: topology, ...patience };
  const child = spawn(process.execPath, [await programFile(MAIN), ...line.split(" ")], { env });
  child.stdin.end(stdin);
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const [code] = (await once(child, "close")) as [number];
  return { code, stdout: stdout.trim(), stderr };
}

/** The new key. */
async function create(line: string, stdin = ""): Promise<string> {
  const { code, stdout, stderr } = await keys(`create ${line}`, stdin);
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^hwk_[a-z2-9]{8}_[A-Za-z0-9_-]{43}$/);
  return stdout;
}

const idOf = (key: string): string => key.slice(4, 12);

/** A further key of the role app_orders. */
const ofOrders = (name: string): string => `--name ${name} --role app_orders --owner ${ordersOwner}`;

async function outcome(key: string): Promise<Principal | string> {
  try {
    return await ring.authenticate(`Bearer ${key}`);
  } catch (cause) {
    assert.ok(cause instanceof HighwaterError);
    return cause.code;
  }
}

/** What a tracker would do: begins the epoch of the node that is the authority. */
async function mint(): Promise<string> {
  const answers = await Promise.allSettled(nodes.map(({ id }) => store.probe(id)));
  const reports = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
  for (const report of reports) graph.add(report.epochs);
  const authority = decideAuthority(reports, null, graph);
  assert.ok(authority.kind === "mint", JSON.stringify(authority));
  const { node, command, supersedes } = authority;
  const minSeq = graph.maxSeq + 1;
  return (await store.mint(node, { minSeq, supersedes, command, streamed: null, finalMarks: {} })).id;
}

describe("the command keys", () => {
  it("makes no schema as a role that administers the server, which would own it", async () => {
    const { code, stdout, stderr } = await keys("create --name orders --role app_orders --create-role");
    assert.deepEqual([code, stdout], [2, ""]);
    assert.match(stderr, /logs in as postgres, which administers the server and would own it: gateways/);
    const [row] = await cluster.query("a", "SELECT to_regnamespace('highwater') AS schema");
    assert.deepEqual(row, { schema: null });
  });

  it("prepares a store that no service has seen yet, as the services' role", async () => {
    for (const statement of systemRoles([])) await cluster.query("a", statement);
    const ofServices = await Promise.all(
      nodes.map(async (node) => ({
        ...node,
        url: await cluster.connectionString(node.id, { user: SERVICE_ROLE }),
      })),
    );
    const { code, stdout, stderr } = await keys("list", "", ofServices);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^id +state +name/);
    const owners = await cluster.query(
      "a",
      `SELECT DISTINCT pg_get_userbyid(owner) AS owner FROM (SELECT nspowner FROM pg_namespace WHERE nspname = 'highwater'
         UNION SELECT relowner FROM pg_class WHERE relnamespace = 'highwater'::regnamespace) AS o (owner)`,
    );
    assert.deepEqual(owners, [{ owner: SERVICE_ROLE }]);
    await mint();
    ring.start();
  });

  it("creates a key that a gateway knows at once, and a list that shows no secret", async () => {
    const key = await create("--name orders --role app_orders --create-role --rate 200 --concurrency 50");
    ordersOwner = idOf(key);
    const principal = await outcome(key);
    assert.ok(typeof principal === "object");
    assert.equal(principal.id, idOf(key));
    assert.equal(principal.owner, ownerTag(idOf(key)));
    assert.equal(principal.role, "app_orders");
    assert.deepEqual([...principal.scopes], ["read", "write"]);
    assert.deepEqual(
      [principal.limits.ratePerSecond, principal.limits.concurrency, principal.limits.burst],
      [200, 50, null],
    );
    const { stdout } = await keys("list --json");
    const [listed] = JSON.parse(stdout) as { id: string; state: string; limits: unknown }[];
    assert.deepEqual(
      [listed?.id, listed?.state, listed?.limits],
      [idOf(key), "active", { ratePerSecond: 200, concurrency: 50 }],
    );
    assert.ok(!stdout.includes(key.slice(13)));
    const [row] = await cluster.query("a", "SELECT k::text AS kept FROM highwater.api_key k");
    assert.ok(!String(row?.["kept"]).includes(key.slice(13)), "the database holds no secret either");
  });

  it("revokes: within a refresh the key is refused, and it stays so", async () => {
    const key = await create(ofOrders("old"));
    assert.equal(typeof (await outcome(key)), "object");
    const { code, stdout, stderr } = await keys(`revoke ${idOf(key)}`);
    assert.equal(code, 0);
    assert.match(stdout, /revoked/);
    assert.match(stderr, /All nodes have the change on disk: a, b, c\./);
    await eventually("the ring refuses it", async () => (await outcome(key)) === "unauthenticated");
    await assert.rejects(ring.authenticate(`Bearer ${key}`), /was revoked/);
    assert.equal((await keys(`revoke ${idOf(key)}`)).code, 0, "to revoke twice is no error");
  });

  it("enters who did it and why into the audit log, and prints that as JSON lines", async () => {
    const key = await create(`${ofOrders("audited")} --by ada --reason rollout`);
    assert.equal((await keys(`revoke ${idOf(key)} --by bob --reason leaked`)).code, 0);
    const { code, stdout, stderr } = await keys("audit --since 1h");
    assert.equal(code, 0, stderr);
    const entries = stdout.split("\n").map((line) => JSON.parse(line) as AuditEntry);
    const own = entries.filter(({ target }) => target === idOf(key));
    assert.deepEqual(
      own.map(({ actor, action, reason }) => [actor, action, reason]),
      [
        ["ada", "key.create", "rollout"],
        ["bob", "key.revoke", "leaked"],
      ],
    );
    const unnamed = entries.find(({ target }) => target === ordersOwner);
    assert.equal(unnamed?.actor, `${userInfo().username}@${hostname()}`, "who runs the command");
    const later = (await keys(`audit --after ${String(own[0]?.n)}`)).stdout;
    assert.equal((JSON.parse(later.split("\n")[0] ?? "") as AuditEntry).action, "key.revoke");
    assert.ok(!stdout.includes(key.slice(13)));
  });

  it("expires a key, and creates one that expires by itself", async () => {
    const key = await create(ofOrders("brief"));
    assert.equal(typeof (await outcome(key)), "object");
    assert.equal((await keys(`expire ${idOf(key)} --at 2020-01-01`)).code, 0);
    await eventually("the ring refuses it", async () => (await outcome(key)) === "unauthenticated");
    await assert.rejects(ring.authenticate(`Bearer ${key}`), /has expired/);
    assert.equal((await keys(`expire ${idOf(key)} --in 1h`)).code, 0);
    await eventually("it is good again", async () => typeof (await outcome(key)) === "object");
    const fleeting = await create(`${ofOrders("fleeting")} --expires 1500ms`);
    await eventually("its time is over", async () => (await outcome(fleeting)) === "unauthenticated");
  });

  it("gives a key and its successor one owner", async () => {
    const first = await create("--name one --role app_heirs --create-role");
    const second = await create(`--name two --role app_heirs --owner ${idOf(first)}`);
    const [a, b] = [await outcome(first), await outcome(second)];
    assert.ok(typeof a === "object" && typeof b === "object");
    assert.equal(a.owner, b.owner);
    assert.notEqual(a.id, b.id);
  });

  it("registers a key that was made elsewhere, and prints nothing of it", async () => {
    const generated = await keys("generate --json");
    assert.equal(generated.code, 0, generated.stderr);
    const made = JSON.parse(generated.stdout) as { key: string; id: string; fingerprint: string };
    assert.equal(await outcome(made.key), "unauthenticated");
    const line = `create --name elsewhere --role app_elsewhere --create-role --fingerprint ${made.fingerprint}`;
    const { code, stdout, stderr } = await keys(line);
    assert.equal(code, 0, stderr);
    assert.ok(!`${stdout}${stderr}`.includes(made.key.slice(13)));
    const principal = await outcome(made.key);
    assert.ok(typeof principal === "object");
    assert.equal(principal.id, made.id);
    const again = await keys(line);
    assert.equal(again.code, 2);
    assert.match(again.stderr, /there is a key with the id/);
    assert.equal((await keys(`revoke ${made.id}`)).code, 0);
  });

  it("lets no key that was made elsewhere choose the name of another owner", async () => {
    const victim = await create("--name victim --role app_victim --owner acmecorp --create-role");
    const fingerprint = `acmecorp:${"0".repeat(64)}`;
    const line = `create --name m --role app_mallory --create-role --fingerprint ${fingerprint}`;
    const refused = await keys(line);
    assert.deepEqual([refused.code, refused.stdout], [2, ""]);
    assert.match(refused.stderr, /the id acmecorp is the name of an owner that has keys/);
    const own = await keys(`${line} --owner mallory`);
    assert.equal(own.code, 0, own.stderr);
    const fellow = await keys("create --name fellow --role app_victim --owner acmecorp");
    assert.match(fellow.stderr, new RegExp(`has other keys, .*: ${idOf(victim)}\\.`));
  });

  it("records no role for a key that it does not create", async () => {
    const known = await create("--name known --role app_known --create-role");
    await cluster.query("a", "CREATE ROLE app_free LOGIN IN ROLE highwater_app");
    const fingerprint = `${idOf(known)}:${"0".repeat(64)}`;
    assert.equal((await keys(`create --name x --role app_free --fingerprint ${fingerprint}`)).code, 2);
    assert.match(await create("--name free --role app_free --owner rightful"), /^hwk_/);
  });

  it("refuses roles that are not fit, wrong arguments and unknown keys, each with its code", async () => {
    await cluster.query("a", "CREATE ROLE boss LOGIN SUPERUSER");
    await cluster.query("a", "CREATE ROLE outsider LOGIN");
    const cases: [string, number, RegExp][] = [
      ["create --name x --role nobody_here", 2, /the role nobody_here does not exist/],
      ["create --name x --role boss", 2, /is a superuser/],
      ["create --name x --role outsider", 2, /lacks the rights of highwater_app/],
      ["create --name x --role outsider --scopes read", 2, /lacks the rights of highwater_read/],
      ["create --name x --role app_orders --scopes read,admin", 2, /a member of highwater_app/],
      [
        "create --name x --role app_orders --owner bank",
        2,
        new RegExp(`belongs to the owner ${ordersOwner}, for keys that may write, .* owner bank`),
      ],
      ["create --name x --role app_orders", 2, /belongs to the owner/],
      ["create --name x --role app_orders --create-role --password-stdin", 2, /exists already/],
      ["create --name x --role app_orders --expires 2020-01-01", 2, /not in the future/],
      ["create --name x --role pg_forbidden --create-role", 1, /statement_failed/],
      ["create --role app_orders", 2, /--name is required/],
      ["revoke nobody22", 1, /not_found: There is no key with the id nobody22/],
      ["destroy", 2, /create, generate, list, revoke, expire or audit/],
    ];
    const before = (await keys("list --json")).stdout;
    for (const [line, code, pattern] of cases) {
      const ran = await keys(line);
      assert.equal(ran.code, code, `${line}: ${ran.stderr}`);
      assert.match(ran.stderr, pattern);
      assert.equal(ran.stdout, "");
    }
    assert.equal((await keys("list --json")).stdout, before);
    assert.match((await keys("--help")).stdout, /^Usage: highwater keys create/);
  });

  it("makes a role that only reads for a key that only reads, and takes from PUBLIC what it must not have", async () => {
    const { code, stderr } = await keys(
      "create --name r --role shop_read --owner shop --create-role --scopes read",
    );
    assert.equal(code, 0, stderr);
    assert.doesNotMatch(stderr, /unprotected/);
    const client = new pg.Client({ connectionString: roleUrl(nodes[0]?.url ?? "", "shop_read", undefined) });
    await client.connect();
    const denied = (cause: { code?: string }): boolean => cause.code === "42501";
    await assert.rejects(client.query("SELECT lo_create(0)"), denied);
    await assert.rejects(client.query("CREATE TEMPORARY TABLE t (id int)"), denied);
    await client.end();
    await cluster.query(
      "a",
      "CREATE FUNCTION public.as_boss() RETURNS int SECURITY DEFINER LANGUAGE sql AS 'SELECT 1'",
    );
    const again = await keys("create --name again --role shop_read --owner shop --scopes read");
    assert.match(again.stderr, /unprotected: \[SECURITY DEFINER public\.as_boss\(\)\]/);
    await cluster.query("a", "DROP FUNCTION public.as_boss()");
    // Whatever the role is given later: it stays one for keys that only read.
    await cluster.query("a", "REVOKE highwater_read FROM shop_read");
    await cluster.query("a", "GRANT highwater_app TO shop_read");
    const turned = await keys("create --name w --role shop_read --owner shop");
    assert.match(turned.stderr, /for keys that only read, .* one of keys that may write/);
    assert.equal(turned.code, 2);
  });

  it("takes a role's password from standard input or a file, and reveals it nowhere", async () => {
    const secret = "p@ss word:1%";
    writeFileSync(join(folder, "password"), `${secret}\n`);
    const ran = [
      await keys("create --name s --role app_stdin --create-role --password-stdin", `${secret}\n`),
      await keys(`create --name f --role app_file --create-role --password-file ${join(folder, "password")}`),
    ];
    for (const { code, stdout, stderr } of ran) {
      assert.equal(code, 0, stderr);
      assert.ok(!`${stdout}${stderr}`.includes(secret));
    }
    const rows = await cluster.query(
      "a",
      "SELECT rolpassword FROM pg_authid WHERE rolname IN ('app_stdin', 'app_file')",
    );
    assert.equal(rows.length, 2);
    for (const row of rows) assert.match(String(row["rolpassword"]), /^SCRAM-SHA-256\$4096:/);
    const missing = await keys(
      `create --name f --role app_new --create-role --password-file ${join(folder, "none")}`,
    );
    assert.equal(missing.code, 2);
    assert.match(missing.stderr, /ENOENT/);
  });
});

describe("a key's role", () => {
  it("logs in as itself, and the database's grants decide", async () => {
    await cluster.query("a", "CREATE TABLE open_table (id int)");
    await cluster.query("a", "CREATE TABLE closed_table (id int)");
    await cluster.query("a", "GRANT SELECT ON open_table TO app_orders");
    const [node] = nodes;
    const client = new pg.Client({ connectionString: roleUrl(node?.url ?? "", "app_orders", undefined) });
    await client.connect();
    await client.query("SELECT * FROM open_table");
    const denied = (cause: { code?: string }): boolean => cause.code === "42501";
    await assert.rejects(client.query("SELECT * FROM closed_table"), denied);
    await assert.rejects(client.query("SELECT * FROM highwater.api_key"), denied);
    await assert.rejects(client.query("SET ROLE postgres"), denied);
    await client.end();
  });
});

describe("a failover", () => {
  it("takes the keys along, and the command follows", async () => {
    const key = await create(ofOrders("survivor"));
    await cluster.kill("a");
    assert.equal(
      typeof (await outcome(key)),
      "object",
      "while no server answers, what was known goes on working",
    );
    await cluster.promote("b");
    primaryEpoch = { node: "b", epoch: await mint() };
    await cluster.waitForStreaming(["c"]);
    const { code, stdout, stderr } = await keys(`revoke ${idOf(key)}`);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /revoked/);
    assert.match(stderr, /WARNING: only b, c confirmed in time .* A failover to a may undo it/);
    await eventually("the ring refuses it", async () => (await outcome(key)) === "unauthenticated");
  });

  it("never lets the command change a zombie", async () => {
    await cluster.kill("b");
    await cluster.start("a");
    await eventually("the old primary is writable", async () => {
      const [row] = await cluster.query("a", "SELECT pg_is_in_recovery() AS replica").catch(() => []);
      return row?.["replica"] === false;
    });
    const { code, stderr } = await keys("create --name x --role app_orders");
    assert.equal(code, 1, stderr);
    assert.match(stderr, /primary_unavailable: a is writable, but lacks an epoch that c has/);
  });

  it("leaves nothing to change when no node answers, and says so", async () => {
    await cluster.kill("a");
    await cluster.kill("c");
    const { code, stderr } = await keys("list");
    assert.equal(code, 1);
    assert.match(stderr, /primary_unavailable: no writable node answers/);
  });
});
