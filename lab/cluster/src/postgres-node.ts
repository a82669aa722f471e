// One PostgreSQL server: its configuration, its process, and every way in which the process can
// end. Knows nothing of other nodes; fleet.ts does.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { open, readFile, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Binaries } from "./binaries.ts";
import { chownIfNeeded } from "./clone.ts";
import { DevClusterError } from "./errors.ts";
import { isPortFree } from "./ports.ts";
import { descendants, killTree, signal, signalTree, waitGone } from "./processes.ts";
import { clusterConfig, conninfo, withoutConninfo } from "./postgres-config.ts";
import { querySql, withClient } from "./sql.ts";
import type { StopMode } from "./types.ts";
import type { Identity } from "./unprivileged.ts";

const startLimitMs = 120_000;
const stopLimitMs = 60_000;
const killLimitMs = 30_000;
const crashLimitMs = 60_000;
const destroyQueueLimitMs = 10_000;
const pollMs = 5;
const logTailLines = 15;

/** Attempts to start while another process briefly holds the port. */
const portAttemptsMax = 3;

export interface PostgresNodeOptions {
  id: string;
  region: string;
  zone: string;
  port: number;
  dir: string;
  binaries: Binaries;
  identity: Identity | undefined;
  settings: Readonly<Record<string, string>>;
  /** The server's environment, in addition to serverEnvironment(). */
  environment: Readonly<Record<string, string>>;
  onProcessChange: () => void;
}

const stopSignals = { fast: "SIGINT", smart: "SIGTERM", immediate: "SIGQUIT" } as const;

export class PostgresNode {
  readonly id: string;
  readonly region: string;
  readonly zone: string;
  readonly dataDir: string;
  readonly logFile: string;
  port: number;
  /** The node that this one last had to follow; undefined for a primary. */
  upstreamId: string | undefined;
  isPaused = false;
  readonly #options: PostgresNodeOptions;
  #child: ChildProcess | undefined;
  #isReady = false;
  #isDestroyed = false;
  #queue: Promise<unknown> = Promise.resolve();

  constructor(options: PostgresNodeOptions) {
    this.#options = options;
    this.id = options.id;
    this.region = options.region;
    this.zone = options.zone;
    this.port = options.port;
    this.dataDir = path.join(options.dir, "nodes", options.id);
    this.logFile = path.join(options.dir, "logs", `${options.id}.log`);
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  get isRunning(): boolean {
    return this.#child !== undefined;
  }

  /** Running and past its start. It may still not answer. */
  get isReady(): boolean {
    return this.isRunning && this.#isReady && !this.isPaused;
  }

  /** Calls that start or stop a node run one after another; kill, pause and resume do not queue. */
  exclusively<T>(body: () => Promise<T>): Promise<T> {
    const result = this.#queue.then(body);
    this.#queue = result.catch(() => undefined);
    return result;
  }

  /** Writes this node's configuration into a data directory, perhaps a copy of another node's. */
  async configure(upstream: { id: string; port: number } | undefined): Promise<void> {
    const file = (name: string): string => path.join(this.dataDir, name);
    const auto = await readFile(file("postgresql.auto.conf"), "utf8").catch(() => "");
    const following = upstream && `primary_conninfo = '${conninfo(this.id, upstream.port)}'\n`;
    await Promise.all([
      this.#write(file("postgresql.conf"), clusterConfig(this.id, this.port, this.#options.settings)),
      this.#write(
        file("pg_hba.conf"),
        "host all all 127.0.0.0/8 trust\nhost replication all 127.0.0.0/8 trust\n",
      ),
      this.#write(file("postgresql.auto.conf"), withoutConninfo(auto) + (following ?? "")),
      upstream
        ? this.#write(file("standby.signal"), "")
        : rm(file("standby.signal"), { force: true }).then(() => undefined),
      rm(file("postmaster.pid"), { force: true }),
      rm(file("postmaster.opts"), { force: true }),
    ]);
    this.upstreamId = upstream?.id;
  }

  async isReplicaOnDisk(): Promise<boolean> {
    return stat(path.join(this.dataDir, "standby.signal")).then(
      () => true,
      () => false,
    );
  }

