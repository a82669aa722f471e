// The system of a soak: the whole product in three regions, with retentions so short that
// everything expires within the run, and with a receiver of webhooks.
import { copyFile, mkdir } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Cluster } from "@highwater/lab-cluster";
import { type ServiceProcess, System } from "@highwater/lab-system";
import { SETUP, TOTAL, WATCHED } from "./table.ts";

export interface SoakOptions {
  /** For receipts, events and deliveries. Default: the services' own. */
  readonly retentionMs?: number;
  readonly env?: Readonly<Record<string, string>>;
}

const LOOPBACK = "127.0.0.1";
const SUBSCRIBE_LIMIT_MS = 30_000;
const HEAP_PROBE = new URL("./heap-probe.ts", import.meta.url).href;
/** Space of expired rows is reused only after a vacuum. */
const SETTINGS = { autovacuum_naptime: "2s" };
export class SoakSystem implements AsyncDisposable {
  readonly system: System;
  readonly heapDir: string;
  readonly #dir: string;
  readonly #receiver: Server;
  #delivered = 0;

  private constructor(
    system: System,
    receiver: Server,
    dirs: { readonly own: string; readonly heap: string },
  ) {
    this.system = system;
    this.heapDir = dirs.heap;
    this.#dir = dirs.own;
    this.#receiver = receiver;
    receiver.on("request", () => this.#delivered++);
  }

  /** The folder gets heap measurements during the run, and the services' logs at the end. */
  static async start(dir: string, options: SoakOptions = {}): Promise<SoakSystem> {
    const heapDir = join(dir, "heap");
    await mkdir(heapDir, { recursive: true });
    const receiver = await startReceiver();
    const env = {
      NODE_OPTIONS: `--import=${HEAP_PROBE} --disable-warning=ExperimentalWarning`,
      SOAK_HEAP_DIR: heapDir,
      TRACKER_WEBHOOK_ALLOW: LOOPBACK,
      TRACKER_WEBHOOK_DELAYS_MS: "1000,1000,1000,5000",
      ...retentionEnv(options.retentionMs),
      ...options.env,
    };
    const system = await System.start({ cluster: { settings: SETTINGS }, env });
    const soak = new SoakSystem(system, receiver, { own: dir, heap: heapDir });
    try {
      for (const statement of SETUP) await system.cluster.query(soak.home, statement);
      return soak;
    } catch (cause) {
      await soak.close();
      throw cause;
    }
  }

  get cluster(): Cluster {
    return this.system.cluster;
  }

  /** The first primary; its region has the same name. */
  get home(): string {
    return this.system.regions[0] ?? "";
  }

  /** Received webhooks, repetitions included. */
  get delivered(): number {
    return this.#delivered;
  }

  services(): ServiceProcess[] {
    return this.system.regions.flatMap((region) => [
      this.system.gateway(region),
      this.system.tracker(region),
    ]);
  }

  ledgerFile(region: string): string {
    return join(this.cluster.dir, "services", `ledger-${region}.sqlite`);
  }

  async subscribe(): Promise<void> {
    const { port } = this.#receiver.address() as AddressInfo;
    const body = JSON.stringify({
      url: `http://${LOOPBACK}:${String(port)}/`,
      events: ["transaction.durable", "transaction.lost", "promise.broken", "epoch.started"],
      filter: WATCHED,
    });
    const headers = { "content-type": "application/json" };
    const deadlineMs = performance.now() + SUBSCRIBE_LIMIT_MS;
    for (;;) {
      const url = `${this.system.tracker(this.home).url}/v1/webhooks`;
      const answer = await fetch(url, { method: "POST", headers, body });
      if (answer.status === 201) return;
      const why = `no webhook: ${String(answer.status)} ${await answer.text()}`;
      // While the machine is still starting everything, a slow store may make the service ask to
      // wait.
      if (answer.status !== 503 || performance.now() > deadlineMs) throw new Error(why);
      await sleep(Number(answer.headers.get("retry-after") ?? "1") * 1_000);
    }
  }

  /** How many transactions have added one, including those without an answer. */
  async total(node: string): Promise<number> {
    const [row] = await this.cluster.query(node, TOTAL);
    return Number(row?.["total"]);
  }

  async close(): Promise<void> {
    for (const { name, logFile } of this.services())
      await copyFile(logFile, join(this.#dir, `${name}.log`)).catch(() => undefined);
    await this.system.close();
    this.#receiver.closeAllConnections();
    await new Promise((resolve) => this.#receiver.close(resolve));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/**
 * Sets every retention to this time, and runs the jobs that remove older data six times as often.
 */
function retentionEnv(retentionMs: number | undefined): Record<string, string> {
  if (retentionMs === undefined) return {};
  return {
    HIGHWATER_RETENTION_MS: String(retentionMs),
    TRACKER_EVENTS_KEEP_MS: String(retentionMs),
    TRACKER_WEBHOOK_KEEP_MS: String(retentionMs),
    TRACKER_KEEP_DURABLE_MS: String(retentionMs),
    TRACKER_INTENT_PATIENCE_MS: String(Math.max(5_000, Math.floor(retentionMs / 3))),
    TRACKER_MAINTAIN_MS: String(Math.max(500, Math.floor(retentionMs / 6))),
    // A partition covers a quarter of the retention. It is dropped when transactions that were open
    // in it have ended.
    GATEWAY_IDLE_TIMEOUT_MS: String(Math.floor(retentionMs / 30)),
  };
}

async function startReceiver(): Promise<Server> {
  const server = createServer((request, response) => {
    request.resume();
    request.on("end", () => {
      response.writeHead(204).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, LOOPBACK, resolve));
  server.unref();
  return server;
}
