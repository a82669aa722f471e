// What an applied example would run, read from Terraform's own state. The containers of every task as ECS gets them, the names
// under which tasks find each other, the nodes of the store with their parameters, and who may talk to whom. A snapshot of it is
// committed, from which `deployed.slow.test.ts` starts the system where there is no Terraform; infra-test says when it
// is not what the modules render any more.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { jsonLines } from "@highwater/lab-tools/json";
import { ROOT } from "./tools.ts";

export const SNAPSHOT = join(ROOT, "test/rendered/three-regions.json");

/** As ECS takes it; its environment and secrets by name. */
export interface Container {
  readonly name: string;
  readonly essential: boolean;
  readonly entryPoint?: readonly string[];
  readonly command?: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** By variable, where its value comes from. */
  readonly secrets: Readonly<Record<string, string>>;
  readonly healthCheck?: { readonly command: readonly string[] };
  readonly dependsOn?: readonly { readonly containerName: string; readonly condition: string }[];
  readonly portMappings?: readonly { readonly containerPort: number }[];
  readonly stopTimeout?: number;
}

export interface RenderedTask {
  /** How many of it run; null when nothing starts it by itself. */
  readonly count: number | null;
  /** The private name under which its address is found; null when it has none. */
  readonly name: string | null;
  readonly containers: readonly Container[];
  readonly rules: Rules;
}

/** Of the security groups, as `CIDR PORT`, or `GROUP PORT` with the group's name. */
export interface Rules {
  /** The groups themselves. */
  readonly groups: readonly string[];
  readonly ingress: readonly string[];
  readonly egress: readonly string[];
}

export interface RenderedDatabase {
  readonly isReplica: boolean;
  readonly engineVersion: string;
  readonly host: string;
  readonly port: number;
  /** Null: the source's. */
  readonly database: string | null;
  readonly user: string | null;
  readonly parameters: Readonly<Record<string, string>>;
  readonly rules: Rules;
}

export interface RenderedRegion {
  /** Ranges of the subnets of tasks and of databases. */
  readonly subnets: { readonly service: readonly string[]; readonly data: readonly string[] };
  readonly database: RenderedDatabase;
  /** By service; what no service starts, as the set-up's, by what its family adds to the cluster's name. */
  readonly tasks: Readonly<Record<string, RenderedTask>>;
  /** By which the load balancer passes requests on to an edge. */
  readonly protocol: string;
  /** What the load balancer asks an edge, by port. */
  readonly health: { readonly port: number; readonly path: string; readonly matcher: string };
}

export interface Rendered {
  /** What the documented commands are given. */
  readonly topology: string;
  readonly secrets: Readonly<Record<string, string>>;
  readonly regions: Readonly<Record<string, RenderedRegion>>;
}

interface Resource {
  readonly type: string;
  readonly index?: string | number;
  readonly values: Readonly<Record<string, unknown>>;
}

interface Module {
  readonly address?: string;
  readonly resources?: readonly Resource[];
  readonly child_modules?: readonly Module[];
}

export function readSnapshot(): Rendered {
  return JSON.parse(readFileSync(SNAPSHOT, "utf8")) as Rendered;
}

/** Regions, their parts and their tasks have a line each. */
const DEPTH = 4;

/** JSON with sorted properties: the provider's own JSON texts come in another order each time. */
export function toText(rendered: Rendered): string {
  return jsonLines(JSON.parse(JSON.stringify(rendered, sorted)), DEPTH);
}

function sorted(_: string, value: unknown): unknown {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
    : value;
}

/** What AWS makes up behind the name of a secret and for a workspace is another one each time. */
const MADE_UP: readonly (readonly [RegExp, string])[] = [
  [/(:secret:[A-Za-z0-9/_-]+)-[A-Za-z0-9]{6}/g, "$1-000000"],
  [/\/ws-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "/ws-00000000-0000-0000-0000-000000000000"],
];

