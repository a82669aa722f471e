// One gateway or tracker as a real process. Its address is the first line that it prints. If it
// fails to start, the error shows the end of its log.
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, fstatSync, openSync } from "node:fs";
import { copyFile, mkdtemp, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { TEST_DEPLOYMENT } from "@highwater/service/testing";
import { programFile } from "./bundle.ts";

export type ServiceKind = "gateway" | "tracker";

export interface ServiceOptions {
  readonly name: string;
  readonly service: ServiceKind;
  /** Without a deployment's keys, it belongs to the development deployment. */
  readonly env: Readonly<Record<string, string>>;
  readonly logFile: string;
  /**
   * Whether a failure leaves a copy of the log in the folder for temporary files. Default: true.
   */
  readonly keepLog?: boolean;
  readonly startTimeoutMs: number;
}

/** How long a service may take to finish before it is killed. */
const STOP_LIMIT_MS = 5_000;
/** Lines of the log in the message of a failure. */
const LINES_SHOWN = 20;

const EXIT_WITH_PARENT = new URL("./exit-with-parent.ts", import.meta.url).href;

interface Program {
  readonly main: URL;
  readonly flags: readonly string[];
}

const PROGRAMS: Readonly<Record<ServiceKind, Program>> = {
  gateway: {
    main: new URL("../../../services/txn-gateway/src/main.ts", import.meta.url),
    // Under load, data of running requests outlives the default young generation and becomes costly
    // to collect.
    flags: ["--max-semi-space-size=64"],
  },
  tracker: {
    main: new URL("../../../services/durability-tracker/src/main.ts", import.meta.url),
    // A large ledger is mostly outside the heap; without this, garbage grows to several times the
    // rest.
    flags: ["--max-semi-space-size=16", "--heap-growing-percent=25"],
  },
};

export class ServiceProcess {
  readonly name: string;
  readonly url: string;
  readonly port: number;
  readonly logFile: string;
  readonly #options: ServiceOptions;
  readonly #child: ChildProcess;
  readonly #exited: Promise<void>;

  private constructor(options: ServiceOptions, child: ChildProcess, exited: Promise<void>, url: string) {
    this.name = options.name;
    this.logFile = options.logFile;
    this.#options = options;
    this.url = url;
    this.port = Number(new URL(url).port);
    this.#child = child;
    this.#exited = exited;
  }

  static async start(options: ServiceOptions): Promise<ServiceProcess> {
    const { main, flags } = PROGRAMS[options.service];
    const args = [...flags, "--import", EXIT_WITH_PARENT, await programFile(main)];
    const log = openSync(options.logFile, "a");
    const logStart = fstatSync(log).size;
    const child = spawn(process.execPath, args, {
      env: { ...TEST_DEPLOYMENT, ...process.env, ...options.env },
      // Its own process group, so that Ctrl-C in the terminal reaches it only through its parent.
      detached: true,
      // The process writes the log itself, so the log is complete when it has exited.
      stdio: ["ignore", "pipe", log, "ipc"],
    });
    closeSync(log);
    const exited = new Promise<void>((resolve) => {
      child.once("exit", () => {
        resolve();
      });
    });
    type Outcome = { readonly url: string } | { readonly fault: string };
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    const fail = (fault: string): void => {
      resolve({ fault });
    };
    const limitMs = options.startTimeoutMs;
    const timer = setTimeout(fail, limitMs, `has not started within ${String(limitMs)} ms`);
    child.once("exit", (code, signal) => {
      fail(`exited while it started, with ${code === null ? String(signal) : `code ${String(code)}`}`);
    });
    child.once("error", ({ message }) => {
      fail(`cannot be started: ${message}`);
    });
    if (child.stdout !== null)
      createInterface(child.stdout).once("line", (line) => {
        resolve(JSON.parse(line) as { url: string });
      });
    const outcome = await promise;
    clearTimeout(timer);
    if ("url" in outcome) return new ServiceProcess(options, child, exited, outcome.url);
    child.kill("SIGKILL");
    if (child.pid !== undefined) await exited;
    throw await failureOf(options, outcome.fault, logStart);
  }

  /** An error with the fault and the last lines of the log. */
  failure(fault: string): Promise<Error> {
    return failureOf(this.#options, fault);
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get running(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Kills it, like a power failure of its host. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#exited;
  }

  /** Asks it to finish, and kills it at the limit. */
  async stop(limitMs = STOP_LIMIT_MS): Promise<void> {
    this.#child.kill("SIGTERM");
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), limitMs);
    await this.#exited;
    clearTimeout(timer);
  }
}

/** Copies the log, because the folder of a system that fails to start is removed. */
async function failureOf(options: ServiceOptions, fault: string, logStart = 0): Promise<Error> {
  const { name, logFile, keepLog = true } = options;
  const written = (await readFile(logFile)).subarray(logStart).toString().trimEnd();
  const parts = [`${name} ${fault}.`];
  if (keepLog) {
    const copy = join(await mkdtemp(join(tmpdir(), "highwater-log-")), basename(logFile));
    await copyFile(logFile, copy);
    parts.push(`Its log is kept in ${copy}.`);
  }
  if (written === "") parts.push("It wrote nothing.");
  else parts.push(`It wrote last:\n${written.split("\n").slice(-LINES_SHOWN).join("\n")}`);
  return new Error(parts.join(" "));
}
