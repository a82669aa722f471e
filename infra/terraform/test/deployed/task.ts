// A task as ECS runs it, as far as processes can. Its containers start in the order that they ask for, each with exactly the environment
// of its definition, its secrets looked up where the definition says, and its health check carried out as it is written.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { createWriteStream, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { get } from "node:https";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type TLSSocket } from "node:tls";
import { promisify } from "node:util";
import { findEnvoy, whyNoEnvoy } from "@highwater/lab-tools/envoy";
import { endGuarded, isRunning, spawnGuarded } from "@highwater/lab-tools/process";
import { type Container, type RenderedTask } from "../rendered.ts";
import { NETWORK_VARIABLE, type OwnNetwork } from "./own-network.ts";

const ROOT = fileURLToPath(new URL("../../../..", import.meta.url));
const PRELOADS = [
  new URL("own-network.ts", import.meta.url).href,
  new URL("../../../../lab/system/src/exit-with-parent.ts", import.meta.url).href,
];
const RUN_LIMIT_MS = 120_000;
const LOG_CHARS = 2_000;
/** What is run from other images than the service's; only Envoy is on this machine. */
const NOT_RUN = new Set(["collector"]);

/** What the image gives to every program in it. */
const IMAGE_ENVIRONMENT = Object.fromEntries(
  [...readFileSync(join(ROOT, "infra/image/Dockerfile"), "utf8").matchAll(/^ENV (\w+)=(\S+)$/gm)].map(
    ([, name = "", value = ""]) => [name, value],
  ),
);

export interface TaskHost {
  /** Stands for the root of the task's file system. */
  readonly folder: string;
  readonly network: OwnNetwork;
  /** The value that `valueFrom` names; it throws where ECS would not start the task. */
  readonly secret: (valueFrom: string) => string;
  /** What its databases are signed by. */
  readonly authorities: string;
  /** Where Envoy asks for names. */
  readonly names: { readonly address: string; readonly port: number };
}

/** To a program, beside what its task has. */
export interface Given {
  readonly env?: Readonly<Record<string, string>>;
  /** Its standard input. */
  readonly input?: string;
}

export interface Ended {
  readonly code: number;
  readonly output: string;
}

/** To a request; a status of 0 where there is none. */
export interface ProbeResult {
  readonly status: number;
  /** The fingerprint of what was shown. */
  readonly certificate: string;
}

export class Task {
  readonly name: string;
  readonly address: string;
  readonly logFile: string;
  readonly #rendered: RenderedTask;
  readonly #taskHost: TaskHost;
  #child: ChildProcess | undefined;

  constructor(name: string, rendered: RenderedTask, taskHost: TaskHost) {
    this.name = name;
    this.address = taskHost.network.address;
    this.logFile = join(taskHost.folder, "log");
    this.#rendered = rendered;
    this.#taskHost = taskHost;
    for (const folder of ["etc/highwater", "etc/highwater-edge", "var/lib/highwater"])
      mkdirSync(join(taskHost.folder, folder), { recursive: true });
    writeFileSync(join(taskHost.folder, "etc/highwater/rds-authorities.pem"), taskHost.authorities);
  }

  /** The end of its log. */
  lastLines(): string {
    return `${this.name}: ${this.log().slice(-LOG_CHARS)}`;
  }

  log(): string {
    return existsSync(this.logFile) ? readFileSync(this.logFile, "utf8") : "";
  }

  /** As its definition has it. */
  get environment(): Readonly<Record<string, string>> {
    return this.#service().environment;
  }

  /** As its callers ask it, who want a certificate of the authority for its private name. */
  ask(path: string): Promise<ProbeResult> {
    const { portMappings = [], secrets } = this.#service();
    const at = { host: this.address, port: portMappings[0]?.containerPort, path, agent: false } as const;
    const ca = this.#taskHost.secret(secrets["HIGHWATER_TLS_CA"] ?? "");
    return new Promise((resolve) => {
      get({ ...at, ca, servername: this.#rendered.name ?? "" }, (answer) => {
        const { fingerprint256 } = (answer.socket as TLSSocket).getPeerCertificate();
        answer.resume().once("close", () => {
          resolve({ status: answer.statusCode ?? 0, certificate: fingerprint256 });
        });
      }).once("error", () => {
        resolve({ status: 0, certificate: "" });
      });
    });
  }

  get running(): boolean {
    return this.#child !== undefined && isRunning(this.#child);
  }

  /** Starts its containers; those that others wait for have then ended well. */
  async start(): Promise<void> {
    const { containers } = this.#rendered;
    const first = new Set(
      containers.flatMap(({ dependsOn = [] }) =>
        dependsOn
          .filter(({ condition }) => condition === "SUCCESS")
          .map(({ containerName }) => containerName),
      ),
    );
    for (const container of containers.filter(({ name }) => first.has(name))) {
      const { code, output } = await this.#run(container, container.command ?? []);
      if (code !== 0)
        throw new Error(`${this.name}: ${container.name} ended with ${String(code)}: ${output}`);
    }
    const others = containers.filter(({ name }) => !first.has(name) && !NOT_RUN.has(name));
    if (others.length !== 1)
      throw new Error(`${this.name}: one container should run, not ${String(others.length)}`);
    for (const container of others) this.#child = this.#spawn(container);
  }

