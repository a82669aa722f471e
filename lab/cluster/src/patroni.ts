// A real Patroni cluster on loopback, for tests with a real HA manager: it starts, monitors and
// promotes the servers, and holds the leader key in etcd. Needs a full PostgreSQL installation; the
// embedded one lacks pg_basebackup.

import { chmod, chown, mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { TemporaryFolder } from "@highwater/lab-tools/process";
import { DevClusterError } from "./errors.ts";
import type { Etcd } from "./etcd.ts";
import { Network } from "./network.ts";
import { PatroniMember } from "./patroni-member.ts";
import { dynamicConfiguration, PATRONI_SETTINGS, type PatroniSettings } from "./patroni-settings.ts";
import { findTools, type Tools } from "./patroni-tools.ts";
import { chooseFreePort } from "./ports.ts";
import { signal } from "./processes.ts";
import { querySql } from "./sql.ts";
import type { CutOptions, Row } from "./types.ts";
import { makeClusterDir } from "./unprivileged.ts";

const startLimitMs = 120_000;
const queryLimitMs = 10_000;
const restLimitMs = 30_000;
const pollMs = 100;
/** Locations for links: the other members, as a member sees them, and etcd. */
const others = "others";
const store = "etcd";

export interface PatroniOptions {
  readonly etcd: Etcd;
  readonly scope: string;
  readonly members: readonly string[];
  /** Default: recommended. */
  readonly settings?: PatroniSettings;
  /** `synchronous_node_count`. Default 1. */
  readonly synchronousNodes?: number;
}

export class PatroniCluster implements AsyncDisposable {
  readonly dir: string;
  readonly #folder: TemporaryFolder;
  readonly #options: PatroniOptions;
  readonly #tools: Tools;
  readonly #members = new Map<string, PatroniMember>();
  /** Members reach etcd and each other through relays, which add no delay and can be cut. */
  readonly #network = new Network(undefined);

  private constructor(options: PatroniOptions, tools: Tools, dir: string) {
    this.#options = options;
    this.#tools = tools;
    this.dir = dir;
    this.#folder = TemporaryFolder.of(dir);
  }

  /** `ID/patroni.log` and `ID/server.log`. */
  get logs(): string {
    return path.join(this.dir, "logs");
  }

  /** The reason why this machine cannot run it; undefined when it can. */
  static async missing(): Promise<string | undefined> {
    const tools = await findTools();
    return typeof tools === "string" ? tools : undefined;
  }

  /** Resolves when the leader has a confirmed synchronous standby and all other members stream. */
  static async start(options: PatroniOptions): Promise<PatroniCluster> {
    const tools = await findTools();
    if (typeof tools === "string") throw new DevClusterError("START_FAILED", tools);
    const cluster = new PatroniCluster(options, tools, await makeClusterDir(tools.identity));
    try {
      const taken = new Set<number>();
      for (const id of options.members) await cluster.#plan(id, taken);
      await cluster.#create();
      return cluster;
    } catch (error) {
      await cluster.close();
      throw error;
    }
  }

  async #plan(id: string, taken: Set<number>): Promise<void> {
    const [port, restPort] = [await chooseFreePort(taken), await chooseFreePort(taken)];
    taken.add(port).add(restPort);
    const dir = path.join(this.dir, id);
    const member = new PatroniMember({ id, port, restPort, dir }, this.#tools);
    for (const folder of [dir, this.logs, member.logDir])
      await mkdir(folder, { recursive: true, mode: 0o755 });
    // Every JSON text is also YAML.
    await writeFile(member.configFile, JSON.stringify(await this.#configure(member)));
    const { identity } = this.#tools;
    for (const each of [dir, member.logDir, member.configFile])
      if (identity !== undefined) await chown(each, identity.uid, identity.gid);
    await chmod(member.configFile, 0o600);
    this.#members.set(id, member);
  }

  async #configure({ id, port, restPort, dir, logDir }: PatroniMember): Promise<unknown> {
    const { etcd, scope, settings = "recommended", synchronousNodes = 1 } = this.#options;
    const login = { username: "postgres" };
    const relay = async (from: string, to: string, target: number): Promise<string> => {
      const opened = await this.#network.openRelay({ from, to, port: target });
      return `127.0.0.1:${opened.port}`;
    };
    const dcs = dynamicConfiguration(settings, synchronousNodes);
    return {
      scope,
      name: id,
      restapi: { listen: `127.0.0.1:${restPort}`, connect_address: await relay(others, id, restPort) },
      // As a proxy, because Patroni would otherwise ask etcd for addresses and bypass the relay.
      etcd3: { hosts: [await relay(id, store, Number(new URL(etcd.url).port))], use_proxies: true },
      bootstrap: { dcs, initdb: [{ encoding: "UTF8" }, "data-checksums", { auth: "trust" }] },
      postgresql: {
        listen: `127.0.0.1:${port}`,
        connect_address: await relay(others, id, port),
        data_dir: path.join(dir, "data"),
        bin_dir: this.#tools.binDir,
        pgpass: path.join(dir, "pgpass"),
        authentication: { superuser: login, replication: login, rewind: login },
        parameters: {
          unix_socket_directories: dir,
          max_connections: 250,
          logging_collector: "on",
          log_directory: logDir,
          log_filename: "server.log",
        },
        pg_hba: [
          "local all all trust",
          "host all all 127.0.0.1/32 trust",
          "host replication all 127.0.0.1/32 trust",
        ],
      },
    };
  }

  /** One after another, so that the first becomes the leader. */
  async #create(): Promise<void> {
    const [first = "", ...others] = this.#options.members;
    this.start(first);
    await this.#until(
      "a leader",
      async () => (await this.leader()) === first && (await this.#isWritable(first)),
    );
    for (const id of others) this.start(id);
    await this.settled();
    // Only now: in strict synchronous mode it waits for a standby.
    await this.query(first, "CREATE DATABASE app", "postgres");
  }

  /**
   * Waits until the leader is writable, all other members stream from it, and Patroni has recorded
   * as many synchronous standbys as it should keep.
   */
  async settled(): Promise<string> {
    let leader: string | undefined;
    await this.#until("a leader and its standbys", async () => {
      leader = await this.leader();
      if (leader === undefined || !(await this.#isWritable(leader))) return false;
      const sql = "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'";
      const rows = await this.query(leader, sql, "postgres");
      if (rows.length !== this.#members.size - 1) return false;
      const wanted = await this.#synchronousNodes();
      if (wanted === 0) return true;
      // Patroni promotes no node before it has recorded the standbys.
      const { leader: of, standbys } = await this.#sync();
      return of === leader && standbys.length >= wanted && rows.some((row) => row["sync_state"] !== "async");
    });
    return leader ?? "";
  }

  /** The standbys that Patroni has recorded as synchronous, even if they are down. */
  async listed(): Promise<readonly string[]> {
    return (await this.#sync()).standbys;
  }

  async #sync(): Promise<{ leader?: string; standbys: string[] }> {
    const { leader, sync_standby: list } = JSON.parse((await this.#read("sync")).value ?? "{}") as {
      leader?: string;
      sync_standby?: string | null;
    };
    const standbys = (list ?? "").split(",").filter((name) => name !== "");
    return leader === undefined ? { standbys } : { leader, standbys };
  }

  async #synchronousNodes(): Promise<number> {
    const config = JSON.parse((await this.#read("config")).value ?? "{}") as Record<string, unknown>;
    return config["synchronous_mode"] === false ? 0 : Number(config["synchronous_node_count"] ?? 1);
  }

  get members(): readonly string[] {
    return [...this.#members.keys()];
  }

  /** Starts a member's Patroni, which does everything else. */
  start(id: string): void {
    this.#member(id).start();
  }

  /** Kills Patroni and the server at once, like a failure of the member's host. */
  kill(id: string): Promise<void> {
    return this.#member(id).kill();
  }

  /** Kills only Patroni; the server runs on without supervision. */
  killPatroni(id: string): Promise<void> {
    return this.#member(id).killPatroni();
  }

  /** Kills only the server; Patroni decides what to do. */
  killServer(id: string): Promise<void> {
    return this.#member(id).killServer();
  }

  isPatroniAlive(id: string): Promise<boolean> {
    return this.#member(id).isPatroniAlive();
  }

  /** Stops the process with SIGSTOP. It keeps what it holds. */
  async freeze(id: string, what: "patroni" | "server"): Promise<void> {
    if (what === "patroni") await this.#member(id).signalPatroni("SIGSTOP");
    else await this.#member(id).signalServer("SIGSTOP");
  }

  async thaw(id: string): Promise<void> {
    await this.#member(id).signalServer("SIGCONT");
    await this.#member(id).signalPatroni("SIGCONT");
  }

  /**
   * Kills one backend with a client's session. The server then restarts or ends, as its settings
   * say.
   */
  async crashBackend(id: string): Promise<void> {
    const sql =
      "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    const [row] = await this.query(id, sql, "postgres");
    if (typeof row?.["pid"] !== "number")
      throw new DevClusterError("QUERY_FAILED", `there is no session on ${id}`);
    signal(row["pid"], "SIGKILL");
  }

  /**
   * Keeps the leader from sending anything to the standby, while its view still shows the stream.
   * Returns a function that ends this.
   */
  async starve(standby: string, leader: string): Promise<() => void> {
    const sql = `SELECT pid FROM pg_stat_replication WHERE application_name = '${standby}'`;
    const [row] = await this.query(leader, sql, "postgres");
    const pid = row?.["pid"];
    if (typeof pid !== "number")
      throw new DevClusterError("QUERY_FAILED", `${leader} does not stream to ${standby}`);
    signal(pid, "SIGSTOP");
    return () => signal(pid, "SIGCONT");
  }

  /** Cuts the member from etcd. */
  cutFromEtcd(id: string, options: CutOptions = {}): Promise<void> {
    return this.#network.cut(this.#member(id).id, store, options);
  }

  /** Cuts the other members from this one's server and Patroni. */
  cutFromOthers(id: string, options: CutOptions = {}): Promise<void> {
    return this.#network.cut(others, this.#member(id).id, options);
  }

  heal(): Promise<void> {
    return this.#network.healAll();
  }

  /** Calls Patroni's REST interface. Rejects unless the answer is a success. */
  async rest(id: string, method: "GET" | "POST" | "PATCH", where: string, body?: unknown): Promise<string> {
    const response = await fetch(`http://127.0.0.1:${this.#member(id).restPort}${where}`, {
      method,
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(restLimitMs),
    });
    const text = await response.text();
    if (!response.ok) throw new DevClusterError("QUERY_FAILED", `${method} ${where} of ${id}: ${text}`);
    return text;
  }

  /** Changes the settings while the cluster runs, and waits until they have taken effect. */
  async configure(settings: PatroniSettings): Promise<void> {
    const leader = await this.settled();
    await this.rest(leader, "PATCH", "/config", PATRONI_SETTINGS[settings]);
    // Patroni reads them only periodically, and only its actions show what it knows.
    const mode = PATRONI_SETTINGS[settings].synchronous_mode;
    const state = mode === false ? "async" : mode === true ? "sync" : "quorum";
    await this.#until(`${settings} has taken effect`, async () => {
      const sql = `SELECT FROM pg_stat_replication WHERE sync_state = '${state}'`;
      const rows = await this.query(leader, sql, "postgres");
      return mode === false ? rows.length === this.#members.size - 1 : rows.length > 0;
    });
    await this.settled();
  }

  connectionString(id: string, user = "postgres"): string {
    return `postgresql://${user}@127.0.0.1:${this.#member(id).port}/app`;
  }

  /** Runs SQL as the superuser. */
  query(id: string, sql: string, database = "app"): Promise<Row[]> {
    const { port } = this.#member(id);
    return querySql({ id, port, database }, sql, [], { limitMs: queryLimitMs });
  }

  /** The member that holds the leader key. */
  async leader(): Promise<string | undefined> {
    return (await this.#read("leader")).value;
  }

  /** Removes the leader key at once, without waiting until the dead leader's lease expires. */
  async revokeLease(): Promise<void> {
    const { lease } = await this.#read("leader");
    if (lease !== undefined) await this.#options.etcd.call("/v3/lease/revoke", { ID: lease });
  }

  async #read(name: string): Promise<{ value?: string; lease?: string }> {
    const { etcd, scope } = this.#options;
    const key = Buffer.from(`/service/${scope}/${name}`).toString("base64");
    const { kvs } = await etcd.call("/v3/kv/range", { key });
    const [found] = (kvs as { value: string; lease?: string }[] | undefined) ?? [];
    return found === undefined
      ? {}
      : { ...found, value: Buffer.from(found.value, "base64").toString("utf8") };
  }

  async isReplica(id: string): Promise<boolean> {
    return !(await this.#isWritable(id));
  }

  async #isWritable(id: string): Promise<boolean> {
    const [row] = await this.query(id, "SELECT NOT pg_is_in_recovery() AS writable", "postgres");
    return row?.["writable"] === true;
  }

  async #until(what: string, is: () => Promise<boolean>): Promise<void> {
    const deadline = performance.now() + startLimitMs;
    while (!(await is().catch(() => false))) {
      if (performance.now() > deadline)
        throw new DevClusterError("TIMEOUT", `${what}: see the logs in ${this.logs}`);
      await sleep(pollMs);
    }
  }

  #member(id: string): PatroniMember {
    const found = this.#members.get(id);
    if (found === undefined) throw new DevClusterError("UNKNOWN_NODE", `there is no member ${id}`);
    return found;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#members.keys()].map((id) => this.kill(id)));
    await this.#network.close();
    await this.#folder.remove();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
