// Goal: `highwater doctor` finds what endangers promises on real servers, names the line to change,
// and says nothing of it once the line is changed. Method: a cluster in three regions, prepared by
// `highwater roles`; each row of the table breaks one thing, and the line that the doctor prints
// mends it.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { eventually, TemporaryFolder } from "@highwater/lab-tools/process";
import { DEFAULT_LEVELS, type NodeSpec } from "@highwater/protocol";
import { type Finding } from "../src/doctor/facts.ts";
import { highwater } from "./support.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
/** Of the lab's servers: everything else is as a deployment should have it. */
const HEALTHY = { hot_standby_feedback: "on", wal_log_hints: "on" };

interface Report {
  readonly exitCode: number;
  readonly nodes: readonly { readonly id: string; readonly role: string | null }[];
  readonly findings: readonly Finding[];
}

interface Fault {
  readonly name: string;
  readonly on: string;
  readonly breaks: readonly string[];
  /** The setting takes effect at a restart. */
  readonly restarts?: true;
  readonly finds: Pick<Finding, "check" | "severity"> & {
    readonly node: string | null;
    readonly says: RegExp;
  };
  /** Null: what the finding says to change mends it. */
  readonly mends: readonly string[] | null;
}

const set = (setting: string): string[] => [`ALTER SYSTEM SET ${setting}`, "SELECT pg_reload_conf()"];

const FAULTS: readonly Fault[] = [
  {
    name: "full_page_writes = off",
    on: WEST,
    breaks: set("full_page_writes = off"),
    finds: { check: "full_page_writes", severity: "danger", node: WEST, says: /tear a page/ },
    mends: null,
  },
  {
    name: "fsync = off on a replica: its region's levels are not reached",
    on: WEST,
    breaks: set("fsync = off"),
    finds: { check: "fsync", severity: "danger", node: WEST, says: /fsync is off/ },
    mends: null,
  },
  {
    name: "a recovery target",
    on: EUROPE,
    breaks: ["ALTER SYSTEM SET recovery_target_time = '2099-01-01'"],
    restarts: true,
    finds: { check: "fsync", severity: "danger", node: EUROPE, says: /recovery target/ },
    mends: ["ALTER SYSTEM RESET recovery_target_time"],
  },
  {
    name: "a replica that does not report",
    on: EUROPE,
    breaks: set("wal_receiver_status_interval = 0"),
    finds: {
      check: "wal_receiver_status_interval",
      severity: "danger",
      node: EUROPE,
      says: /does not report/,
    },
    mends: null,
  },
  {
    name: "too few senders of the log",
    on: EAST,
    breaks: ["ALTER SYSTEM SET max_wal_senders = 1"],
    restarts: true,
    finds: { check: "max_wal_senders", severity: "danger", node: EAST, says: /has to feed 2 replicas/ },
    mends: null,
  },
  {
    name: "too few connections",
    on: EAST,
    breaks: ["ALTER SYSTEM SET max_connections = 60"],
    restarts: true,
    finds: {
      check: "max_connections",
      severity: "warning",
      node: EAST,
      says: /3 gateways and 3 trackers may open/,
    },
    mends: null,
  },
  {
    name: "a delayed replica",
    on: EUROPE,
    breaks: set("recovery_min_apply_delay = '5min'"),
    finds: { check: "recovery_min_apply_delay", severity: "warning", node: EUROPE, says: /300000 ms/ },
    mends: null,
  },
  {
    name: "streams that never look dead",
    on: EAST,
    breaks: set("wal_sender_timeout = 0"),
    finds: { check: "wal_sender_timeout", severity: "warning", node: EAST, says: /looks open for ever/ },
    mends: null,
  },
  {
    name: "synchronous standbys beside Highwater",
    on: EAST,
    breaks: set(`synchronous_standby_names = '"us-west"'`),
    finds: {
      check: "synchronous_standby_names",
      severity: "note",
      node: EAST,
      says: /wait for these standbys/,
    },
    mends: null,
  },
  {
    name: "no log is kept for a replica",
    on: EAST,
    breaks: set("wal_keep_size = 0"),
    finds: { check: "wal_keep_size", severity: "warning", node: EAST, says: /cloned again/ },
    mends: null,
  },
  {
    name: "a slot that no replica uses",
    on: EAST,
    breaks: ["SELECT pg_create_physical_replication_slot('left_over', true)"],
    finds: { check: "slot", severity: "warning", node: EAST, says: /no replica uses the slot left_over/ },
    mends: null,
  },
  {
    name: "the services' role cannot see positions",
    on: EAST,
    breaks: ["REVOKE pg_monitor FROM highwater_service"],
    finds: { check: "role", severity: "danger", node: EAST, says: /lacks pg_monitor/ },
    mends: null,
  },
  {
    name: "the services' role cannot end sessions",
    on: EAST,
    breaks: ["REVOKE pg_signal_backend FROM highwater_service"],
    finds: { check: "role", severity: "warning", node: WEST, says: /lacks pg_signal_backend/ },
    mends: null,
  },
  {
    name: "the services' role may not create schemas",
    on: EAST,
    breaks: ["REVOKE CREATE ON DATABASE app FROM highwater_service"],
    finds: { check: "role", severity: "danger", node: EAST, says: /may not create schemas in app/ },
    mends: null,
  },
  {
    name: "the services log in as a superuser",
    on: EAST,
    breaks: ["ALTER ROLE highwater_service SUPERUSER"],
    finds: { check: "role", severity: "warning", node: EAST, says: /a superuser/ },
    mends: ["ALTER ROLE highwater_service NOSUPERUSER"],
  },
  {
    name: "the applications' role can write no receipt",
    on: EAST,
    breaks: ["REVOKE highwater_app FROM app"],
    finds: { check: "app_role", severity: "danger", node: EAST, says: /not in highwater_app/ },
    mends: null,
  },
  {
    name: "the applications' role is a superuser",
    on: EAST,
    breaks: ["ALTER ROLE app SUPERUSER"],
    finds: { check: "app_role", severity: "danger", node: EUROPE, says: /can change receipts/ },
    mends: null,
  },
  {
    name: "the applications' role cannot log in",
    on: EAST,
    breaks: ["ALTER ROLE app NOLOGIN"],
    finds: {
      check: "app_role",
      severity: "danger",
      node: WEST,
      says: /cannot log in: .*not permitted to log in/,
    },
    mends: ["ALTER ROLE app LOGIN"],
  },
];

