// What can befall the programs of the guide, in the order in which it does. The last three are one story: a replica falls behind,
// then all of them, and then the region of the primary is lost and the one that fell behind first is promoted. Transactions that
// were durable in all regions are kept, those that were durable in the other region are broken, and the last commits are lost.
import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { Highwater, sql } from "@highwater/sdk";
import { type Site } from "@highwater/conformance/site";
import { type Fault } from "./stage.ts";

const LIMIT_MS = 60_000;
const POLL_MS = 20;

export class Faults implements AsyncDisposable {
  readonly #site: Site;
  #isBehind = false;
  #isRejoined: Promise<void> = Promise.resolve();

  constructor(site: Site) {
    this.#site = site;
  }

  get all(): readonly Fault[] {
    const site = this.#site;
    const [left, behind] = ["replica 1", "replica 2"].map((name) => site.region(name));
    assert.ok(left !== undefined && behind !== undefined);
    const each = (run: (region: string) => void) => async (): Promise<void> => {
      for (const region of site.regions) run(region);
    };
    return [
      // No gateway answers, and none refuses.
      {
        name: "silence",
        happen: each((region) => {
          site.pauseService(region, "gateway");
        }),
      },
      {
        name: "speech",
        happen: each((region) => {
          site.continueService(region, "gateway");
        }),
      },
      {
        name: "lag",
        happen: async () => {
          await this.#allIsDurable("global");
          await this.#stopSending(behind);
          this.#isBehind = true;
        },
      },
      {
        name: "hold",
        happen: async () => {
          // No page may have needed the fault before.
          await this.#allIsDurable(this.#isBehind ? "region" : "global");
          for (const region of [left, behind]) await this.#stopSending(region);
        },
      },
      {
        name: "failover",
        happen: async () => {
          await this.#trackersHaveReported();
          await site.failover({ to: behind, alone: true });
          this.#isRejoined = site.system.cluster.rejoin(left);
        },
      },
    ];
  }

  /**
   * The replica of a region gets no more of the log. Everything else goes on between the regions: gateways announce what they
   * commit to the trackers of all of them, which can report it when the region is lost.
   */
  async #stopSending(region: string): Promise<void> {
    // It would give the silent sender up after 5 s, and be served by another.
    for (const statement of ["ALTER SYSTEM SET wal_receiver_timeout = 0", "SELECT pg_reload_conf()"])
      await this.#site.query(statement, region);
    const sender = `SELECT pid FROM pg_stat_replication WHERE application_name = '${region}'`;
    const pids = await this.#site.query(sender);
    assert.ok(pids.length > 0, `${region} has a replica`);
    for (const { pid } of pids) process.kill(Number(pid), "SIGSTOP");
  }

  /** Every tracker has on disk what was committed so far: it may be one of those that remain to report the loss. */
  async #trackersHaveReported(): Promise<void> {
    const { endpoints } = await this.#site.describe();
    for (const { gateway } of endpoints)
      for (;;) {
        const metrics = await (await fetch(`${gateway}/metrics`)).text();
        const lengths = [...metrics.matchAll(/^highwater_gateway_announcement_queue_length\{.*\} (\d+)$/gm)];
        assert.equal(lengths.length, endpoints.length, "a queue for each tracker");
        if (lengths.every(([, length]) => length === "0")) break;
        await pause(POLL_MS);
      }
  }

  /** All that was committed so far is durable at the level, and every tracker knows that: it may be the only one that can report it. */
  async #allIsDurable(level: string): Promise<void> {
    const { endpoints } = await this.#site.describe();
    await using hw = new Highwater({ endpoints });
    const last = await hw.transaction(sql`SELECT 1`);
    for (const endpoint of endpoints) {
      await using near = new Highwater({ endpoints: [endpoint] });
      const [judged] = await near.verdicts([last.token], { level, waitMs: LIMIT_MS });
      assert.equal(judged?.verdict, "durable", `${endpoint.region} knows what is durable at ${level}`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#isRejoined;
  }
}
