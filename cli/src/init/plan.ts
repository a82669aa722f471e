// Makes nodes of what the servers say about themselves, or says why these servers make no topology.
// Pure.
import { type NodeSpec } from "@highwater/protocol";
import { nameStream, type Receiver, streamNameOf } from "../postgres.ts";
import { type GivenServer, NAME } from "./given-servers.ts";
import { type Survey } from "./survey.ts";

export interface Surveyed {
  readonly server: GivenServer;
  readonly survey: Survey;
}

export interface PlannedNode extends Surveyed {
  readonly id: string;
  /** Null: its stream has the node's name. */
  readonly replication: NodeSpec["replication"] | null;
}

export type Plan =
  | { readonly ok: true; readonly primary: PlannedNode; readonly nodes: readonly PlannedNode[] }
  | { readonly ok: false; readonly faults: readonly string[] };

/** PostgreSQL's name for a stream that has none of its own. */
const UNNAMED = new Set(["", "walreceiver"]);

export function planNodes(all: readonly Surveyed[]): Plan {
  for (const rule of [versionFaults, rightFaults, clusterFaults, primaryFaults]) {
    const faults = rule(all);
    if (faults.length > 0) return { ok: false, faults };
  }
  const [primary, ...replicas] = [...all].sort(
    (a, b) => Number(a.survey.isReplica) - Number(b.survey.isReplica),
  );
  if (primary === undefined) return { ok: false, faults: ["there is no server"] };
  const faults = [
    ...replicas.flatMap((replica) => streamFaults(replica, primary, all)),
    ...sharedNames(replicas),
  ];
  if (faults.length > 0) return { ok: false, faults };
  const named = nameNodes(primary, replicas);
  return "faults" in named ? { ok: false, faults: named.faults } : { ok: true, ...named };
}

function versionFaults(all: readonly Surveyed[]): string[] {
  return all.flatMap(({ server, survey }) =>
    survey.isOld
      ? [
          `${server.address} is PostgreSQL ${survey.version}, and Highwater needs 15 or newer: upgrade the cluster (pg_upgrade)`,
        ]
      : [],
  );
}

function rightFaults(all: readonly Surveyed[]): string[] {
  return all.flatMap(({ server, survey: { user, seesStreams } }) =>
    seesStreams
      ? []
      : [
          `${server.address}: the role ${user} may not see replication. Run on the primary: GRANT pg_monitor TO ${user};`,
        ],
  );
}

function clusterFaults(all: readonly Surveyed[]): string[] {
  const faults: string[] = [];
  const byCluster = Map.groupBy(all, ({ survey }) => survey.systemIdentifier);
  if (byCluster.size > 1) {
    const groups = [...byCluster].map(([id, members]) => `${addresses(members)} (system identifier ${id})`);
    faults.push(
      `these servers belong to ${String(byCluster.size)} clusters: ${groups.join("; ")}. A topology has one primary and its copies: leave the others out, or clone them from the primary (pg_basebackup)`,
    );
  }
  for (const same of Map.groupBy(all, ({ survey }) => survey.startedAt + survey.systemIdentifier).values())
    if (same.length > 1) faults.push(`${addresses(same)} are the same server: name each server once`);
  const databases = new Set(all.map(({ survey }) => survey.database));
  if (databases.size > 1)
    faults.push(
      `the connection strings name different databases: ${[...databases].join(", ")}. Highwater serves one: name the same in all`,
    );
  return faults;
}

function primaryFaults(all: readonly Surveyed[]): string[] {
  const primaries = all.filter(({ survey }) => !survey.isReplica);
  if (primaries.length > 1)
    return [
      `${addresses(primaries)} are all writable, and a cluster has one primary. If one of them is an old primary, stop it and make it a replica again (pg_rewind or pg_basebackup, with standby.signal); otherwise leave it out`,
    ];
  if (primaries.length === 1) return [];
  const sender = all
    .map(({ survey: { receiver } }) => receiver)
    .find((receiver) => receiver?.senderHost != null);
  const where = sender == null ? "" : ` They follow ${senderOf(sender)}`;
  return [`${addresses(all)} are all replicas.${where}. Name the primary as well`];
}

