// What the fault tests share: a system of two regions whose announcements go through proxies, replicas that can be cut
// off without cutting the services, and what each tracker has reported by itself.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { type TokenVerdict, type TransactionResponse } from "@highwater/protocol";
import { System } from "@highwater/lab-system";
import { eventually, newId, verdicts } from "@highwater/lab-system/testing";
import { HoldingProxy } from "./holding-proxy.ts";

export const EAST = "us-east";
export const WEST = "us-west";
const LIMIT_MS = 60_000;

export { eventually, newId };

export interface Written {
  readonly id: string;
  readonly token: string;
}

export class FaultySystem implements AsyncDisposable {
  readonly system: System;
  /** By region of the tracker. */
  readonly proxies: ReadonlyMap<string, HoldingProxy>;
  #gatewayUrl: string;
  /** Of the key that its own transactions are sent with, where gateways want one. */
  #headers: Readonly<Record<string, string>> = {};
  #last: Written | null = null;

  private constructor(system: System, proxies: ReadonlyMap<string, HoldingProxy>) {
    this.system = system;
    this.proxies = proxies;
    this.#gatewayUrl = system.gateway(EAST).url;
  }

  static async start(env: Readonly<Record<string, string>> = {}): Promise<FaultySystem> {
    const proxies = new Map<string, HoldingProxy>();
    for (const region of [EAST, WEST]) proxies.set(region, await HoldingProxy.start());
    const system = await System.start({
      cluster: {
        nodes: [EAST, WEST].map((region) => ({ id: region, region })),
        roundTripMs: { [`${EAST}/${WEST}`]: 0 },
      },
      levels: { disk: { primary: true }, region: { replicas: 1, outside: "region" } },
      env: { GATEWAY_TRACKERS: [...proxies.values()].map(({ url }) => url).join(","), ...env },
    });
    for (const [region, proxy] of proxies) proxy.target = system.tracker(region).url;
    const faulty = new FaultySystem(system, proxies);
    if (env["GATEWAY_AUTH"] === "keys") faulty.#headers = await faulty.headersOf("main");
    await faulty.commit("CREATE TABLE kv (key text PRIMARY KEY)");
    return faulty;
  }

  proxy(region: string): HoldingProxy {
    const proxy = this.proxies.get(region);
    assert.ok(proxy !== undefined);
    return proxy;
  }

  useGateway(region: string): void {
    this.#gatewayUrl = this.system.gateway(region).url;
  }

  /** Those of a new key, which has an owner and a login role to itself. */
  async headersOf(key: string): Promise<Readonly<Record<string, string>>> {
    const text = await this.system.createKey({ name: key, scopes: ["read", "write"] });
    return { authorization: `Bearer ${text}` };
  }

  /** Sends it once, and answers whatever comes. */
  async send(id: string, sql: string, params: readonly string[] = []): Promise<TransactionResponse | null> {
    const answer = await fetch(`${this.#gatewayUrl}/v1/transactions`, {
      method: "POST",
      headers: { "content-type": "application/json", ...this.#headers },
      body: JSON.stringify({ id, statements: [{ sql, params }] }),
      signal: AbortSignal.timeout(LIMIT_MS),
    });
    const body = (await answer.json()) as TransactionResponse;
    if (answer.status === 503) return null;
    assert.equal(answer.status, 200, JSON.stringify(body));
    return body;
  }

  /** A fast transaction that has to commit. */
  async commit(sql: string, params: readonly string[] = [], id = newId()): Promise<Written> {
    const { token } = await eventually(
      "it commits",
      async () => (await this.send(id, sql, params)) ?? undefined,
    );
    return (this.#last = { id, token });
  }

  put(id = newId()): Promise<Written> {
    return this.commit("INSERT INTO kv VALUES ($1)", [id], id);
  }

  /** Resolves when nothing that is committed from now on gets there. The services still reach the node. */
  async starve(replica: string): Promise<void> {
    const { cluster } = this.system;
    // What came before, the table first of all, has to be on the replica, and each tracker has to know that: one that
    // learns of a transaction later than the other cannot learn it from a stream that has ended.
    assert.ok(this.#last !== null);
    for (const region of [EAST, WEST])
      for (const { verdict } of await this.verdicts(region, [this.#last])) assert.equal(verdict, "durable");
    await cluster.query(replica, "ALTER SYSTEM SET primary_conninfo TO ''");
    await cluster.query(replica, "SELECT pg_reload_conf()");
    await eventually("the stream has ended", async () => {
      const streams = await cluster.query(
        EAST,
        "SELECT FROM pg_stat_replication WHERE application_name = $1",
        [replica],
      );
      return streams.length === 0;
    });
  }

  /** Kills the tracker as if its host had lost power, and starts it again with what it has on disk. */
  async bounceTracker(
    region: string,
    whileDown: () => Promise<void> = () => Promise.resolve(),
  ): Promise<void> {
    await this.system.tracker(region).kill();
    await whileDown();
    await this.system.restartService(region, "tracker");
  }

  /** The primary's host is lost, with all that had not left it. */
  async failOver(): Promise<void> {
    await this.system.cluster.kill(EAST);
    await this.system.cluster.promote(WEST);
  }

  /** Ids that the tracker has reported as lost, by itself, in all its lives; once for each time that it did. */
  async reportedLost(region: string): Promise<string[]> {
    const log = await readFile(this.system.tracker(region).logFile, "utf8");
    return log
      .split("\n")
      .filter((line) => line.includes('"transaction_lost"') || line.includes('"transaction_broken"'))
      .map((line) => (JSON.parse(line) as { id: string }).id);
  }

  /** Resolves when the tracker has reported each of them as lost without being asked. */
  async untilReported(region: string, ids: readonly string[]): Promise<void> {
    await eventually(`the tracker of ${region} tells of all ${String(ids.length)}`, async () => {
      const reported = new Set(await this.reportedLost(region));
      const missing = ids.filter((id) => !reported.has(id));
      if (missing.length > 0)
        throw new Error(`${String(missing.length)} are missing, ${missing[0] ?? ""} is one`);
      return true;
    });
  }

  async verdicts(region: string, written: readonly Written[], level = "region"): Promise<TokenVerdict[]> {
    const tokens = written.map(({ token }) => token);
    return verdicts(this.system.tracker(region).url, tokens, { level });
  }

  /** Attempts in the tracker's ledger. */
  async held(region: string): Promise<number> {
    const text = await (await fetch(`${this.system.tracker(region).url}/metrics`)).text();
    return Number(/^highwater_ledger_entries (\d+)$/m.exec(text)?.[1]);
  }

  async keysOn(node: string): Promise<Set<string>> {
    return new Set(
      (await this.system.cluster.query(node, "SELECT key FROM kv")).map((row) => String(row.key)),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.system.close();
    for (const proxy of this.proxies.values()) await proxy[Symbol.asyncDispose]();
  }
}

export const isIntentOf =
  (id: string) =>
  (announcement: { kind: string; id: string }): boolean =>
    announcement.kind === "intent" && announcement.id === id;

export const isPositionOf =
  (id: string) =>
  (announcement: { kind: string; id: string }): boolean =>
    announcement.kind === "position" && announcement.id === id;
