// What the tests of interactive transactions, cancellation and exactly-once share: a cluster, gateways that run into no limit but
// the one under test, and the check that nothing is left behind.
import assert from "node:assert/strict";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { type Problem } from "@highwater/protocol";
import { Database, GATE_SQL } from "./database.ts";
import { type GatewayOptions, TestGateway } from "./gateway.ts";

const PATIENT = {
  GATEWAY_IDLE_TIMEOUT_MS: "120000",
  GATEWAY_TOTAL_TIMEOUT_MS: "240000",
  GATEWAY_LOCK_TIMEOUT_MS: "60000",
  GATEWAY_STATEMENT_TIMEOUT_MS: "60000",
};
const POOL_SIZE = 8;

export class Bench {
  readonly cluster: Cluster;
  readonly database: Database;
  readonly gateway: TestGateway;

  private constructor(cluster: Cluster, database: Database, gateway: TestGateway) {
    this.cluster = cluster;
    this.database = database;
    this.gateway = gateway;
  }

  /** The first node is the primary; there is a table `note`, and there are gates. */
  static async start(...nodes: readonly { readonly id: string; readonly region: string }[]): Promise<Bench> {
    const cluster = await startCluster({ nodes, roundTripMs: { "us-east/us-west": 2 } });
    const gateway = await startPatient(cluster);
    await gateway.run("CREATE TABLE note (id int, text text, CONSTRAINT note_key UNIQUE (id))", ...GATE_SQL);
    return new Bench(cluster, new Database(cluster, nodes[0]?.id ?? ""), gateway);
  }

  start(env: GatewayOptions["env"] = {}, options: GatewayOptions = {}): Promise<TestGateway> {
    return startPatient(this.cluster, env, options);
  }

  /** A gateway of another deployment on the same database. It is never ready; this one has found out why. */
  async stranger(env: GatewayOptions["env"] = {}): Promise<TestGateway> {
    const started = await TestGateway.start(this.cluster, {
      env: { ...PATIENT, ...env, HIGHWATER_DEPLOYMENT: "another" },
    });
    await eventually("it knows the primary, and that its keys differ", () =>
      Promise.resolve(started.logLines.some((line) => line.includes("deployment_keys_differ"))),
    );
    return started;
  }

  async close(): Promise<void> {
    await this.gateway.close();
    await this.cluster.close();
  }

  notes(id: number): Promise<number> {
    return this.database.count("note WHERE id = $1", [id]);
  }

  /** No transaction is open in the gateway, and none in its sessions. */
  async nothingOpen(on = this.gateway): Promise<void> {
    for (const gauge of ["open_transactions", "active_transactions"])
      await eventually(`no ${gauge}`, async () => (await on.metric(`highwater_gateway_${gauge}`)) === 0);
    await this.database.untilNone(openSessions(on));
  }

  /** As many transactions run at once as there are sessions, each of them waiting for all others. */
  async poolIsWhole(on = this.gateway): Promise<void> {
    const gate = await this.database.gate();
    const all = Array.from({ length: POOL_SIZE }, () => on.commit({ statements: [gate.inStatement] }));
    await eventually("all run at once", async () => (await this.database.count(gate.waiting)) === POOL_SIZE);
    await gate.open();
    for (const { status } of await Promise.all(all)) assert.equal(status, 200);
  }
}

async function startPatient(
  cluster: Cluster,
  env: GatewayOptions["env"] = {},
  options: GatewayOptions = {},
): Promise<TestGateway> {
  const started = await TestGateway.start(cluster, { ...options, env: { ...PATIENT, ...env } });
  await started.ready();
  return started;
}

export const PATIENT_ENV: Readonly<Record<string, string>> = PATIENT;

/** For `Database.count` and its like: sessions of this gateway that hold a transaction open. */
export function openSessions({ name }: Pick<TestGateway, "name">): string {
  return `pg_stat_activity WHERE application_name = 'highwater:${name}' AND state LIKE 'idle in transaction%'`;
}

export function note(id: number, text = "x"): string {
  return `INSERT INTO note VALUES (${String(id)}, '${text}')`;
}

/** What a client acts on. */
export function briefly({ code, status, retry, outcome, open }: Problem): unknown[] {
  return [code, status, retry, outcome, open];
}