  /** Resolves when the server accepts connections (read-only ones on a replica). */
  async start(): Promise<void> {
    if (this.isRunning) throw this.#badState("is already running");
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#startOnce();
      } catch (error) {
        const retry = error instanceof DevClusterError && error.code === "PORT_IN_USE";
        if (!retry || attempt === portAttemptsMax) throw error;
        await sleep(100 * attempt);
      }
    }
  }

  async stop(mode: StopMode): Promise<void> {
    const child = this.#child;
    if (child?.pid === undefined) throw this.#badState("is not running");
    if (this.isPaused) await this.resume();
    const exited = this.#whenExited(child);
    signal(child.pid, stopSignals[mode]);
    await this.#within(exited, stopLimitMs, `stop (${mode})`);
  }

  /**
   * A failure of the host: kills the postmaster and its children at once; nothing more is written.
   */
  async kill(): Promise<void> {
    const child = this.#child;
    if (child?.pid === undefined) throw this.#badState("is not running");
    const exited = this.#whenExited(child);
    const pids = await killTree(child.pid);
    await exited;
    if (!(await waitGone(pids, killLimitMs))) throw this.#timeout("kill", killLimitMs);
    await this.releaseDeadServer();
  }

  /**
   * After a kill, removes the lock file, because another server may soon have its pid and the start
   * would be refused, and the System V segment that it names, which no other process would ever
   * remove.
   */
  async releaseDeadServer(): Promise<void> {
    const lock = path.join(this.dataDir, "postmaster.pid");
    const lines = (await readFile(lock, "utf8").catch(() => "")).split("\n");
    const segment = lines[6]?.trim().split(/\s+/)[1];
    await rm(lock, { force: true });
    if (segment === undefined) return;
    const removal = spawn("ipcrm", ["-m", segment], { stdio: "ignore", ...this.#options.identity });
    await new Promise((resolve) => removal.once("error", resolve).once("close", resolve));
  }

  async restart(): Promise<void> {
    await this.stop("fast");
    await this.start();
  }

  async pause(): Promise<void> {
    if (this.pid === undefined) throw this.#badState("is not running");
    this.isPaused = true;
    await signalTree(this.pid, "SIGSTOP");
  }

  async resume(): Promise<void> {
    if (this.pid === undefined) throw this.#badState("is not running");
    await signalTree(this.pid, "SIGCONT");
    this.isPaused = false;
  }

  /**
   * Kills one of our own backends; the postmaster then ends all others and recovers. A second
   * connection is the witness: once the server has closed it, a new connection proves that the
   * server has recovered.
   */
  async crashBackend(): Promise<void> {
    await withClient(this, { limitMs: crashLimitMs }, (witness) =>
      withClient(this, { limitMs: crashLimitMs }, async (victim) => {
        const { rows } = await victim.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
        const ended = new Promise<void>((resolve) => witness.once("end", resolve));
        signal(rows[0]?.pid ?? 0, "SIGKILL");
        await this.#within(ended, crashLimitMs, "crashBackend");
      }),
    );
    const deadline = performance.now() + crashLimitMs;
    for (;;) {
      try {
        await querySql(this, "SELECT 1", undefined, { limitMs: 5_000 });
        return;
      } catch (cause) {
        if (!this.isRunning) throw await this.#startFailed(0, cause);
        if (performance.now() > deadline) throw this.#timeout("crashBackend", crashLimitMs, cause);
        await sleep(pollMs);
      }
    }
  }

  /** Ends the server for good within a few seconds, whatever its state. */
  async destroy(): Promise<void> {
    this.#isDestroyed = true;
    await this.#end();
    // A running copy still writes into the folder that is to be removed.
    await Promise.race([this.#queue, sleep(destroyQueueLimitMs, undefined, { ref: false })]);
    await this.#end();
  }

  async #end(): Promise<void> {
    const child = this.#child;
    if (child?.pid === undefined) return;
    const pids = [child.pid, ...(await descendants(child.pid))];
    // An immediate shutdown lets the server remove its shared memory; SIGKILL does not.
    signal(child.pid, "SIGQUIT");
    for (const pid of pids) signal(pid, "SIGCONT");
    if (await waitGone(pids, 3_000)) return;
    await waitGone([...pids, ...(await killTree(child.pid))], killLimitMs);
    await this.releaseDeadServer();
  }

  async #startOnce(): Promise<void> {
    if (!(await isPortFree(this.port))) throw this.#portInUse();
    const { binaries, identity, environment } = this.#options;
    const log = await open(this.logFile, "a");
    const logStart = (await log.stat()).size;
    if (this.#isDestroyed) {
      await log.close();
      throw this.#badState("belongs to a closed cluster");
    }
    const child = spawn(binaries.postgres, ["-D", this.dataDir], {
      cwd: this.dataDir,
      stdio: ["ignore", log.fd, log.fd],
      // A process group of its own, because Ctrl-C in a terminal must not reach servers before the
      // supervisor decides.
      detached: true,
      env: { ...serverEnvironment(), ...environment },
      ...identity,
    });
    const spawned = once(child, "spawn");
    child.once("exit", () => this.#forget(child));
    child.on("error", () => this.#forget(child));
    this.#child = child;
    this.#isReady = false;
    this.isPaused = false;
    try {
      await spawned;
    } catch (cause) {
      throw await this.#startFailed(logStart, cause);
    } finally {
      await log.close();
    }
    this.#options.onProcessChange();
    await this.#whenReady(child, logStart);
    this.#isReady = true;
  }

  /**
   * Reads it from the lock file's last line, as pg_ctl does, to make no connection attempts during
   * recovery.
   */
  async #whenReady(child: ChildProcess, logStart: number): Promise<void> {
    const lock = path.join(this.dataDir, "postmaster.pid");
    const deadline = performance.now() + startLimitMs;
    for (;;) {
      const lines = (await readFile(lock, "utf8").catch(() => "")).split("\n");
      const state = lines[7]?.trim();
      if (Number(lines[0]) === child.pid && (state === "ready" || state === "standby")) return;
      if (this.#child !== child) throw await this.#startFailed(logStart);
      if (performance.now() > deadline) throw this.#timeout("start", startLimitMs);
      await sleep(pollMs);
    }
  }

  #forget(child: ChildProcess): void {
    if (this.#child !== child) return;
    this.#child = undefined;
    this.#isReady = false;
    this.isPaused = false;
    this.#options.onProcessChange();
  }

  async #whenExited(child: ChildProcess): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    await once(child, "exit");
  }

  async #within(work: Promise<void>, limitMs: number, what: string): Promise<void> {
    const cancel = new AbortController();
    try {
      const late = sleep(limitMs, true, { signal: cancel.signal }).catch(() => false);
      if ((await Promise.race([work.then(() => false), late])) === true) throw this.#timeout(what, limitMs);
    } finally {
      cancel.abort();
    }
  }

  async #write(file: string, text: string): Promise<void> {
    await writeFile(file, text, { mode: 0o600 });
    await chownIfNeeded(file, this.#options.identity);
  }

  async #startFailed(logStart: number, cause?: unknown): Promise<DevClusterError> {
    const log = (await readFile(this.logFile).catch(() => Buffer.alloc(0))).subarray(logStart).toString();
    if (/could not bind .*address|Address already in use/i.test(log)) return this.#portInUse();
    const tail = log.trim().split("\n").slice(-logTailLines).join("\n");
    return new DevClusterError("START_FAILED", `node ${this.id} did not start; its log ends with:\n${tail}`, {
      cause,
    });
  }

  #portInUse(): DevClusterError {
    return new DevClusterError(
      "PORT_IN_USE",
      `port ${this.port} of node ${this.id} is in use by another program`,
    );
  }

  #badState(what: string): DevClusterError {
    return new DevClusterError("BAD_STATE", `node ${this.id} ${what}`);
  }

  #timeout(what: string, limitMs: number, cause?: unknown): DevClusterError {
    return new DevClusterError("TIMEOUT", `node ${this.id}: ${what} took longer than ${limitMs} ms`, {
      cause,
    });
  }
}

/** Without the caller's PG* variables, which would change what the server and initdb do. */
export function serverEnvironment(): NodeJS.ProcessEnv {
  return { PATH: process.env["PATH"], LC_ALL: "C", TZ: "UTC" };
}
