// The processes of one member of a Patroni cluster: Patroni, and the PostgreSQL server that it
// starts. Each can die without the other. Both end with the process that started this.

import { type ChildProcess, spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { descendants, isAlive, processesNaming, signal, signalTree, waitGone } from "./processes.ts";
import type { Identity } from "./unprivileged.ts";

const goneLimitMs = 10_000;
/**
 * Kills what it started, and the server, when its standard input ends. (See the guard in
 * lab/tools.) If only Patroni dies, the guard stays because of the server. Stopped backends do not
 * end with their postmaster.
 */
const guard = `exec 3<&0
stop() {
  server=$(head -1 "$DATA/postmaster.pid") && grep -qaF "$DATA" /proc/$server/cmdline || server=
  kill -9 $1 $server \${server:+$(pgrep -P $server)}
}
"$@" & pid=$!
{ read -r _ <&3; stop $pid; } 2>/dev/null & reader=$!
{ wait $pid; kill $reader; read -r _ <&3; stop; } 2>/dev/null`;

export interface MemberTools {
  readonly identity: Identity | undefined;
  readonly python: string;
  readonly sitePackages: string;
}

export class PatroniMember {
  readonly id: string;
  /** Ports of the server and of Patroni's REST interface, without relays. */
  readonly port: number;
  readonly restPort: number;
  readonly dir: string;
  readonly #tools: MemberTools;
  #guards: ChildProcess[] = [];

  constructor(
    where: { readonly id: string; readonly port: number; readonly restPort: number; readonly dir: string },
    tools: MemberTools,
  ) {
    this.id = where.id;
    this.port = where.port;
    this.restPort = where.restPort;
    this.dir = where.dir;
    this.#tools = tools;
  }

  get configFile(): string {
    return path.join(this.dir, "patroni.json");
  }

  /** The folder of Patroni's and the server's logs. */
  get logDir(): string {
    return path.join(this.dir, "..", "logs", this.id);
  }

  get dataDir(): string {
    return path.join(this.dir, "data");
  }

  /** Starts Patroni, which does everything else. */
  start(): void {
    const { identity, python, sitePackages } = this.#tools;
    const args = ["-c", guard, "patroni", python, "-m", "patroni", this.configFile];
    const child = spawn("/bin/sh", args, {
      ...identity,
      cwd: this.dir,
      stdio: ["pipe", "ignore", "ignore"],
      env: {
        PATH: process.env["PATH"] ?? "/usr/bin:/bin",
        HOME: this.dir,
        PYTHONPATH: sitePackages,
        PYTHONDONTWRITEBYTECODE: "1",
        DATA: this.dataDir,
        PATRONI_LOG_DIR: this.logDir,
        PATRONI_LOG_LEVEL: "INFO",
      },
    });
    child.unref();
    this.#guards.push(child);
  }

  /** Kills Patroni and the server at once. */
  async kill(): Promise<void> {
    const guards = this.#guards;
    this.#guards = [];
    // A stopped backend does not notice that its postmaster has died, and would keep the next one
    // from starting.
    const server = await this.#server();
    await Promise.all(
      guards.map(async (child) => {
        if (child.exitCode !== null || child.signalCode !== null) return;
        child.ref();
        const gone = new Promise((resolve) => child.once("exit", resolve));
        child.stdin?.end("end\n");
        await gone;
      }),
    );
    for (const pid of server) signal(pid, "SIGKILL");
    // A server that was starting, or a copy in progress, had not written its process id yet.
    await this.#end(() => processesNaming(this.dataDir));
  }

  async killPatroni(): Promise<void> {
    await this.#end(() => this.#patroni());
  }

  async killServer(): Promise<void> {
    await this.#end(() => this.#server());
  }

  /** Sends SIGSTOP or SIGCONT. */
  async signalPatroni(name: "SIGSTOP" | "SIGCONT"): Promise<void> {
    for (const pid of await this.#patroni()) signal(pid, name);
  }

  async signalServer(name: "SIGSTOP" | "SIGCONT"): Promise<void> {
    const [postmaster] = await this.#server();
    if (postmaster !== undefined) await signalTree(postmaster, name);
  }

  async isPatroniAlive(): Promise<boolean> {
    return (await this.#patroni()).length > 0;
  }

  async #end(find: () => Promise<readonly number[]>): Promise<void> {
    const deadline = performance.now() + goneLimitMs;
    for (let left = await find(); left.length > 0; left = await find()) {
      for (const pid of left) signal(pid, "SIGKILL");
      await waitGone(left, goneLimitMs);
      if (performance.now() > deadline)
        throw new Error(`${this.id}: processes ${left.join(", ")} do not end`);
    }
  }

  /** The guards, which are shells, name the file as well. */
  async #patroni(): Promise<number[]> {
    const named = await processesNaming(this.configFile);
    const programs = await Promise.all(
      named.map((pid) => readFile(`/proc/${String(pid)}/comm`, "utf8").catch(() => "")),
    );
    return named.filter(
      (pid, index) => programs[index]?.startsWith("python") === true && !this.#isGuard(pid),
    );
  }

  #isGuard(pid: number): boolean {
    return this.#guards.some((guard) => guard.pid === pid);
  }

  /** The postmaster first, then its children. */
  async #server(): Promise<number[]> {
    const file = path.join(this.dataDir, "postmaster.pid");
    const pid = Number((await readFile(file, "utf8").catch(() => "")).split("\n")[0]);
    if (!Number.isInteger(pid) || pid <= 1 || !(await this.#isOurs(pid))) return [];
    return [pid, ...(await descendants(pid))];
  }

  /** A dead server's file may contain the pid of another process. */
  async #isOurs(pid: number): Promise<boolean> {
    const line = await readFile(`/proc/${String(pid)}/cmdline`, "utf8").catch(() => "");
    return line.includes(this.dataDir) && (await isAlive(pid));
  }
}
