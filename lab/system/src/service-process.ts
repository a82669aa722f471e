// One gateway or tracker as a real process: its address is the first line that it prints. When it
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
  /** Without keys of a deployment among them, it is the one for development. */
  readonly env: Readonly<Record<string, string>>;
  readonly logFile: string;
  /**
   * Whether a failure leaves a copy of the log in the machine's place for temporary files; default
   * true.
   */
  readonly keepLog?: boolean;
  readonly startTimeoutMs: number;
}

/** How long a service that is asked to finish may take before it is killed. */
const STOP_LIMIT_MS = 5_000;
/** Of the log, in the message of a failure. */
const LINES_SHOWN = 20;

const EXIT_WITH_PARENT = new URL("./exit-with-parent.ts", import.meta.url).href;

interface Program {
  readonly main: URL;
  readonly flags: readonly string[];
}

const PROGRAMS: Readonly<Record<ServiceKind, Program>> = {
  gateway: {
    main: new URL("../../../services/txn-gateway/src/main.ts", import.meta.url),
    // What belongs to a request in flight outlives the default young generation under load, and is
    // then costly to collect.
    flags: ["--max-semi-space-size=64"],
  },
  tracker: {
    main: new URL("../../../services/durability-tracker/src/main.ts", import.meta.url),
    // Most of a large ledger is not on the heap: without this the collector lets garbage grow to
    // several times the rest.
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
      // Its own group, so that Ctrl-C in the terminal reaches it only through its parent.
      detached: true,
      // It writes the log itself, which is therefore whole when it has exited.
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

  /** An error that says what is wrong with it, and what it wrote last. */
  failure(fault: string): Promise<Error> {
    return failureOf(this.#options, fault);
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

  /** Asks it to finish. */
  async stop(limitMs = STOP_LIMIT_MS): Promise<void> {
    this.#child.kill("SIGTERM");
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), limitMs);
    await this.#exited;
    clearTimeout(timer);
  }
}

/** The log itself goes with the folder of a system that does not start: a copy of it stays. */
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