describe("highwater doctor", () => {
  let cluster: Cluster;
  let folder: TemporaryFolder;
  let nodes: NodeSpec[];
  let file: string;

  before(async () => {
    folder = await TemporaryFolder.make("highwater-doctor-");
    cluster = await startCluster({ settings: HEALTHY });
    const { out } = await highwater(["roles", "--database", "app", "--app-role", "app"]);
    for (let times = 0; times < 2; times++) await cluster.query(EAST, out);
    nodes = await Promise.all(
      cluster.nodes.map(async ({ id, region, zone }) => ({
        ...{ id, region, zone },
        url: await cluster.connectionString(id, { user: "highwater_service" }),
        appUrl: await cluster.connectionString(id, { user: "app" }),
      })),
    );
    file = write("topology.json", nodes);
    await found("a healthy deployment", ({ exitCode, findings }) => exitCode === 0 && findings.length === 1);
  });

  after(async () => {
    await cluster.close();
    await folder.remove();
  });

  const write = (name: string, specs: readonly object[], levels: object = DEFAULT_LEVELS): string => {
    const path = join(folder.path, name);
    writeFileSync(path, JSON.stringify({ nodes: specs, levels }));
    return path;
  };
  const examine = async (path = file, env: Record<string, string> = {}): Promise<Report> => {
    const { code, out, err } = await highwater(["doctor", path, "--json"], { env });
    const report = JSON.parse(out === "" ? "{}" : out) as Report;
    assert.equal(report.exitCode, code, err);
    return report;
  };
  /** Roles and streams come to replicas a moment later. */
  async function found(what: string, isSo: (report: Report) => boolean, path?: string): Promise<Report> {
    let last: Report | undefined;
    return eventually(
      () => `${what}: ${JSON.stringify(last?.findings, null, 2)}`,
      async () => {
        last = await examine(path);
        return isSo(last) ? last : undefined;
      },
    );
  }

  test("a healthy deployment: only that no service has started yet", async () => {
    const { out, code } = await highwater(["doctor"], { env: { HIGHWATER_TOPOLOGY: `@${file}` } });
    assert.equal(code, 0);
    assert.match(out, /^us-east {2}us-east\/us-east-a {2}primary, PostgreSQL \d+/m);
    assert.match(out, /note +us-east: there are no tables of Highwater yet/);
    assert.match(out, /nothing endangers promises: 0 danger, 0 warning, 1 note/);
  });

  for (const { name, on, breaks, restarts, finds, mends } of FAULTS)
    test(name, async () => {
      const isIt = ({ check, severity, node, says }: Finding): boolean =>
        check === finds.check && severity === finds.severity && node === finds.node && finds.says.test(says);
      for (const sql of breaks) await cluster.query(on, sql);
      if (restarts) await cluster.restart(on);
      const { exitCode, findings } = await found("the fault", (report) => report.findings.some(isIt));
      assert.equal(exitCode, findings.some(({ severity }) => severity === "danger") ? 1 : 0);
      const change = findings.find(isIt)?.change ?? "";
      for (const sql of mends ?? linesOf(change)) await cluster.query(on, sql);
      if (restarts) await cluster.restart(on);
      else await cluster.query(on, "SELECT pg_reload_conf()");
      await found("no fault", (report) => report.exitCode === 0 && !report.findings.some(isIt));
    });

  test("a stream under another name: which line gives it the right one, or what the topology would say", async () => {
    const [row] = await cluster.query(WEST, "SELECT current_setting('primary_conninfo') AS conninfo");
    const renamedStream = String(row?.["conninfo"]).replace(
      "application_name=us-west",
      "application_name=eu-west",
    );
    await cluster.query(WEST, `ALTER SYSTEM SET primary_conninfo = '${renamedStream}'`);
    await cluster.query(WEST, "SELECT pg_reload_conf()");
    // The other replica may show it first.
    const shared = await found("two streams under one name", ({ findings }) =>
      [WEST, EUROPE].every((id) =>
        findings.some(({ node, says }) => node === id && /2 streams are called eu-west/.test(says)),
      ),
    );
    assert.equal(shared.exitCode, 1);
    assert.ok(
      shared.findings.some(
        ({ check, says }) => check === "level" && /level region is not reached now/.test(says),
      ),
      "neither replica counts",
    );
    const { change = "" } =
      shared.findings.find(({ node, check }) => node === WEST && check === "application_name") ?? {};
    for (const sql of linesOf(change ?? "")) await cluster.query(WEST, sql);
    await found("streams under their own names", ({ exitCode }) => exitCode === 0);

    const renamed = nodes.map((node) => (node.id === WEST ? { ...node, id: "oregon" } : node));
    const other = write("renamed.json", renamed);
    const { findings, exitCode } = await examine(other);
    assert.equal(exitCode, 1);
    const finding = findings.find(({ node }) => node === "oregon");
    assert.equal(finding?.check, "application_name");
    assert.match(
      finding.says,
      /its stream is called us-west, and the topology knows it by application_name oregon/,
    );
    assert.match(finding.change ?? "", /"replication": \{ "applicationName": "us-west" \}/);
    const recognised = renamed.map((node) =>
      node.id === "oregon" ? { ...node, replication: { applicationName: "us-west" } } : node,
    );
    assert.equal((await examine(write("recognised.json", recognised))).exitCode, 0);
  });

  test("a replica that the topology lacks is a stranger, and a level without its lease is wrong", async () => {
    const path = write("two.json", nodes.slice(0, 2), { disk: { primary: true }, ha: { synchronous: 1 } });
    const { findings, exitCode } = await examine(path);
    assert.equal(exitCode, 1);
    assert.ok(findings.some(({ check, says }) => check === "stranger" && says.includes("eu-west")));
    assert.ok(
      findings.some(({ check, says }) => check === "authority" && says.includes("HIGHWATER_AUTHORITY=lease")),
    );
  });

  test("arguments and files that are wrong", async () => {
    for (const [args, says] of [
      [[], /name the topology file, or set HIGHWATER_TOPOLOGY/],
      [[join(folder.path, "none.json")], /none\.json cannot be read: ENOENT/],
      [[file, "--gateways", "few"], /--gateways must be a whole number/],
      [[write("faulty.json", [])], /nodes/],
    ] as const) {
      const { code, err } = await highwater(["doctor", ...args]);
      assert.equal(code, 2);
      assert.match(err, says);
    }
  });

  test("a node that is down cannot be checked: exit code 2, with the levels that it takes along", async () => {
    await cluster.stop(EUROPE);
    const { exitCode, findings } = await found("the node is silent", ({ exitCode: code }) => code === 2);
    assert.equal(exitCode, 2);
    assert.ok(findings.some(({ check, node }) => check === "reachable" && node === EUROPE));
    assert.ok(
      findings.some(({ says }) => /level global is not reached now: no node counts in eu-west/.test(says)),
    );
    await cluster.start(EUROPE);
    await found("the node is back", ({ exitCode: code }) => code === 0);
  });

  test("two writable nodes", async () => {
    await cluster.promote(WEST, { repoint: false });
    const { exitCode, findings } = await examine();
    assert.equal(exitCode, 1);
    const primary = findings.find(({ check }) => check === "primary");
    assert.match(primary?.says ?? "", /us-east and us-west are all writable/);
    assert.match(primary?.change ?? "", /highwater failover candidate/);
  });
});

/** The statements of a line that a finding prints, without its comments. */
function linesOf(change: string): string[] {
  return change
    .replace(/ ?-- .*$/, "")
    .split(/;(?= |$)/)
    .map((sql) => sql.trim())
    .filter((sql) => sql !== "");
}