function streamFaults(replica: Surveyed, primary: Surveyed, all: readonly Surveyed[]): string[] {
  const { server, survey } = replica;
  const { receiver } = survey;
  if (receiver?.conninfo == null)
    return [
      `${server.address} is a replica, and no stream feeds it. Check primary_conninfo there and its log; pg_stat_wal_receiver shows the stream`,
    ];
  const name = streamNameOf(receiver.conninfo);
  const isSeenOn = ({ survey: { streams } }: Surveyed): boolean =>
    streams.some(({ applicationName }) => applicationName === name);
  if (UNNAMED.has(name))
    return [
      `${server.address} has no application_name, so the primary cannot say which stream is its own. ${howToName(replica)}`,
    ];
  if (isSeenOn(primary)) return [];
  const upstream = all.find((other) => other !== replica && isSeenOn(other));
  if (upstream !== undefined)
    return [
      `${server.address} follows the replica ${upstream.server.address}. Highwater counts a replica only if the primary feeds it: let primary_conninfo there name ${primary.server.address}`,
    ];
  return [
    `${server.address} follows ${senderOf(receiver)} as ${name}, and the primary ${primary.server.address} shows no such stream. Check primary_conninfo there`,
  ];
}

function sharedNames(replicas: readonly Surveyed[]): string[] {
  const byName = Map.groupBy(replicas, ({ survey }) => streamNameOf(survey.receiver?.conninfo ?? ""));
  return [...byName].flatMap(([name, same]) =>
    same.length > 1 && !UNNAMED.has(name)
      ? [
          `${addresses(same)} share the application_name ${name}. Give each its own. ${same.map(howToName).join(" ")}`,
        ]
      : [],
  );
}

function howToName({ server, survey }: Surveyed): string {
  const conninfo = survey.primaryConninfo ?? survey.receiver?.conninfo ?? "";
  return `Run on ${server.address}: ${nameStream(conninfo, server.name ?? suggestedName(server))}`;
}

function addresses(all: readonly Surveyed[]): string {
  return all.map(({ server }) => server.address).join(", ");
}

function senderOf({ senderHost, senderPort }: Receiver): string {
  return `${senderHost ?? "a server"}:${String(senderPort ?? 5_432)}`;
}

/** From the host's name; an address or the own machine says nothing, so the port stands for it. */
function suggestedName({ url }: GivenServer): string {
  const { hostname, port } = new URL(url);
  const [label = ""] = hostname.toLowerCase().split(".");
  const isName = NAME.test(label) && !/^[0-9]+$/.test(label) && label !== "localhost";
  return isName ? label : `node-${port === "" ? "5432" : port}`;
}

function nameNodes(
  primary: Surveyed,
  replicas: readonly Surveyed[],
):
  | { readonly primary: PlannedNode; readonly nodes: readonly PlannedNode[] }
  | { readonly faults: readonly string[] } {
  const nodes = replicas.map((replica): PlannedNode => {
    const applicationName = streamNameOf(replica.survey.receiver?.conninfo ?? "");
    const id = replica.server.name ?? asNodeName(applicationName) ?? suggestedName(replica.server);
    return { ...replica, id, replication: id === applicationName ? null : { applicationName } };
  });
  const former = asNodeName(streamNameOf(primary.survey.primaryConninfo ?? ""));
  const id =
    primary.server.name ?? former ?? asNodeName(primary.survey.clusterName) ?? suggestedName(primary.server);
  const first: PlannedNode = { ...primary, id, replication: null };
  const all = [first, ...nodes];
  const faults = [...Map.groupBy(all, (node) => node.id)].flatMap(([name, same]) =>
    same.length > 1
      ? [
          `${addresses(same)} would both be the node ${name}. Name them yourself: highwater init ONE=postgresql://… OTHER=postgresql://…`,
        ]
      : [],
  );
  return faults.length > 0 ? { faults } : { primary: first, nodes: all };
}

function asNodeName(text: string): string | null {
  const name = text.toLowerCase().replaceAll(/[^a-z0-9_-]+/g, "-");
  return NAME.test(name) && !UNNAMED.has(name) ? name : null;
}
