// Goal: the roles that the set-up task makes are enough for gateways and trackers, through a failover, on nodes that are asked
// themselves as on a managed service, and for the operator's command. And they have no other rights. Method: a real cluster of three regions whose "master" has what the master user of Amazon RDS has (no superuser); the
// services log in as the role that it makes.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { mkdir } from "node:fs/promises";
import { after, before, describe, it } from "node:test";
import { promisify } from "node:util";
import { fileURLToPath } from "node:url";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { ServiceProcess } from "@highwater/lab-system";
import pg from "pg";

const PROGRAM = fileURLToPath(new URL("../src/database-roles.ts", import.meta.url));
const AUTHORIZE = fileURLToPath(new URL("../src/authorize.ts", import.meta.url));
const CANDIDATE = fileURLToPath(
  new URL("../../../services/durability-tracker/src/cli/failover-candidate/main.ts", import.meta.url),
);
const LIMIT_MS = 90_000;
const POLL_MS = 100;
const MASTER = "highwater_admin";
const SERVICE = "highwater_service";
const PASSWORD = "correct-horse-battery-staple";
const APPLICATIONS = JSON.stringify({ app_orders: "it's one", app_billing: "another" });
const SECRET = "0123456789abcdef0123456789abcdef";

describe("the roles that the set-up makes", { timeout: 5 * LIMIT_MS }, () => {
  let cluster: Cluster;
  const services: ServiceProcess[] = [];
  before(async () => {
    cluster = await startCluster({ roundTripMs: {} });
    const [primary] = cluster.nodes;
    assert.ok(primary);
    // As RDS makes its master user: it may make roles and pass on what it has, and owns the database.
    for (const statement of [
      `CREATE ROLE ${MASTER} LOGIN CREATEROLE CREATEDB NOSUPERUSER`,
      `GRANT pg_monitor, pg_signal_backend TO ${MASTER} WITH ADMIN OPTION`,
      `ALTER DATABASE app OWNER TO ${MASTER}`,
    ])
      await cluster.query(primary.id, statement);
  });
  after(async () => {
    await Promise.all(services.filter(({ running }) => running).map((service) => service.stop()));
    await cluster.close();
  });

  const setUp = async (more: Readonly<Record<string, string>> = {}): Promise<void> => {
    const [primary] = cluster.nodes;
    assert.ok(primary);
    const url = await cluster.connectionString(primary.id, { user: MASTER });
    await run(PROGRAM, {
      DATABASE_ROLES_URL: url,
      DATABASE_ROLES_SERVICE: SERVICE,
      DATABASE_ROLES_PASSWORD: PASSWORD,
      ...more,
    });
  };

  it("are made once, and again without harm; no password is stored, and no function of an application is called", async () => {
    const [primary] = cluster.nodes;
    assert.ok(primary);
    // PostgreSQL would prefer functions of texts to its own ones of names.
    const planted = (args: string): string =>
      `CREATE FUNCTION public.pg_has_role(${args}) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE 'called'; END $$`;
    const places = ["text, text", "text, text, text"];
    for (const args of places) await cluster.query(primary.id, planted(args));
    await setUp({ DATABASE_ROLES_APPLICATIONS: APPLICATIONS });
    await setUp({
      DATABASE_ROLES_APPLICATIONS: APPLICATIONS,
      DATABASE_ROLES_SQL: "CREATE TABLE by_operator ()",
    });
    const [made] = await cluster.query(primary.id, "SELECT to_regclass('public.by_operator') AS made");
    assert.notEqual(made?.["made"], null);
    await cluster.query(primary.id, "DROP TABLE public.by_operator");
    for (const args of places) await cluster.query(primary.id, `DROP FUNCTION public.pg_has_role(${args})`);
    const [row] = await cluster.query(
      primary.id,
      `SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls AS is_privileged, rolpassword LIKE 'SCRAM-SHA-256$%' AS is_hashed
       FROM pg_authid WHERE rolname = '${SERVICE}'`,
    );
    assert.deepEqual({ ...row }, { is_privileged: false, is_hashed: true });
    const client = new pg.Client({
      connectionString: await cluster.connectionString(primary.id, { user: SERVICE }),
    });
    await client.connect();
    try {
      for (const refused of [
        "CREATE ROLE another",
        "CREATE TABLE public.another ()",
        "SELECT pg_read_file('postgresql.conf')",
      ])
        await assert.rejects(client.query(refused), { code: "42501" }, refused);
    } finally {
      await client.end();
    }
  });

  it("are made for API keys as well, with what the operator grants and no more", async () => {
    const statements = "CREATE SCHEMA sales; GRANT CREATE ON SCHEMA public, sales TO app_orders";
    await setUp({ DATABASE_ROLES_APPLICATIONS: APPLICATIONS, DATABASE_ROLES_SQL: statements });
    await setUp({ DATABASE_ROLES_APPLICATIONS: APPLICATIONS });
    const [primary] = cluster.nodes;
    assert.ok(primary);
    const rows = await cluster.query(
      primary.id,
      `SELECT rolname AS role, rolcanlogin AND NOT (rolsuper OR rolcreaterole OR rolcreatedb) AS is_plain,
              pg_has_role(oid, 'highwater_app', 'MEMBER') AS is_application, rolpassword LIKE 'SCRAM-SHA-256$%' AS is_hashed,
              has_schema_privilege(oid, 'public', 'CREATE') AS may_create
       FROM pg_authid WHERE rolname LIKE 'app_%' ORDER BY rolname`,
    );
    const made = { is_plain: true, is_application: true, is_hashed: true };
    assert.deepEqual(
      rows.map((row) => ({ ...row })),
      [
        { role: "app_billing", ...made, may_create: false },
        { role: "app_orders", ...made, may_create: true },
      ],
    );
  });

  it("stay roles of keys that only read once the operator has made them so", async () => {
    const turn = "REVOKE highwater_app FROM app_billing; GRANT highwater_read TO app_billing";
    await setUp({ DATABASE_ROLES_APPLICATIONS: APPLICATIONS, DATABASE_ROLES_SQL: turn });
    await setUp({ DATABASE_ROLES_APPLICATIONS: APPLICATIONS });
    const [primary] = cluster.nodes;
    const [row] = await cluster.query(
      primary?.id ?? "",
      "SELECT pg_has_role('app_billing', 'highwater_app', 'MEMBER') AS writes, pg_has_role('app_billing', 'highwater_read', 'MEMBER') AS reads",
    );
    assert.deepEqual({ ...row }, { writes: false, reads: true });
  });

  it("are made whole or not at all, and never in place of the services' own", async () => {
    const broken = setUp({
      DATABASE_ROLES_APPLICATIONS: '{"app_late":"a password"}',
      DATABASE_ROLES_SQL: "GRANT SELECT ON nothing_there TO app_late",
    });
    await assert.rejects(broken, { code: 1, stderr: /nothing_there/ });
    const [primary] = cluster.nodes;
    assert.ok(primary);
    assert.deepEqual(await cluster.query(primary.id, "SELECT FROM pg_roles WHERE rolname = 'app_late'"), []);
    for (const [wrong, why] of [
      [`{"${MASTER}":"x"}`, /cannot be a role of API keys/],
      [`{"${SERVICE}":"x"}`, /cannot be a role of API keys/],
      ['{"highwater_app":"x"}', /cannot be a role of API keys/],
      ['{"highwater_read":"x"}', /cannot be a role of API keys/],
      [JSON.stringify({ app_orders: "two\nlines" }), /one line of printable ASCII/],
      ["[]", /as a JSON object/],
      ["{", /as a JSON object/],
    ] as const)
      await assert.rejects(setUp({ DATABASE_ROLES_APPLICATIONS: wrong }), { code: 2, stderr: why }, wrong);
  });

  it("are enough to commit, to become durable, and to go on after a failover", async () => {
    const nodes = await Promise.all(
      cluster.nodes.map(async ({ id, region, zone }) => ({
        ...{ id, region, zone, url: await cluster.connectionString(id, { user: SERVICE }) },
        // RDS names and addresses its replicas as it likes.
        replication: { ask: true },
      })),
    );
    const topology = JSON.stringify({
      nodes,
      levels: {
        disk: { primary: true },
        region: { replicas: 1, outside: "region" },
        global: { regions: "all" },
      },
    });
    const region = cluster.nodes[0]?.region ?? "";
    const shared = {
      HIGHWATER_TOPOLOGY: topology,
      HIGHWATER_AUTHORITY: "operator",
      HIGHWATER_INTERNAL_SECRET: SECRET,
    };
    const folder = join(cluster.dir, "roles");
    await mkdir(folder);
    const tracker = await ServiceProcess.start({
      name: "tracker",
      service: "tracker",
      logFile: join(folder, "tracker.log"),
      startTimeoutMs: LIMIT_MS,
      env: {
        ...shared,
        TRACKER_NAME: "one",
        TRACKER_REGION: region,
        TRACKER_LEDGER: join(folder, "ledger.sqlite"),
      },
    });
    services.push(tracker);
    const gateway = await ServiceProcess.start({
      name: "gateway",
      service: "gateway",
      logFile: join(folder, "gateway.log"),
      startTimeoutMs: LIMIT_MS,
      env: { ...shared, GATEWAY_NAME: "one", GATEWAY_REGION: region, GATEWAY_TRACKERS: tracker.url },
    });
    services.push(gateway);
    await ready([tracker, gateway]);

    // The service's own role runs the statements here; it may make what it owns, in a schema of its own.
    await commit(gateway, "CREATE SCHEMA sample", "commit");
    await commit(gateway, "CREATE TABLE sample.entry (id int PRIMARY KEY)", "commit");
    await commit(gateway, "INSERT INTO sample.entry VALUES (1)", "durable");

    const [old, next] = cluster.nodes;
    assert.ok(old && next);
    await cluster.kill(old.id);
    // The operator's command, too, is the services' role's to write.
    const report = await candidateReport({ ...shared, HIGHWATER_TRACKERS: tracker.url });
    const { candidate } = JSON.parse(report) as { candidate: string };
    await cluster.promote(candidate, { command: false });
    await run(AUTHORIZE, { ...shared, AUTHORIZE_NODE: candidate, AUTHORIZE_REPORT: report });
    await ready([tracker, gateway]);
    const state = await commit(gateway, "INSERT INTO sample.entry VALUES (2)", "durable");
    assert.equal(state, "durable");
  });
});

