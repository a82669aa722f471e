// The command `init`: asks the servers, writes the topology, and explains its levels.
import { writeFileSync } from "node:fs";
import { type Topology } from "@highwater/protocol";
import { parseTopology } from "@highwater/service";
import { roleUrl } from "@highwater/txn-gateway/role-url";
import { type Call } from "../command.ts";
import { badInput, EXIT_REFUSED, Refusal } from "../refusal.ts";
import { explainLevel, type ExplainedLevel, levelsFor, printLevel } from "../levels.ts";
import { whyNot } from "../postgres.ts";
import { SERVICE_ROLE } from "../roles.ts";
import { type GivenServer, readServers } from "./given-servers.ts";
import { type Place, placeNodes } from "./places.ts";
import { planNodes, type PlannedNode, type Surveyed } from "./plan.ts";
import { survey } from "./survey.ts";

const FILE = "topology.json";
const PRIVATE_MODE = 0o600;
const PUBLIC_MODE = 0o644;

export async function run({ given, print, note, ask }: Call): Promise<number> {
  const roles = { service: given.text("role") ?? SERVICE_ROLE, application: given.text("app-role") };
  const hasPasswords = given.flag("with-passwords");
  if (hasPasswords && (given.text("role") !== null || roles.application !== null))
    throw badInput("--with-passwords writes the strings as they are: leave --role and --app-role out");
  const servers = readServers(given.positionals);
  const plan = planNodes(await surveyAll(servers));
  if (!plan.ok) throw new Refusal(plan.faults, EXIT_REFUSED);
  const places = await placeNodes(plan.nodes, {
    given: given.all("region"),
    takesProposals: given.flag("yes"),
    ask,
    note,
  });
  const topology = topologyOf(plan.nodes, places, hasPasswords ? null : roles);
  const file = given.text("out") ?? FILE;
  write(file, topology, { isForced: given.flag("force"), hasPasswords });
  const levels = Object.entries(topology.levels).map(([name, rule]) =>
    explainLevel(name, rule, topology.nodes),
  );
  const made = { file, primary: plan.primary, nodes: plan.nodes, places, levels };
  print(given.flag("json") ? JSON.stringify(asJson(made, topology), null, 2) : asText(made));
  if (!given.flag("json")) note(nextSteps(made, roles, hasPasswords));
  return 0;
}

/** Errors: Refusal with every server that could not be asked. */
async function surveyAll(servers: readonly GivenServer[]): Promise<Surveyed[]> {
  const asked = await Promise.allSettled(
    servers.map(async (server) => ({ server, survey: await survey(server.url) })),
  );
  const faults = asked.flatMap((each, at) =>
    each.status === "rejected"
      ? [`${servers[at]?.address ?? ""} cannot be asked: ${whyNot(each.reason)}`]
      : [],
  );
  if (faults.length > 0) throw new Refusal(faults, EXIT_REFUSED);
  return asked.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
}

interface Roles {
  readonly service: string;
  readonly application: string | null;
}

/** `roles`: null keeps the strings as they were given. Errors: Faults. */
function topologyOf(
  nodes: readonly PlannedNode[],
  places: ReadonlyMap<string, Place>,
  roles: Roles | null,
): Topology {
  const specs = nodes.map(({ id, server: { url }, replication }) => ({
    id,
    region: places.get(id)?.region ?? id,
    zone: places.get(id)?.zone ?? "",
    url: roles === null ? url : roleUrl(url, roles.service, undefined),
    ...(roles?.application != null && { appUrl: roleUrl(url, roles.application, undefined) }),
    ...(replication != null && { replication }),
  }));
  return parseTopology(JSON.stringify({ nodes: specs, levels: levelsFor(specs) }));
}

function write(
  file: string,
  topology: Topology,
  { isForced, hasPasswords }: { readonly isForced: boolean; readonly hasPasswords: boolean },
): void {
  try {
    writeFileSync(file, `${JSON.stringify(topology, null, 2)}\n`, {
      flag: isForced ? "w" : "wx",
      mode: hasPasswords ? PRIVATE_MODE : PUBLIC_MODE,
    });
  } catch (cause) {
    const { code } = cause as { readonly code?: unknown };
    if (code === "EEXIST")
      throw new Refusal([`${file} exists: --force overwrites it, --out FILE writes another`], EXIT_REFUSED);
    throw new Refusal([`${file} cannot be written: ${String(code)}`], EXIT_REFUSED);
  }
}

interface Made {
  readonly file: string;
  readonly primary: PlannedNode;
  readonly nodes: readonly PlannedNode[];
  readonly places: ReadonlyMap<string, Place>;
  readonly levels: readonly ExplainedLevel[];
}

/** Without passwords: the topology is in the file. */
function asJson({ file, nodes, places, levels }: Made, topology: Topology): unknown {
  return {
    file,
    nodes: nodes.map(({ id, server, survey: { isReplica, version }, replication }) => ({
      id,
      role: isReplica ? "replica" : "primary",
      address: server.address,
      version,
      ...places.get(id),
      replication,
    })),
    levels: levels.map((level) => ({ ...level, rule: topology.levels[level.name] })),
  };
}

function asText({ file, nodes, places, levels }: Made): string {
  const rows = nodes.map(({ id, server, survey: { isReplica, version }, replication }) => [
    id,
    isReplica ? "replica" : "primary",
    server.address,
    `PostgreSQL ${version.split(" ")[0] ?? ""}`,
    `region ${places.get(id)?.region ?? ""}, zone ${places.get(id)?.zone ?? ""}`,
    replication != null && "applicationName" in replication
      ? `application_name ${String(replication.applicationName)}`
      : "",
  ]);
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  const table = rows.map((row) =>
    `  ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ")}`.trimEnd(),
  );
  return [
    `Written: ${file}`,
    "",
    "Nodes:",
    ...table,
    "",
    "Levels, weakest first. Clients choose one for each transaction:",
    ...levels.flatMap(printLevel),
  ].join("\n");
}

function nextSteps({ file, primary }: Made, roles: Roles, hasPasswords: boolean): string {
  const { database, user } = primary.survey;
  const application = roles.application === null ? "" : ` --app-role ${roles.application}`;
  const steps = [
    ...(hasPasswords
      ? []
      : [
          `make the services' role on the primary, as ${user}: highwater roles --role ${roles.service}${application} --database ${database} | psql …`,
          "if roles have passwords, put them into ~/.pgpass or PGPASSWORD of the services: the file has none",
        ]),
    `check everything: highwater doctor ${file}`,
    `start the services with HIGHWATER_TOPOLOGY=@${file}: highwater serve tracker (TRACKER_GATEWAYS=gateways' URLs), highwater serve gateway (GATEWAY_TRACKERS=trackers' URLs)`,
    `before ${primary.id} becomes a replica, set application_name=${primary.id} in its primary_conninfo`,
  ];
  return ["", "Next:", ...steps.map((step, at) => `  ${String(at + 1)}. ${step}`)].join("\n");
}