/** From `terraform show -json` of an applied example. */
export function renderState(shown: string): Rendered {
  const { values } = JSON.parse(shown) as {
    values: { outputs: Readonly<Record<string, { value: unknown }>>; root_module: Module };
  };
  const modules = values.root_module.child_modules ?? [];
  const named = (what: string): readonly Module[] =>
    modules.filter(({ address = "" }) => address.startsWith(`module.${what}_`));
  const networks = named("network");
  const stores = named("store");
  const edges = named("edge");
  const setUpGroups =
    /securityGroups=\[([^\]]*)\]/.exec(text(values.outputs["setup_command"]?.value))?.[1]?.split(",") ?? [];
  const regions = named("service").map((service): [string, RenderedRegion] => {
    const directory = (service.address ?? "").slice("module.service_".length);
    const its = (all: readonly Module[]): Module =>
      only(all.filter(({ address = "" }) => address.endsWith(`_${directory}`)));
    return regionOf({ service, edge: its(edges), store: its(stores), network: its(networks), setUpGroups });
  });
  const secrets = modules.find(({ address }) => address === "module.secrets");
  const rendered: Rendered = {
    topology: text(values.outputs["topology_json"]?.value),
    secrets: Object.fromEntries(
      ofType(secrets, "aws_secretsmanager_secret").map(({ index, values: secret }) => [
        String(index),
        text(secret["name"]),
      ]),
    ),
    regions: Object.fromEntries(regions.sort(([a], [b]) => (a < b ? -1 : 1))),
  };
  return JSON.parse(
    MADE_UP.reduce((json, [id, same]) => json.replaceAll(id, same), JSON.stringify(rendered)),
  ) as Rendered;
}

interface TaskParts {
  readonly service: Module;
  /** The load balancer. */
  readonly edge: Module;
  readonly store: Module;
  readonly network: Module;
  /** The security groups that the documented command gives to the task of the set-up. */
  readonly setUpGroups: readonly string[];
}

function regionOf({ service, edge, store, network, setUpGroups }: TaskParts): [string, RenderedRegion] {
  const rules = rulesOf(service, store, edge);
  const namespace = text(only(ofType(service, "aws_service_discovery_private_dns_namespace")).values["name"]);
  const names = new Map(
    ofType(service, "aws_service_discovery_service").map(({ values }) => [
      text(values["arn"]),
      `${text(values["name"])}.${namespace}`,
    ]),
  );
  const cluster = text(only(ofType(service, "aws_ecs_cluster")).values["name"]);
  const services = ofType(service, "aws_ecs_service").map(({ values }) => values);
  const tasks = ofType(service, "aws_ecs_task_definition").map(({ values: task }): [string, RenderedTask] => {
    const running = services.find(({ task_definition }) => task_definition === task["arn"]);
    const registries = (running?.["service_registries"] ?? []) as readonly {
      readonly registry_arn: string;
    }[];
    const [inside] = (running?.["network_configuration"] ?? []) as readonly {
      readonly security_groups: readonly string[];
    }[];
    return [
      running === undefined ? text(task["family"]).slice(cluster.length + 1) : text(running["name"]),
      {
        count: running === undefined ? null : Number(running["desired_count"]),
        name: names.get(registries[0]?.registry_arn ?? "") ?? null,
        containers: (JSON.parse(text(task["container_definitions"])) as readonly RawContainer[]).map(
          containerOf,
        ),
        rules: rules(...(inside?.security_groups ?? setUpGroups)),
      },
    ];
  });
  const region = namespace.split(".")[0] ?? "";
  const { values: targets } = only(ofType(service, "aws_lb_target_group"));
  const [check] = targets["health_check"] as readonly {
    readonly port: string;
    readonly path: string;
    readonly matcher: string;
  }[];
  return [
    region,
    {
      subnets: { service: subnetsOf(network, "service"), data: subnetsOf(network, "data") },
      database: databaseOf(store, rules),
      tasks: Object.fromEntries(tasks.sort(([a], [b]) => (a < b ? -1 : 1))),
      protocol: text(targets["protocol"]),
      health: { port: Number(check?.port), path: text(check?.path), matcher: text(check?.matcher) },
    },
  ];
}

