// The command `doctor`: asks the nodes of a topology, and prints what the rules say.
import { readAuthority } from "@highwater/authority";
import { leaseFaults } from "@highwater/durability-tracker/config";
import { realClock } from "@highwater/runtime";
import { POSTGRES_DEFAULTS } from "@highwater/store";
import { type Call } from "../command.ts";
import { replayHoldOf, topologyOf } from "../deployment.ts";
import { badInput, EXIT_BAD_INPUT, EXIT_REFUSED } from "../refusal.ts";
import { askNodes } from "./ask.ts";
import { judgeDeployment } from "./deployment-rules.ts";
import { type Deployment, type Finding, type NodeFacts, type Severity } from "./facts.ts";
import { judgeServers } from "./server-rules.ts";

/** Besides its pools, a gateway asks, flushes and settles on sessions of its own. */
const HELPERS_OF_GATEWAY = 10;
const MAX_GATEWAYS = 10_000;
const SEVERITIES: readonly Severity[] = ["danger", "warning", "note"];

export async function run({ given, env, print }: Call): Promise<number> {
  const topology = topologyOf(given.only("topology"), env);
  const regions = new Set(topology.nodes.map(({ region }) => region)).size;
  const gateways = given.whole("gateways", { fallback: regions, min: 1, max: MAX_GATEWAYS });
  const authority = readAuthority(env);
  const nodes = await askNodes(topology.nodes, realClock);
  const deployment: Deployment = {
    topology,
    nodes,
    gateways,
    sessionsOfGateway:
      sizeOf(env, "GATEWAY_POOL_SIZE", POSTGRES_DEFAULTS.poolSize) +
      sizeOf(env, "GATEWAY_ROLE_POOL_SIZE", POSTGRES_DEFAULTS.rolePoolSize) +
      HELPERS_OF_GATEWAY,
    authorityFaults: [...authority.faults, ...leaseFaults(authority.settings, topology.levels)],
    isLease: authority.settings.kind === "lease",
    replayHold: replayHoldOf(env)?.says ?? null,
  };
  const findings = [...judgeDeployment(deployment), ...judgeServers(deployment)].sort(
    (a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity),
  );
  const exitCode = exitCodeOf(deployment, findings);
  print(given.flag("json") ? asJson(deployment, findings, exitCode) : asText(deployment, findings, exitCode));
  return exitCode;
}

function sizeOf(env: Call["env"], variable: string, fallback: number): number {
  const text = env[variable] ?? "";
  if (text === "") return fallback;
  if (!/^[0-9]{1,4}$/.test(text)) throw badInput(`${variable} must be a whole number`);
  return Number(text);
}

/** A node that was not checked may have any fault. */
function exitCodeOf({ nodes }: Deployment, findings: readonly Finding[]): number {
  if (nodes.some(({ server }) => server === null)) return EXIT_BAD_INPUT;
  return findings.some(({ severity }) => severity === "danger") ? EXIT_REFUSED : 0;
}

function asJson({ nodes }: Deployment, findings: readonly Finding[], exitCode: number): string {
  const described = nodes.map(({ spec: { id, region, zone }, server }) => ({
    id,
    region,
    zone,
    role: server?.report.role ?? null,
    version: server?.version ?? null,
    timeline: server?.timeline ?? null,
    clock: server?.clock ?? null,
  }));
  return JSON.stringify({ exitCode, nodes: described, findings }, null, 2);
}

function asText({ nodes }: Deployment, findings: readonly Finding[], exitCode: number): string {
  const lines = nodes.map(describe);
  for (const { severity, node, says, change } of findings) {
    lines.push("", `${severity.padEnd(7)}  ${node === null ? "" : `${node}: `}${says}`);
    if (change !== null) lines.push(`         ${change}`);
  }
  const count = (severity: Severity): number =>
    findings.filter((finding) => finding.severity === severity).length;
  const verdicts = [
    "nothing endangers promises",
    "promises are in danger",
    "some nodes could not be checked",
  ];
  lines.push(
    "",
    `${verdicts[exitCode] ?? ""}: ${SEVERITIES.map((severity) => `${String(count(severity))} ${severity}`).join(", ")}`,
  );
  return lines.join("\n");
}

function describe({ spec, server }: NodeFacts): string {
  const where = `${spec.region}/${spec.zone}`;
  if (server === null) return `${spec.id}  ${where}  not checked`;
  const { report, version, timeline } = server;
  return `${spec.id}  ${where}  ${report.role}, PostgreSQL ${version.split(" ")[0] ?? ""}, timeline ${String(timeline ?? "unknown")}`;
}
