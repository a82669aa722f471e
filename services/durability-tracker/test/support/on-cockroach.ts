// Gateways and trackers on CockroachDB's adapter, which no configuration chooses: everything else is
// what they are made of. Keys, events, webhooks and contents have no tables there, and do without.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CockroachPair } from "@highwater/lab-cluster/cockroach";
import { DEFAULT_LEVELS } from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import { jsonLog, type Log } from "@highwater/service";
import { TEST_DEPLOYMENT } from "@highwater/service/testing";
import { POSTGRES_DEFAULTS } from "@highwater/store";
import { CockroachStore } from "@highwater/store/internals";
import * as gateways from "@highwater/txn-gateway";
import { buildTracker, loadConfig, makeDeps, type Tracker } from "../../src/app.ts";

const PATIENT = { connectTimeoutMs: 5_000, callTimeoutMs: 5_000, retentionMs: 3_600_000 };
const HOST = "127.0.0.1";

/** One gateway and one tracker in the region of every node. */
export class SystemOnCockroach {
  readonly pair: CockroachPair;
  readonly #folder: string;
  readonly #trackers = new Map<string, { tracker: Tracker; port: number }>();
  readonly #gateways = new Map<string, { close: () => Promise<void>; url: string }>();

  private constructor(pair: CockroachPair, folder: string) {
    this.pair = pair;
    this.#folder = folder;
  }

  static async start(pair: CockroachPair): Promise<SystemOnCockroach> {
    const system = new SystemOnCockroach(pair, await mkdtemp(join(tmpdir(), "highwater-cockroach-")));
    for (const { id } of pair.nodes) await system.startTracker(id);
    for (const { id } of pair.nodes) await system.#startGateway(id);
    return system;
  }

  tracker(node: string): string {
    return `http://${HOST}:${String(this.#trackers.get(node)?.port)}`;
  }

  gateway(node: string): string {
    return this.#gateways.get(node)?.url ?? "";
  }

  #env(): Record<string, string> {
    const topology = { nodes: this.pair.nodes, levels: DEFAULT_LEVELS };
    return { ...TEST_DEPLOYMENT, HIGHWATER_TOPOLOGY: JSON.stringify(topology) };
  }

  #store(helper: string): CockroachStore {
    const { nodes } = this.pair;
    const settings = { ...POSTGRES_DEFAULTS, ...PATIENT, askStandbysEveryMs: 50 };
    return new CockroachStore({ ...settings, nodes, clock: realClock, helper });
  }

  /** With the ledger that it had before, if it ran before. */
  async startTracker(node: string): Promise<void> {
    const env = {
      ...this.#env(),
      TRACKER_NAME: node,
      TRACKER_REGION: node,
      TRACKER_LEDGER: join(this.#folder, `${node}.sqlite`),
    };
    const loaded = loadConfig(env, () => "");
    assert.ok(loaded.ok, loaded.ok ? "" : loaded.faults.join("\n"));
    const log = logOf("durability-tracker");
    const onFailure = (_: string, cause: Error): never => {
      throw cause;
    };
    const deps = makeDeps(loaded.config, log, { onFailure });
    const tracker = buildTracker(loaded.config, { ...deps, store: this.#store(`tracker:${node}`) });
    const url = await tracker.app.listen({ port: this.#trackers.get(node)?.port ?? 0, host: HOST });
    this.#trackers.set(node, { tracker, port: Number(new URL(url).port) });
    await tracker.start();
  }

  async stopTracker(node: string): Promise<void> {
    await this.#trackers.get(node)?.tracker.close();
  }

  async #startGateway(node: string): Promise<void> {
    const others = this.pair.nodes.filter(({ id }) => id !== node);
    const env = {
      ...this.#env(),
      GATEWAY_NAME: node,
      GATEWAY_REGION: node,
      GATEWAY_TRACKERS: [node, ...others.map(({ id }) => id)].map((id) => this.tracker(id)).join(","),
    };
    const loaded = gateways.loadConfig(env, () => "");
    assert.ok(loaded.ok, loaded.ok ? "" : loaded.faults.join("\n"));
    const deps = gateways.makeDeps(loaded.config, { log: logOf("txn-gateway") });
    const app = gateways.buildApp(loaded.config, { ...deps, store: this.#store(node) });
    const url = await app.listen({ port: 0, host: HOST });
    this.#gateways.set(node, { url, close: () => app.close() });
  }

  async close(): Promise<void> {
    await Promise.all([...this.#gateways.values()].map(({ close }) => close()));
    await Promise.all([...this.#trackers.keys()].map((node) => this.stopTracker(node)));
    await rm(this.#folder, { recursive: true });
    await this.pair.close();
  }
}

function logOf(service: string): Log {
  return jsonLog(service, realClock, (line) => {
    if (process.env["SERVICE_LOG"] !== undefined) process.stderr.write(line);
  });
}