function databaseOf(store: Module, rules: ReturnType<typeof rulesOf>): RenderedDatabase {
  const { values } = only(ofType(store, "aws_db_instance"));
  const { values: group } = only(ofType(store, "aws_db_parameter_group"));
  const isReplica = (values["replicate_source_db"] ?? "") !== "";
  const parameters = group["parameter"] as readonly { readonly name: string; readonly value: string }[];
  return {
    isReplica,
    engineVersion: isReplica ? "" : text(values["engine_version"]),
    host: text(values["address"]),
    port: Number(values["port"]),
    database: isReplica ? null : text(values["db_name"]),
    user: isReplica ? null : text(values["username"]),
    parameters: Object.fromEntries(
      [...parameters].sort((a, b) => (a.name < b.name ? -1 : 1)).map(({ name, value }) => [name, value]),
    ),
    rules: rules(...(values["vpc_security_group_ids"] as readonly string[])),
  };
}

function subnetsOf(network: Module, tier: string): string[] {
  const its = ofType(network, "aws_subnet").filter(({ index }) => String(index).startsWith(`${tier}/`));
  return its.map(({ values }) => text(values["cidr_block"])).sort();
}

/** The rules of groups, by their ids. Rules that name neither a range nor one of the groups are about AWS itself. */
function rulesOf(...modules: readonly Module[]): (...groups: readonly string[]) => Rules {
  const all = (direction: string): Resource[] =>
    modules.flatMap((module) => ofType(module, `aws_vpc_security_group_${direction}_rule`));
  const names = new Map(
    modules
      .flatMap((module) => ofType(module, "aws_security_group"))
      .map(({ values }) => [text(values["id"]), text(values["name"])]),
  );
  const otherSide = ({ values }: Resource): string =>
    names.get(text(values["referenced_security_group_id"] ?? "")) ?? text(values["cidr_ipv4"] ?? "");
  const pick = (direction: string, groups: readonly string[]): string[] =>
    all(direction)
      .filter(
        ({ values }) => groups.includes(text(values["security_group_id"])) && values["ip_protocol"] === "tcp",
      )
      .filter((rule) => otherSide(rule) !== "" && rule.values["from_port"] === rule.values["to_port"])
      .map((rule) => `${otherSide(rule)} ${String(rule.values["from_port"])}`)
      .sort();
  return (...groups) => ({
    groups: groups.map((id) => names.get(id) ?? id).sort(),
    ...{ ingress: pick("ingress", groups), egress: pick("egress", groups) },
  });
}

type RawContainer = Omit<Container, "environment" | "secrets"> & {
  readonly environment?: readonly { readonly name: string; readonly value: string }[];
  readonly secrets?: readonly { readonly name: string; readonly valueFrom: string }[];
};

function containerOf({ environment = [], secrets = [], ...others }: RawContainer): Container {
  return {
    ...others,
    environment: byName(environment.map(({ name, value }) => [name, value])),
    secrets: byName(secrets.map(({ name, valueFrom }) => [name, valueFrom])),
  };
}

function byName(pairs: readonly (readonly [string, string])[]): Record<string, string> {
  const found = Object.fromEntries(pairs);
  if (Object.keys(found).length !== pairs.length) throw new Error("a variable is set twice");
  return found;
}

function ofType(module: Module | undefined, type: string): readonly Resource[] {
  const here = (module?.resources ?? []).filter((resource) => resource.type === type);
  return [...here, ...(module?.child_modules ?? []).flatMap((child) => ofType(child, type))];
}

function only<T>(all: readonly T[]): T {
  const [one, ...more] = all;
  if (one === undefined || more.length > 0)
    throw new Error(`there should be one, and there are ${String(all.length)}`);
  return one;
}

function text(value: unknown): string {
  if (typeof value !== "string") throw new Error(`not a text: ${JSON.stringify(value)}`);
  return value;
}