  /** The one container of a task that does something and ends. */
  runOnce(): Promise<Ended> {
    return this.#run(this.#service(), this.#service().command ?? []);
  }

  /** Another program of the image with the same environment and network, as an operator runs it in place of the task's own. */
  runProgram(command: readonly string[], { env = {}, input = "" }: Given = {}): Promise<Ended> {
    const container = this.#service();
    return this.#run({ ...container, environment: { ...container.environment, ...env } }, command, input);
  }

  /** Null when the definition has no health check. */
  async checkHealth(): Promise<Ended | null> {
    const [kind, ...command] = this.#service().healthCheck?.command ?? [];
    if (kind === undefined) return null;
    if (kind !== "CMD") throw new Error(`${this.name}: ${kind} is not known to this test`);
    return this.#run(this.#service(), command);
  }

  /** As if its host had lost power. */
  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || !isRunning(child)) return;
    if (this.#isEnvoy()) return endGuarded(child);
    const ended = exitOf(child);
    child.kill("SIGKILL");
    await ended;
  }

  /** As ECS ends it; answers its exit code, or null when it did not end in the time that its definition allows. */
  async stop(): Promise<number | null> {
    const child = this.#child;
    if (child === undefined || !isRunning(child)) return null;
    const ended = exitOf(child);
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), 1_000 * (this.#service().stopTimeout ?? 30));
    const code = await ended;
    clearTimeout(timer);
    return code;
  }

  #service(): Container {
    const container = this.#rendered.containers.find(({ essential }) => essential);
    if (container === undefined) throw new Error(`${this.name} has no container`);
    return container;
  }

  #isEnvoy(): boolean {
    return this.#service().entryPoint?.[0] === "envoy";
  }

  /** Of the substitutions, those of paths and of the address at which an edge listens. */
  #rooted(text: string): string {
    return text.replaceAll(/\/(?:etc|var\/lib)\/highwater/g, `${this.#taskHost.folder}$&`);
  }

  #environment({ environment, secrets }: Container): Record<string, string> {
    const { network, secret } = this.#taskHost;
    const rooted = Object.entries(environment).map(([name, value]) => [
      name,
      name === "EDGE_SOURCE"
        ? this.#rooted(value).replaceAll('"0.0.0.0"', `"${this.address}"`)
        : this.#rooted(value),
    ]);
    const mark = process.env["HIGHWATER_TEST_RUN"];
    return {
      ...IMAGE_ENVIRONMENT,
      ...(Object.fromEntries(rooted) as Record<string, string>),
      ...Object.fromEntries(Object.entries(secrets).map(([name, valueFrom]) => [name, secret(valueFrom)])),
      // The image's Node, and what stands for the task's network. The runner of all tests looks for what was left running.
      PATH: `${dirname(process.execPath)}:/usr/bin:/bin`,
      NODE_OPTIONS: PRELOADS.map((url) => `--import=${url}`).join(" "),
      [NETWORK_VARIABLE]: JSON.stringify(network),
      ...(mark !== undefined && { HIGHWATER_TEST_RUN: mark }),
    };
  }

  async #run(container: Container, [program = "", ...args]: readonly string[], input = ""): Promise<Ended> {
    const options = { cwd: ROOT, env: this.#environment(container), timeout: RUN_LIMIT_MS };
    try {
      const rooted = args.map((arg) => this.#rooted(arg));
      const running = promisify(execFile)(program, rooted, options);
      // It may end without having read it.
      running.child.stdin?.on("error", () => undefined).end(input);
      const { stdout, stderr } = await running;
      return { code: 0, output: stdout === "" ? stderr : stdout };
    } catch (cause) {
      const { code, stdout, stderr } = cause as { code?: unknown; stdout: string; stderr: string };
      if (typeof code !== "number") throw cause;
      return { code, output: stdout === "" ? stderr : stdout };
    }
  }

  #spawn(container: Container): ChildProcess {
    const [program = "", ...args] = [...(container.entryPoint ?? []), ...(container.command ?? [])].map(
      (word) => this.#rooted(word),
    );
    const child = this.#isEnvoy()
      ? spawnGuarded([envoy(), ...args, ...this.#envoyArguments()], { stderr: "pipe", detached: true })
      : spawn(program, args, {
          cwd: ROOT,
          env: this.#environment(container),
          // Its own group, so that Ctrl-C in a terminal reaches it only through its parent.
          detached: true,
          stdio: ["ignore", "ignore", "pipe", "ipc"],
        });
    child.stderr?.pipe(createWriteStream(this.logFile, { flags: "a" }));
    return child;
  }

  #envoyArguments(): string[] {
    const { address, port } = this.#taskHost.names;
    const resolver = {
      name: "envoy.network.dns_resolver.cares",
      typed_config: {
        "@type": "type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig",
        resolvers: [{ socket_address: { address, port_value: port } }],
        dns_resolver_options: { no_default_search_domain: true },
      },
    };
    return [
      "--use-dynamic-base-id",
      "--config-yaml",
      JSON.stringify({ typed_dns_resolver_config: resolver }),
    ];
  }
}

function envoy(): string {
  const found = findEnvoy();
  if (found === undefined) throw new Error(String(whyNoEnvoy()));
  return found;
}

async function exitOf(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve) => child.once("exit", resolve));
}
