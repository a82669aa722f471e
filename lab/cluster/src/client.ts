// The caller's side: starts the supervisor, turns method calls into messages, and cleans up if the
// supervisor dies.

import { type ChildProcess, fork } from "node:child_process";
import { open, readdir, readFile, rm } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { DevClusterError, errorFromRecord } from "./errors.ts";
import type { CallMessage, SupervisorMessage } from "./messages.ts";
import { killTree, signal, waitGone } from "./processes.ts";
import type { SupervisorApi } from "./types.ts";

const logTailLines = 15;
const goneLimitMs = 30_000;

interface PendingCall {
  resolve: (value: unknown) => void;
  reject: (error: Error) => void;
}

export class SupervisorClient {
  readonly #dir: string;
  readonly #child: ChildProcess;
  readonly #logFile: string;
  readonly #keepDir: boolean;
  readonly #pending = new Map<number, PendingCall>();
  readonly #ended: Promise<void>;
  #nextCallId = 1;
  #pids: Record<string, number> = {};
  #isClosing = false;
  #hasEnded = false;
  #deathNote = "";

  private constructor(dir: string, child: ChildProcess, logFile: string, keepDir: boolean) {
    this.#dir = dir;
    this.#keepDir = keepDir;
    this.#child = child;
    this.#logFile = logFile;
    this.#ended = new Promise((resolve) => {
      child.once("exit", () => void this.#onExit().then(resolve));
      child.once("error", () => void this.#onExit().then(resolve));
    });
    child.on("message", (message: SupervisorMessage) => this.#receive(message));
    this.#hold(false);
  }

  static async start(dir: string, keepDir: boolean): Promise<SupervisorClient> {
    const logFile = path.join(dir, "supervisor.log");
    const log = await open(logFile, "a");
    const env = { ...process.env };
    // These concern only the caller's process: an inspector port, a test runner's channel.
    for (const name of ["NODE_OPTIONS", "NODE_TEST_CONTEXT", "NODE_V8_COVERAGE"]) delete env[name];
    const child = fork(fileURLToPath(import.meta.resolve("./supervisor.ts")), [dir], {
      cwd: "/",
      detached: true,
      execArgv: [],
      env,
      serialization: "advanced",
      stdio: ["ignore", log.fd, log.fd, "ipc"],
    });
    await log.close();
    return new SupervisorClient(dir, child, logFile, keepDir);
  }

  async call<M extends keyof SupervisorApi>(
    method: M,
    ...args: Parameters<SupervisorApi[M]>
  ): Promise<Awaited<ReturnType<SupervisorApi[M]>>> {
    if (this.#isClosing || this.#hasEnded || !this.#child.connected) {
      if (this.#isClosing) throw new DevClusterError("BAD_STATE", `the cluster is closed: ${method}`);
      this.#hold(true);
      await this.#ended;
      throw this.#died(method);
    }
    return this.#send(method, args) as Promise<Awaited<ReturnType<SupervisorApi[M]>>>;
  }

  /** Idempotent. Resolves when no process and no folder is left. */
  async close(): Promise<void> {
    const isFirst = !this.#isClosing;
    this.#isClosing = true;
    if (isFirst && !this.#hasEnded && this.#child.connected) {
      // If the supervisor dies before it answers, #onExit cleans up.
      await this.#send("shutdown", []).catch(() => undefined);
      if (this.#child.connected) this.#child.disconnect();
    }
    this.#hold(true);
    await this.#ended;
  }

  #send(method: keyof SupervisorApi, args: unknown[]): Promise<unknown> {
    const callId = this.#nextCallId++;
    return new Promise((resolve, reject) => {
      this.#pending.set(callId, { resolve, reject });
      this.#hold(true);
      const message: CallMessage = { kind: "call", callId, method, args };
      // The channel is closing. The exit that follows settles the call.
      this.#child.send(message, () => undefined);
    });
  }

  #receive(message: SupervisorMessage): void {
    if (message.kind === "processes") {
      this.#pids = message.pids;
      return;
    }
    const call = this.#pending.get(message.callId);
    this.#pending.delete(message.callId);
    if (this.#pending.size === 0) this.#hold(false);
    if (message.kind === "result") call?.resolve(message.value);
    else call?.reject(errorFromRecord(message.error));
  }

  /** Keeps the caller's program alive during a call, but not for a running cluster. */
  #hold(keepAlive: boolean): void {
    const { channel } = this.#child;
    if (keepAlive) {
      this.#child.ref();
      channel?.ref();
    } else {
      this.#child.unref();
      channel?.unref();
    }
  }

  async #onExit(): Promise<void> {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    const log = await readFile(this.#logFile, "utf8").catch(() => "");
    this.#deathNote = log.trim().split("\n").slice(-logTailLines).join("\n");
    // After an orderly end nothing is left to do. Running calls wait until that is certain.
    await this.#cleanUp();
    for (const call of this.#pending.values()) call.reject(this.#died("call under way"));
    this.#pending.clear();
  }

  #died(what: string): DevClusterError {
    const message = `the cluster's supervisor process died: ${what}\n${this.#deathNote}`;
    return new DevClusterError("SUPERVISOR_DIED", message.trim());
  }

  /** Cleans up for the dead supervisor, whose servers are still running. */
  async #cleanUp(): Promise<void> {
    const pids = new Set(Object.values(this.#pids));
    // A server that the supervisor had just started was not announced yet.
    const nodesDir = path.join(this.#dir, "nodes");
    for (const name of await readdir(nodesDir).catch(() => [])) {
      const lock = await readFile(path.join(nodesDir, name, "postmaster.pid"), "utf8").catch(() => "");
      const pid = Number.parseInt(lock, 10);
      if (pid > 0) pids.add(pid);
    }
    await Promise.all([...pids].map((pid) => this.#endServer(pid)));
    if (!this.#keepDir) await rm(this.#dir, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }

  async #endServer(pid: number): Promise<void> {
    if (process.platform === "linux") {
      // Another process may have this pid now.
      const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
      if (!command.includes(this.#dir)) return;
    }
    signal(pid, "SIGQUIT");
    signal(pid, "SIGCONT");
    if (!(await waitGone([pid], 2_000))) await waitGone(await killTree(pid), goneLimitMs);
  }
}
