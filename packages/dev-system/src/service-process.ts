// One gateway or tracker as a real process: its address is the first line that it prints.
import { type ChildProcess, spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { sep } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export interface ServiceOptions {
  readonly name: string;
  readonly main: URL;
  readonly env: Readonly<Record<string, string>>;
  readonly logFile: string;
  readonly startTimeoutMs: number;
}

const EXIT_WITH_PARENT = new URL("./exit-with-parent.ts", import.meta.url).href;

/** By the service's folder. */
const NODE_FLAGS: Readonly<Record<string, readonly string[]>> = {
  // What belongs to a request in flight outlives the default young generation under load, and is then costly to collect.
  "txn-gateway": ["--max-semi-space-size=64"],
  // Most of a large ledger is not on the heap: without this the collector lets garbage grow to several times the rest.
  "durability-tracker": ["--max-semi-space-size=16", "--heap-growing-percent=25"],
};

export class ServiceProcess {
  readonly name: string;
  readonly url: string;
  readonly port: number;
  readonly logFile: string;
  readonly #child: ChildProcess;
  readonly #exited: Promise<void>;

  private constructor(options: ServiceOptions, child: ChildProcess, exited: Promise<void>, url: string) {
    this.name = options.name;
    this.logFile = options.logFile;
    this.url = url;
    this.port = Number(new URL(url).port);
    this.#child = child;
    this.#exited = exited;
  }

  static async start(options: ServiceOptions): Promise<ServiceProcess> {
    const main = fileURLToPath(options.main);
    const [service = ""] = main.split(sep).slice(-3);
    const args = [...(NODE_FLAGS[service] ?? []), "--import", EXIT_WITH_PARENT, main];
    const child = spawn(process.execPath, args, {
      env: { ...process.env, ...options.env },
      // Its own group, so that Ctrl-C in the terminal reaches it only through its parent.
      detached: true,
      stdio: ["ignore", "pipe", "pipe", "ipc"],
    });
    const log = createWriteStream(options.logFile, { flags: "a" });
    child.stderr?.pipe(log);
    const exited = new Promise<void>((resolve) => {
      child.once("exit", () => {
        resolve();
      });
    });
    const timeout = AbortSignal.timeout(options.startTimeoutMs);
    const url = await new Promise<string>((resolve, reject) => {
      const failed = (why: string) => (): void => {
        reject(new Error(`${options.name} ${why}; see ${options.logFile}`));
      };
      timeout.addEventListener("abort", failed("did not start in time"));
      child.once("exit", failed("exited while it started"));
      child.once("error", reject);
      if (child.stdout !== null)
        createInterface(child.stdout).once("line", (line) => {
          resolve((JSON.parse(line) as { url: string }).url);
        });
    }).catch((cause: unknown) => {
      child.kill("SIGKILL");
      throw cause;
    });
    return new ServiceProcess(options, child, exited, url);
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get running(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** As if its host had lost power. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#exited;
  }

  /** Asks it to finish; it has a few seconds. */
  async stop(): Promise<void> {
    this.#child.kill("SIGTERM");
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), 5_000);
    await this.#exited;
    clearTimeout(timer);
  }
}
