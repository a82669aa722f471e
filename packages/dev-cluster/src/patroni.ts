// A real Patroni cluster on loopback, for tests that need the HA manager itself: it starts, watches and promotes the servers,
// and holds the leader key in etcd. Needs a full PostgreSQL installation; the embedded one has no pg_basebackup. Delays and
// cuts are not here: see startCluster.

import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:fs";
import { access, chmod, chown, mkdir, readdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { DevClusterError } from "./errors.ts";
import { type Etcd, venvDir } from "./etcd.ts";
import { chooseFreePort } from "./ports.ts";
import { processesNaming, signal } from "./processes.ts";
import { querySql } from "./sql.ts";
import { type Row } from "./types.ts";
import { canReach, chooseIdentity, type Identity, makeClusterDir } from "./unprivileged.ts";

const startLimitMs = 120_000;
const queryLimitMs = 5_000;
const pollMs = 100;
/** Ends a member at once, Patroni and server alike; also when whoever started it is gone. (See the guard in etcd.ts.) */
const guard =
  'exec 3<&0; "$@" & pid=$!; { read -r _ <&3; kill -9 $pid $(head -1 "$DATA/postmaster.pid"); } 2>/dev/null & wait $pid 2>/dev/null; kill $! 2>/dev/null';

/** Settings that keep a promise through an automatic failover; ttl and loop_wait are the smallest that Patroni takes. */
const dcs = {
  ttl: 20,
  loop_wait: 1,
  retry_timeout: 3,
  maximum_lag_on_failover: 1_099_511_627_776,
  check_timeline: true,
  synchronous_mode: true,
  synchronous_mode_strict: true,
  synchronous_node_count: 1,
  failsafe_mode: true,
  primary_start_timeout: 0,
  primary_stop_timeout: 10,
  postgresql: {
    use_pg_rewind: true,
    remove_data_directory_on_rewind_failure: true,
    parameters: { restart_after_crash: "off", wal_keep_size: "256MB" },
  },
};

interface Tools {
  readonly identity: Identity | undefined;
  readonly python: string;
  readonly sitePackages: string;
  readonly binDir: string;
}

/** What Patroni needs on this machine, or in words what is missing. */
async function findTools(): Promise<Tools | string> {
  const identity = await chooseIdentity(process.env["HIGHWATER_PG_USER"]);
  const lib = path.join(venvDir, "lib");
  const [version] = await readdir(lib).catch(() => []);
  const sitePackages = path.join(lib, version ?? "", "site-packages");
  if (
    version === undefined ||
    !(await canReach(path.join(sitePackages, "patroni"), identity, constants.X_OK))
  )
    return "there is no Patroni: run `make .venv/.installed`";
  // A virtual environment's Python is a link to where its maker found one, which may be out of the servers' user's reach.
  const pythons = [path.join(venvDir, "bin", version), `/usr/bin/${version}`, `/usr/local/bin/${version}`];
  const python = await firstReachable(pythons, identity);
  if (python === undefined) return `the servers' user cannot run ${version}`;
  const installed = await readdir("/usr/lib/postgresql").catch(() => []);
  const named = process.env["HIGHWATER_PG_BIN"];
  const binDirs = [
    ...(named === undefined ? [] : [named]),
    ...installed.sort((a, b) => Number(b) - Number(a)).map((major) => `/usr/lib/postgresql/${major}/bin`),
  ];
  const tool = await firstReachable(
    binDirs.map((dir) => path.join(dir, "pg_basebackup")),
    identity,
  );
  if (tool === undefined)
    return "there is no full PostgreSQL installation (HIGHWATER_PG_BIN or /usr/lib/postgresql)";
  return { identity, python, sitePackages, binDir: path.dirname(tool) };
}

async function firstReachable(
  files: readonly string[],
  identity: Identity | undefined,
): Promise<string | undefined> {
  for (const file of files) {
    const exists = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (exists && (await canReach(file, identity, constants.X_OK))) return file;
  }
  return undefined;
}

interface Member {
  readonly id: string;
  readonly port: number;
  readonly restPort: number;
  readonly dir: string;
  process: ChildProcess | undefined;
}

export interface PatroniOptions {
  readonly etcd: Etcd;
  readonly scope: string;
  readonly members: readonly string[];
}

export class PatroniCluster implements AsyncDisposable {
  readonly dir: string;
  readonly #options: PatroniOptions;
  readonly #tools: Tools;
  readonly #members = new Map<string, Member>();

  private constructor(options: PatroniOptions, tools: Tools, dir: string) {
    this.#options = options;
    this.#tools = tools;
    this.dir = dir;
  }

  /** Why it cannot run on this machine; undefined when it can. */
  static async missing(): Promise<string | undefined> {
    const tools = await findTools();
    return typeof tools === "string" ? tools : undefined;
  }

  /** Resolves when there is a leader with a confirmed synchronous standby, and all others stream. */
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
    await mkdir(dir, { mode: 0o755 });
    const file = path.join(dir, "patroni.json");
    // JSON is YAML.
    await writeFile(file, JSON.stringify(this.#configure({ id, port, restPort, dir })));
    const { identity } = this.#tools;
    for (const each of [dir, file]) if (identity !== undefined) await chown(each, identity.uid, identity.gid);
    await chmod(file, 0o600);
    this.#members.set(id, { id, port, restPort, dir, process: undefined });
  }

  #configure({ id, port, restPort, dir }: Omit<Member, "process">): unknown {
    const { etcd, scope } = this.#options;
    const login = { username: "postgres" };
    const rest = `127.0.0.1:${restPort}`;
    return {
      scope,
      name: id,
      restapi: { listen: rest, connect_address: rest },
      etcd3: { host: new URL(etcd.url).host },
      bootstrap: { dcs, initdb: [{ encoding: "UTF8" }, "data-checksums", { auth: "trust" }] },
      postgresql: {
        listen: `127.0.0.1:${port}`,
        connect_address: `127.0.0.1:${port}`,
        data_dir: path.join(dir, "data"),
        bin_dir: this.#tools.binDir,
        pgpass: path.join(dir, "pgpass"),
        authentication: { superuser: login, replication: login, rewind: login },
        parameters: { unix_socket_directories: dir, max_connections: 60 },
        pg_hba: [
          "local all all trust",
          "host all all 127.0.0.1/32 trust",
          "host replication all 127.0.0.1/32 trust",
        ],
      },
    };
  }

  /** One after the other: the first becomes the leader. */
  async #create(): Promise<void> {
    const [first = "", ...others] = this.#options.members;
    this.start(first);
    await this.#until(
      "a leader",
      async () => (await this.leader()) === first && (await this.#isWritable(first)),
    );
    for (const id of others) this.start(id);
    await this.#until("its standbys", async () => {
      const sql = "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'";
      const rows = await this.query(first, sql, "postgres");
      return rows.length === others.length && rows.some((row) => row["sync_state"] === "sync");
    });
    // Until Patroni has written it down it promotes nobody.
    await this.#until("a synchronous standby in etcd", async () => {
      const { value = "" } = await this.#read("sync");
      return /"sync_standby": *"/.test(value);
    });
    // Not before: in strict synchronous mode it waits for a standby.
    await this.query(first, "CREATE DATABASE app", "postgres");
  }

  /** Starts a member's Patroni, which does the rest. */
  start(id: string): void {
    const member = this.#member(id);
    const { identity, python, sitePackages } = this.#tools;
    const args = ["-c", guard, "patroni", python, "-m", "patroni", path.join(member.dir, "patroni.json")];
    member.process = spawn("/bin/sh", args, {
      ...identity,
      cwd: member.dir,
      stdio: ["pipe", "ignore", "ignore"],
      env: {
        PATH: process.env["PATH"] ?? "/usr/bin:/bin",
        HOME: member.dir,
        PYTHONPATH: sitePackages,
        PYTHONDONTWRITEBYTECODE: "1",
        DATA: path.join(member.dir, "data"),
        PATRONI_LOG_DIR: member.dir,
        PATRONI_LOG_LEVEL: "INFO",
      },
    });
    member.process.unref();
  }

  /** The member's host dies: Patroni and server, at once. */
  async kill(id: string): Promise<void> {
    const member = this.#member(id);
    const child = member.process;
    member.process = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.ref();
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.stdin?.end("end\n");
    await gone;
    // A server that was just being started, or a copy that was being made, has not written its process id yet.
    const data = path.join(member.dir, "data");
    await this.#until(`${id} is gone`, async () => {
      const left = await processesNaming(data);
      for (const pid of left) signal(pid, "SIGKILL");
      return left.length === 0 && !(await this.#answers(id));
    });
  }

  connectionString(id: string): string {
    return `postgresql://postgres@127.0.0.1:${this.#member(id).port}/app`;
  }

  /** As the superuser. */
  query(id: string, sql: string, database = "app"): Promise<Row[]> {
    const { port } = this.#member(id);
    return querySql({ id, port, database }, sql, [], { limitMs: queryLimitMs });
  }

  /** The member that holds the leader key. */
  async leader(): Promise<string | undefined> {
    return (await this.#read("leader")).value;
  }

  /** Does not wait for the dead leader's time to run out: the key goes now. */
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

  #answers(id: string): Promise<boolean> {
    return this.query(id, "SELECT 1", "postgres").then(
      () => true,
      () => false,
    );
  }

  async #until(what: string, is: () => Promise<boolean>): Promise<void> {
    const deadline = performance.now() + startLimitMs;
    while (!(await is().catch(() => false))) {
      if (performance.now() > deadline)
        throw new DevClusterError("TIMEOUT", `${what}: see the logs in ${this.dir}`);
      await sleep(pollMs);
    }
  }

  #member(id: string): Member {
    const found = this.#members.get(id);
    if (found === undefined) throw new DevClusterError("UNKNOWN_NODE", `there is no member ${id}`);
    return found;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#members.keys()].map((id) => this.kill(id)));
    await rm(this.dir, { recursive: true, force: true, maxRetries: 5 });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
