// A real system with a slow link between its two regions, so that a test sees which answers wait
// for the other region. Cutting the link makes that certain.
import { System } from "@highwater/lab-system";
import { eventually } from "@highwater/lab-tools/process";
import { WireClient, type WireOptions } from "./client.ts";

export const HOME = "us-east";
export const AWAY = "us-west";

export class WireSystem implements AsyncDisposable {
  readonly system: System;
  readonly url: string;

  private constructor(system: System) {
    this.system = system;
    this.url = system.pgUrl(HOME);
  }

  static async start(env: Readonly<Record<string, string>> = {}): Promise<WireSystem> {
    const nodes = [HOME, AWAY].map((region) => ({ id: region, region }));
    const roundTripMs = { [`${HOME}/${AWAY}`]: 20 };
    const made = new WireSystem(
      await System.start({
        cluster: { nodes, roundTripMs, settings: { max_prepared_transactions: "10" } },
        env,
      }),
    );
    const client = await made.open();
    await client.query("CREATE TABLE kv (key text PRIMARY KEY, value int)");
    client.end();
    return made;
  }

  open(options: WireOptions = {}): Promise<WireClient> {
    return WireClient.open(this.url, options);
  }

  /** Connects to the database without the gateway. */
  async direct(): Promise<WireClient> {
    return WireClient.open(await this.system.cluster.connectionString(HOME, { user: "app" }));
  }

  /** The version of the servers. */
  async major(): Promise<number> {
    const sql = "SELECT current_setting('server_version_num')::int / 10000 AS major";
    return Number((await this.system.cluster.query(HOME, sql))[0]?.["major"]);
  }

  /**
   * Keeps everything committed from now on from becoming durable in the other region, until the
   * link is healed. Resolves when everything before is durable there.
   */
  async cut(): Promise<void> {
    const client = await this.open();
    await client.query("SELECT 1");
    await client.query("INSERT INTO kv VALUES (gen_random_uuid()::text, 0)");
    client.end();
    await this.#quiet();
    await this.system.cluster.link(HOME, AWAY).cut();
  }

  /** Waits for the writes of the services, too. */
  async #quiet(): Promise<void> {
    await eventually("the replica has everything", async () => {
      const [row] = await this.system.cluster.query(
        HOME,
        "SELECT bool_and(flush_lsn >= pg_current_wal_flush_lsn()) AS has_all FROM pg_stat_replication",
      );
      return row?.["has_all"] === true;
    });
  }

  /** Resolves when so many sessions hold an answer back. */
  holding(count: number): Promise<true> {
    return this.#until("wire_holds", count);
  }

  /** Resolves when no session is left: the gateway may still count one that its client has just ended. */
  empty(): Promise<true> {
    return this.#until("wire_sessions", 0);
  }

  #until(gauge: string, value: number): Promise<true> {
    const sample = new RegExp(`^highwater_gateway_${gauge} ${String(value)}$`, "m");
    return eventually(`${gauge} is ${String(value)}`, async () =>
      sample.test(await (await fetch(`${this.system.gateway(HOME).url}/metrics`)).text()),
    );
  }

  async heal(): Promise<void> {
    await this.system.cluster.link(HOME, AWAY).heal();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.system.close();
  }
}