async function run(
  program: string,
  env: Readonly<Record<string, string>>,
  ...args: readonly string[]
): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [program, ...args], {
    env: { ...process.env, ...env },
    timeout: LIMIT_MS,
  });
  return stdout;
}

/** Asked until no replica looks fed by the dead server any more. */
async function candidateReport(env: Readonly<Record<string, string>>): Promise<string> {
  const deadline = performance.now() + LIMIT_MS;
  for (;;) {
    const report = await run(CANDIDATE, env, "--json", "--fenced").catch((cause: unknown) => {
      assert.ok(performance.now() < deadline, String(cause));
      return null;
    });
    if (report !== null) return report;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

async function ready(all: readonly ServiceProcess[]): Promise<void> {
  const deadline = performance.now() + LIMIT_MS;
  for (const service of all)
    for (;;) {
      const answer = await fetch(`${service.url}/readyz`).catch(() => null);
      if (answer?.status === 200) break;
      const why = answer === null ? "no answer" : await answer.text();
      if (performance.now() > deadline) throw await service.failure(`is not ready: ${why}`);
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
}

/** Tried again while there is no primary yet; answers the transaction's state. */
async function commit(gateway: ServiceProcess, text: string, ack: "commit" | "durable"): Promise<string> {
  const deadline = performance.now() + LIMIT_MS;
  for (;;) {
    const response = await fetch(`${gateway.url}/v1/transactions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        id: uuidV7(),
        statements: [{ sql: text }],
        ack,
        level: "region",
        maxWaitMs: 30_000,
      }),
    });
    const body = (await response.json()) as {
      state?: string;
      code?: string;
      detail?: string;
      title?: string;
    };
    if (response.ok && body.state !== undefined) return body.state;
    assert.equal(response.status, 503, JSON.stringify(body));
    assert.ok(performance.now() < deadline, JSON.stringify(body));
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

function uuidV7(): string {
  const hex = Date.now().toString(16).padStart(12, "0");
  const random = crypto.randomUUID();
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7${random.slice(15)}`;
}
