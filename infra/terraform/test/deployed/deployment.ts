// The rendered system on one machine: the databases, and every task that would run at first, each with an address of its own and
// in the network of its region.
import { mkdirSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Container, type Rendered, type RenderedRegion, type RenderedTask } from "../rendered.ts";
import { Databases } from "./databases.ts";
import { LoadBalancer, type Target } from "./load-balancer.ts";
import { NameServer } from "./name-server.ts";
import { Task } from "./task.ts";

/** One of the edges of a region; they are all alike. */
const EDGE = "edge";
const SETUP = "setup";

/** By secret; the value of one that holds several is an object of them. */
export interface SecretValues {
  readonly master: string;
  readonly service: Readonly<Record<string, string>>;
  readonly deployment: readonly unknown[];
  readonly gateways: Readonly<Record<string, string>>;
  readonly tls: Readonly<Record<string, string>>;
}

/** The parts of a loopback address of this run, 127.RUN.REGION.TASK. */
const pickRun = (): number => 64 + Math.floor(Math.random() * 128);

interface Ground {
  readonly rendered: Rendered;
  readonly secrets: SecretValues;
  readonly databases: Databases;
  readonly folder: string;
}

interface Planned {
  readonly region: string;
  readonly service: string;
  readonly rendered: RenderedTask;
  readonly address: string;
}

export class Deployment implements AsyncDisposable {
  readonly databases: Databases;
  readonly rendered: Rendered;
  /** All but the set-up, by region and service. */
  readonly tasks: ReadonlyMap<string, ReadonlyMap<string, Task>>;
  /** The set-up's. */
  readonly setup: Task;
  readonly names: NameServer;
  readonly #balancers: ReadonlyMap<string, LoadBalancer>;
  readonly #folder: string;

  private constructor(
    parts: Pick<Deployment, "databases" | "rendered" | "tasks" | "setup" | "names">,
    balancers: ReadonlyMap<string, LoadBalancer>,
    folder: string,
  ) {
    this.databases = parts.databases;
    this.rendered = parts.rendered;
    this.tasks = parts.tasks;
    this.setup = parts.setup;
    this.names = parts.names;
    this.#balancers = balancers;
    this.#folder = folder;
  }

  /** Starts the databases, and plans the tasks; none of them runs yet. */
  static async prepare(rendered: Rendered, secrets: SecretValues): Promise<Deployment> {
    const databases = await Databases.start(rendered, secrets.master);
    // Short: the name of a socket has little room.
    const folder = await mkdtemp(join(tmpdir(), "hw-"));
    try {
      return await Deployment.#plan({ rendered, secrets, databases, folder });
    } catch (cause) {
      await databases.cluster.close();
      await rm(folder, { recursive: true, force: true });
      throw cause;
    }
  }

