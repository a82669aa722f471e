// A real Envoy on this machine, for tests and `make up`: finds it, validates a configuration,
// starts and stops it. It comes as a Python package, which the Makefile installs into
// `.tools/envoy`. Callers provide the configuration.
import { type ChildProcess, execFile } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { request } from "node:http";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { endGuarded, isRunning, spawnGuarded, untilTrue } from "@highwater/lab-tools/process";

/** The path of another Envoy, the only one that is then tried. */
export const ENVOY_VARIABLE = "HIGHWATER_ENVOY";

const FOLDER = fileURLToPath(new URL("../../../../.tools/envoy", import.meta.url));
const START_LIMIT_MS = 60_000;
const CALL_LIMIT_MS = 10_000;
const LOG_CHARS = 2_000;

/** The program's file, or undefined where there is none. */
export function findEnvoy(env: NodeJS.ProcessEnv = process.env, folder = FOLDER): string | undefined {
  const named = env[ENVOY_VARIABLE] ?? "";
  if (named !== "") return existsSync(named) ? named : undefined;
  const lib = join(folder, "lib");
  const pythons = existsSync(lib) ? readdirSync(lib) : [];
  return pythons.map((python) => join(lib, python, "site-packages/envoy/_bin/envoy")).find(existsSync);
}

/** Why this machine has no Envoy, for tests to skip; false when it has one. */
export function whyNoEnvoy(): string | false {
  if (findEnvoy() !== undefined) return false;
  return `no Envoy: neither does ${ENVOY_VARIABLE} name one, nor has \`make envoy\` installed one (Linux with glibc 2.31 or newer, Python 3.10 or newer with venv)`;
}

function program(): string {
  const found = findEnvoy();
  if (found === undefined) throw new Error(String(whyNoEnvoy()));
  return found;
}

/** Envoy's objections to a configuration; null when it has none. */
export function refusalOf(bootstrap: string): Promise<string | null> {
  const args = ["--mode", "validate", "-c", bootstrap, "--log-level", "error"];
  return new Promise((resolve) => {
    execFile(program(), args, { timeout: START_LIMIT_MS }, (error, stdout, stderr) => {
      resolve(error === null ? null : `${stdout}${stderr}`.slice(0, LOG_CHARS));
    });
  });
}

export interface EnvoyOptions {
  /** The configuration file, and the socket of the admin interface that it names. */
  readonly bootstrap: string;
  readonly adminSocket: string;
  readonly logFile: string;
}

interface ListenerStatus {
  readonly name: string;
  readonly local_address: { readonly socket_address?: { readonly port_value: number } };
}

export class Envoy implements AsyncDisposable {
  readonly #options: EnvoyOptions;
  readonly #child: ChildProcess;
  readonly #ports = new Map<string, number>();

  private constructor(options: EnvoyOptions, child: ChildProcess) {
    this.#options = options;
    this.#child = child;
  }

  /** Resolves when it serves, which is after the first check of its clusters. */
  static async start(options: EnvoyOptions): Promise<Envoy> {
    const args = [
      ...["-c", options.bootstrap, "--disable-hot-restart", "--concurrency", "1"],
      ...["--log-level", "warning", "--log-path", options.logFile],
    ];
    const child = spawnGuarded([program(), ...args], { detached: true });
    const envoy = new Envoy(options, child);
    try {
      await untilTrue(child, () => envoy.#isLive(), { limitMs: START_LIMIT_MS });
      await envoy.#learnPorts();
      return envoy;
    } catch (cause) {
      await envoy.stop();
      const log = await readFile(options.logFile, "utf8").catch(() => "");
      throw new Error(`Envoy does not serve: ${log.slice(-LOG_CHARS)}`, { cause });
    }
  }

  /** The port of a listener. */
  port(listener: string): number {
    const port = this.#ports.get(listener);
    if (port === undefined) throw new Error(`there is no listener ${listener}`);
    return port;
  }

  /** Calls the admin interface. */
  admin(path: string, method = "GET"): Promise<{ readonly status: number; readonly text: string }> {
    return new Promise((resolve, reject) => {
      const asked = request(
        { socketPath: this.#options.adminSocket, path, method, timeout: CALL_LIMIT_MS },
        (answer) => {
          let text = "";
          answer.setEncoding("utf8");
          answer.on("data", (piece: string) => (text += piece));
          answer.on("end", () => {
            resolve({ status: answer.statusCode ?? 0, text });
          });
          answer.on("error", reject);
        },
      );
      asked.on("timeout", () => asked.destroy(new Error("no answer in time")));
      asked.on("error", reject);
      asked.end();
    });
  }

  get running(): boolean {
    return isRunning(this.#child);
  }

  /** Ends it at once, with all its connections. */
  stop(): Promise<void> {
    return endGuarded(this.#child);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  async #isLive(): Promise<boolean> {
    return this.admin("/ready").then(
      ({ status }) => status === 200,
      () => false,
    );
  }

  async #learnPorts(): Promise<void> {
    const { text } = await this.admin("/listeners?format=json");
    const { listener_statuses: all } = JSON.parse(text) as { listener_statuses: readonly ListenerStatus[] };
    for (const { name, local_address: at } of all)
      if (at.socket_address !== undefined) this.#ports.set(name, at.socket_address.port_value);
  }
}