  static async #plan({ rendered, secrets, databases, folder }: Ground): Promise<Deployment> {
    const run = pickRun();
    const planned = plan(rendered, run);
    const byName = new Map(
      planned.flatMap(({ rendered: { name }, address }) => (name === null ? [] : [[name, address]])),
    );
    const names = await NameServer.start(`127.${String(run)}.0.53`, (name) => byName.get(name));
    const routes = new Map<string, Record<string, readonly [string, number]>>();
    for (const region of Object.keys(rendered.regions))
      routes.set(region, await routesFrom(region, { databases, planned, rendered }));
    const tasks = planned.map(
      ({ region, service, rendered: task, address }, index): [string, string, Task] => {
        const directory = join(folder, String(index));
        mkdirSync(directory);
        const network = { address, routes: routes.get(region) ?? {} };
        const secret = (valueFrom: string): string => valueOf(valueFrom, { region, rendered, secrets });
        const { authority } = databases;
        const made = { folder: directory, network, secret, authorities: authority.certificate, names };
        return [region, service, new Task(`${region} ${service}`, task, made)];
      },
    );
    const setup = tasks.find(([, service]) => service === SETUP)?.[2];
    if (setup === undefined) throw new Error("no region has the task of the set-up");
    const byRegion = new Map(
      Object.keys(rendered.regions).map((region) => [
        region,
        new Map(
          tasks.filter(([at, name]) => at === region && name !== SETUP).map(([, name, task]) => [name, task]),
        ),
      ]),
    );
    const balancers = new Map<string, LoadBalancer>();
    for (const { region, service, address: host } of planned)
      if (service === EDGE) balancers.set(region, await LoadBalancer.start(targetOf(rendered, region, host)));
    return new Deployment({ databases, rendered, tasks: byRegion, setup, names }, balancers, folder);
  }

  get regions(): string[] {
    return [...this.tasks.keys()];
  }

  /** Of a region, or of all. */
  all(region?: string): Task[] {
    const regions = region === undefined ? this.regions : [region];
    return regions.flatMap((each) => [...(this.tasks.get(each)?.values() ?? [])]);
  }

  /** Gateways and trackers. */
  services(region?: string): Task[] {
    return this.all(region).filter((task) => !this.edges(region).includes(task));
  }

  /** A gateway or a tracker of the region, whose environment and place in the network an operator's commands use. */
  slot(region: string, kind: "gateway" | "tracker"): Task {
    const found = [...(this.tasks.get(region) ?? [])].find(([name]) => name.startsWith(`${region}-${kind}-`));
    if (found === undefined) throw new Error(`${region} has no ${kind}`);
    return found[1];
  }

  edges(region?: string): Task[] {
    const regions = region === undefined ? this.regions : [region];
    return regions.flatMap((each) => this.tasks.get(each)?.get(EDGE) ?? []);
  }

  /** Where clients reach a region. */
  edgeUrl(region: string): string {
    const balancer = this.#balancers.get(region);
    if (balancer === undefined) throw new Error(`${region} has no edge`);
    return balancer.url;
  }

  /** What the load balancer asks before it sends anything there. */
  async isTargetHealthy(region: string): Promise<boolean> {
    const { port, path, matcher } = regionOf(this.rendered, region).health;
    const [edge] = this.edges(region);
    const answer = await fetch(`http://${edge?.address ?? ""}:${String(port)}${path}`).catch(() => null);
    await answer?.arrayBuffer();
    return String(answer?.status) === matcher;
  }

  /** The loss of a region: its database and every task in it, at once, and with them all ways there. */
  async killRegion(region: string): Promise<void> {
    this.#balancers.get(region)?.close();
    await Promise.all([this.databases.cluster.kill(region), ...this.all(region).map((task) => task.kill())]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const balancer of this.#balancers.values()) balancer.close();
    await Promise.all(this.all().map((task) => task.kill()));
    this.names.close();
    await this.databases.cluster.close();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

function regionOf(rendered: Rendered, region: string): RenderedRegion {
  const found = rendered.regions[region];
  if (found === undefined) throw new Error(`there is no region ${region}`);
  return found;
}

/** Every task that would run at first, and the set-up's. */
function plan(rendered: Rendered, run: number): Planned[] {
  return Object.entries(rendered.regions).flatMap(([region, { tasks }], at) =>
    Object.entries(tasks)
      .filter(([service, { count }]) => (count ?? 0) > 0 || service === SETUP)
      .map(([service, task], index) => ({
        ...{ region, service, rendered: task },
        address: `127.${String(run)}.${String(at + 1)}.${String(index + 1)}`,
      })),
  );
}

interface Reached {
  readonly databases: Databases;
  readonly planned: readonly Planned[];
  readonly rendered: Rendered;
}

/** By `NAME:PORT`, where it is for the tasks of a region: its own directly, those of others over the links between them. */
async function routesFrom(
  from: string,
  { databases, planned, rendered }: Reached,
): Promise<Record<string, readonly [string, number]>> {
  const { cluster } = databases;
  const routes: Record<string, readonly [string, number]> = {};
  for (const [region, { database }] of Object.entries(rendered.regions)) {
    const url = new URL(await cluster.connectionString(region, { from }));
    routes[`${database.host}:${String(database.port)}`] = [url.hostname, Number(url.port)];
  }
  for (const { region: to, rendered: task, address } of planned) {
    if (task.name === null) continue;
    for (const port of portsOf(task.containers))
      routes[`${task.name}:${String(port)}`] =
        from === to
          ? [address, port]
          : ["127.0.0.1", (await cluster.relay({ from, to, host: address, port })).port];
  }
  return routes;
}

function portsOf(containers: readonly Container[]): number[] {
  return containers.flatMap(({ portMappings = [] }) =>
    portMappings.map(({ containerPort }) => containerPort),
  );
}

function targetOf(rendered: Rendered, region: string, host: string): Target {
  const { tasks, health, protocol } = regionOf(rendered, region);
  const [port, ...more] = portsOf(tasks[EDGE]?.containers ?? []).filter((each) => each !== health.port);
  if (port === undefined || more.length > 0) throw new Error("an edge should have one port for requests");
  return { protocol, host, port };
}

interface Vault {
  readonly region: string;
  readonly rendered: Rendered;
  readonly secrets: SecretValues;
}

/** ECS starts no task that names a secret which is not there, or not in its own region. */
function valueOf(valueFrom: string, { region, rendered, secrets }: Vault): string {
  const [, , , where, , , named = "", key = ""] = valueFrom.split(":");
  const name = named.replace(/-[A-Za-z0-9]{6}$/, "");
  const found = Object.entries(rendered.secrets).find(([, each]) => each === name)?.[0] as
    | keyof SecretValues
    | undefined;
  if (found === undefined || where !== region) throw new Error(`${region} has no secret ${valueFrom}`);
  const value = secrets[found];
  if (key === "") return typeof value === "string" ? value : JSON.stringify(value);
  const part = typeof value === "string" ? undefined : (value as SecretValues["service"])[key];
  if (part === undefined) throw new Error(`the secret ${name} has no ${key}`);
  return part;
}
