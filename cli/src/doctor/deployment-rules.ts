// The rules about the servers together: who is the primary, which replica feeds from it, and which
// levels can be reached. Pure.
import { type NodeSpec, topologyFaults, topologyWarnings } from "@highwater/protocol";
import { ReplicaStreams } from "@highwater/store";
import { nameStream, streamNameOf } from "../postgres.ts";
import { type Deployment, type Finding, type NodeFacts, type Server, type Stream } from "./facts.ts";

/** Without events, retention and ids: what trackers and gateways take as a difference of clocks. */
const CLOCKS_APART_MS = 60_000;
const LAG_BYTES = 256 * 2 ** 20;
const KEPT_BYTES = 16 * 2 ** 30;
const MEBIBYTE = 2 ** 20;

interface Answered extends NodeFacts {
  readonly server: Server;
}

export function judgeDeployment(deployment: Deployment): Finding[] {
  const answered = deployment.nodes.filter((node): node is Answered => node.server !== null);
  const primaries = answered.filter(({ server }) => server.report.role === "primary");
  const [primary] = primaries;
  const isWhole = answered.length === deployment.nodes.length;
  return [
    ...silent(deployment),
    ...cluster(answered),
    ...whoIsPrimary(primaries, answered, isWhole),
    ...(primary !== undefined && primaries.length === 1 && primary.server.role.monitors
      ? links(deployment, primary, answered)
      : []),
    ...schema(answered),
    ...clocks(answered),
    ...settings(deployment),
  ];
}

const about = (node: string | null, finding: Omit<Finding, "node">): Finding => ({ ...finding, node });

function silent({ nodes }: Deployment): Finding[] {
  return nodes.flatMap(({ spec, silent: why }) =>
    why === null
      ? []
      : [
          about(spec.id, {
            severity: "danger",
            check: "reachable",
            says: `cannot be checked: ${why}`,
            change: null,
          }),
        ],
  );
}

const systemOf = ({ server }: Answered): string => server.report.incarnation.split("/")[0] ?? "";

function cluster(answered: readonly Answered[]): Finding[] {
  const systems = Map.groupBy(answered, systemOf);
  const databases = Map.groupBy(answered, ({ server }) => server.database);
  const listed = (groups: ReadonlyMap<string, readonly Answered[]>): string =>
    [...groups].map(([name, all]) => `${all.map(({ spec }) => spec.id).join(", ")} (${name})`).join("; ");
  const found: Finding[] = [];
  if (systems.size > 1)
    found.push(
      about(null, {
        severity: "danger",
        check: "system_identifier",
        says: `the nodes belong to ${String(systems.size)} clusters: ${listed(systems)}`,
        change: "clone the others from the primary (pg_basebackup), or take them out of the topology",
      }),
    );
  if (databases.size > 1)
    found.push(
      about(null, {
        severity: "danger",
        check: "database",
        says: `the urls name different databases: ${listed(databases)}`,
        change: "the same database in every url of the topology",
      }),
    );
  const versions = Map.groupBy(answered, ({ server }) => String(Math.trunc(server.versionNumber / 10_000)));
  if (versions.size > 1)
    found.push(
      about(null, {
        severity: "danger",
        check: "version",
        says: `the nodes have different major versions: ${listed(versions)}. No physical stream joins them`,
        change: "the same major version on every node",
      }),
    );
  return found;
}

function whoIsPrimary(
  primaries: readonly Answered[],
  answered: readonly Answered[],
  isWhole: boolean,
): Finding[] {
  if (primaries.length > 1)
    return [
      about(null, {
        severity: "danger",
        check: "primary",
        says: `${primaries.map(({ spec }) => spec.id).join(" and ")} are all writable. Commits on all but one of them will be lost`,
        change: "highwater failover candidate names the one to keep; stop the others, and clone them from it",
      }),
    ];
  if (primaries.length === 1 || !isWhole || answered.length === 0) return [];
  return [
    about(null, {
      severity: "danger",
      check: "primary",
      says: "no node is writable, so nothing can commit",
      change: "highwater failover candidate names the node to promote",
    }),
  ];
}

/** What the primary shows of its streams, and which levels the replicas can make. */
function links(deployment: Deployment, primary: Answered, answered: readonly Answered[]): Finding[] {
  const { topology } = deployment;
  const { streams } = primary.server;
  const recognised = new Set(
    new ReplicaStreams(topology.nodes).recognise(streams, primary.spec.id).map(({ node }) => node),
  );
  const replicas = answered.filter(({ spec }) => spec.id !== primary.spec.id);
  const counts = ({ spec, server }: Answered): boolean =>
    server.report.unfit === null && (asks(spec) ? server.report.isFed : recognised.has(spec.id));
  const counted = [primary.spec, ...replicas.filter(counts).map(({ spec }) => spec)];
  return [
    ...replicas
      .filter((replica) => !counts(replica))
      .flatMap((replica) => whyNotCounted(replica, primary, topology.nodes)),
    ...replicas.flatMap((replica) => timelines(replica, primary)),
    ...strangers(streams, topology.nodes, primary.spec.id),
    ...streams.flatMap((stream) => streamFindings(stream, primary)),
    ...slots(primary, topology.nodes.length - 1),
    ...levels(deployment, counted),
  ];
}

const asks = ({ replication }: NodeSpec): boolean => replication !== undefined && "ask" in replication;

function criteriaOf({ id, replication }: NodeSpec): string {
  if (replication === undefined) return `application_name ${id}`;
  return Object.entries(replication)
    .map(([name, value]) => `${name} ${String(value)}`)
    .join(", ");
}

function whyNotCounted(replica: Answered, primary: Answered, nodes: readonly NodeSpec[]): Finding[] {
  const { spec, server } = replica;
  if (server.report.role === "primary" || server.report.unfit !== null) return [];
  const { receiver } = server;
  if (receiver === null || receiver.status !== "streaming")
    return [
      about(spec.id, {
        severity: "danger",
        check: "stream",
        says: `no stream feeds it (${receiver?.status ?? "no WAL receiver"}), so nothing becomes durable by it`,
        change: `check primary_conninfo on ${spec.id}, its log, and pg_hba.conf of ${primary.spec.id}`,
      }),
    ];
  const name = streamNameOf(receiver.conninfo ?? "");
  const toName = nameStream(server.settings["primary_conninfo"] ?? "…", spec.id);
  const { streams } = primary.server;
  const same = streams.filter(({ applicationName }) => applicationName === name);
  if (same.length === 0)
    return [
      about(spec.id, {
        severity: "danger",
        check: "stream",
        says: `it follows ${receiver.senderHost ?? "a server"}:${String(receiver.senderPort ?? "")}, and not the primary ${primary.spec.id}: Highwater counts a replica only if the primary feeds it`,
        change: `primary_conninfo on ${spec.id} with host and port of ${primary.spec.id}`,
      }),
    ];
  if (same.length > 1)
    return [
      about(spec.id, {
        severity: "danger",
        check: "application_name",
        says: `${String(same.length)} streams are called ${name}, so none of them counts`,
        change: toName,
      }),
    ];
  const isOther = nodes.some(({ id }) => id === name && id !== spec.id);
  return [
    about(spec.id, {
      severity: "danger",
      check: "application_name",
      says: `its stream is called ${name}${isOther ? ", like another node" : ""}, and the topology knows it by ${criteriaOf(spec)}: it does not count`,
      change: `${toName} -- or in the topology: "replication": { "applicationName": ${JSON.stringify(name)} }`,
    }),
  ];
}

function timelines({ spec, server }: Answered, primary: Answered): Finding[] {
  const [own, its] = [server.timeline, primary.server.timeline];
  if (own === null || its === null || own === its || server.report.role === "primary") return [];
  return [
    about(spec.id, {
      severity: "danger",
      check: "timeline",
      says: `it is on timeline ${String(own)}, and the primary ${primary.spec.id} on ${String(its)}: it may have a history that was given up`,
      change: "pg_rewind it to the primary, or clone it (pg_basebackup)",
    }),
  ];
}

/** Streams that belong to no node: harmless, or a replica that someone forgot to list. */
function strangers(streams: readonly Stream[], nodes: readonly NodeSpec[], primary: string): Finding[] {
  const known = new ReplicaStreams(nodes);
  return streams.flatMap((stream) =>
    known.recognise([stream], primary).length > 0 || nodes.some(asks)
      ? []
      : [
          about(primary, {
            severity: "note",
            check: "stranger",
            says: `it feeds ${stream.applicationName || "a stream without a name"} from ${stream.address ?? "this machine"}, which is no node of the topology and does not count. If it can be promoted, list it`,
            change: null,
          }),
        ],
  );
}

function streamFindings(stream: Stream, primary: Answered): Finding[] {
  const found: Finding[] = [];
  const { applicationName: name, lagBytes, state } = stream;
  if (state !== null && state !== "streaming")
    found.push(
      about(primary.spec.id, {
        severity: "warning",
        check: "stream",
        says: `the stream to ${name} is in state ${state}: it has not caught up`,
        change: null,
      }),
    );
  if (lagBytes !== null && lagBytes > LAG_BYTES)
    found.push(
      about(primary.spec.id, {
        severity: "warning",
        check: "lag",
        says: `${name} lacks ${String(Math.round(lagBytes / MEBIBYTE))} MiB of log: what commits meanwhile is at risk for longer`,
        change: null,
      }),
    );
  if (!stream.isEncrypted && !stream.isLocal)
    found.push(
      about(primary.spec.id, {
        severity: "warning",
        check: "tls",
        says: `the stream to ${name} (${stream.address ?? ""}) is not encrypted`,
        change: `hostssl in place of host in pg_hba.conf of ${primary.spec.id}, and sslmode=verify-full in primary_conninfo of ${name}`,
      }),
    );
  return found;
}

function slots({ spec, server }: Answered, replicas: number): Finding[] {
  const { settings: values } = server;
  const found: Finding[] = [];
  const unlimited = values["max_slot_wal_keep_size"] === "-1";
  for (const { name, isActive, keptBytes, walStatus } of server.slots) {
    if (walStatus === "lost")
      found.push(
        about(spec.id, {
          severity: "danger",
          check: "slot",
          says: `the slot ${name} has lost its log: the replica that uses it cannot follow any more`,
          change: `SELECT pg_drop_replication_slot('${name}'); -- and clone that replica`,
        }),
      );
    else if (!isActive && (unlimited || keptBytes > KEPT_BYTES))
      found.push(
        about(spec.id, {
          severity: "warning",
          check: "slot",
          says: `no replica uses the slot ${name}, and the server keeps log for it (${String(Math.round(keptBytes / MEBIBYTE))} MiB by now) until the disk is full`,
          change: `SELECT pg_drop_replication_slot('${name}'); -- or ALTER SYSTEM SET max_slot_wal_keep_size = '64GB'; SELECT pg_reload_conf();`,
        }),
      );
  }
  if (replicas > 0 && server.slots.length === 0 && values["wal_keep_size"] === "0")
    found.push(
      about(spec.id, {
        severity: "warning",
        check: "wal_keep_size",
        says: "wal_keep_size is 0 and no slot keeps log: a replica that is away for a few minutes has to be cloned again, and does not count until then",
        change: "ALTER SYSTEM SET wal_keep_size = '2GB'; SELECT pg_reload_conf();",
      }),
    );
  return found;
}

/** Levels that cannot be reached now, by the rules with which services judge a topology. */
function levels({ topology }: Deployment, counted: readonly NodeSpec[]): Finding[] {
  if (counted.length === topology.nodes.length) return [];
  const regionsOf = (nodes: readonly NodeSpec[]): Set<string> => new Set(nodes.map(({ region }) => region));
  const missing = [...regionsOf(topology.nodes)].filter((region) => !regionsOf(counted).has(region));
  const reasons = topologyFaults({ ...topology, nodes: [...counted] }).filter((fault) =>
    fault.startsWith("level "),
  );
  for (const [name, rule] of Object.entries(topology.levels))
    if ("regions" in rule && missing.length > 0)
      reasons.push(`level ${name} can never be reached: no node counts in ${missing.join(", ")}`);
  return reasons.map((reason) =>
    about(null, {
      severity: "danger",
      check: "level",
      says: `${reason.replace("can never be reached", "is not reached now")}. Only ${counted.map(({ id }) => id).join(", ")} count`,
      change: null,
    }),
  );
}

function schema(answered: readonly Answered[]): Finding[] {
  const primary = answered.find(({ server }) => server.report.role === "primary");
  if (primary === undefined || primary.server.report.prepared) return [];
  const isOlder = primary.server.report.epochs.length > 0;
  return [
    about(primary.spec.id, {
      severity: "note",
      check: "schema",
      says: isOlder
        ? "an older version made the tables of Highwater; the first service of this version that starts upgrades them"
        : "there are no tables of Highwater yet; the first service that starts makes them",
      change: null,
    }),
  ];
}

function clocks(answered: readonly Answered[]): Finding[] {
  const [first, ...others] = answered;
  if (first === undefined) return [];
  const apart = (other: Answered): number => other.server.clock.aheadMs - first.server.clock.aheadMs;
  const limitOf = (other: Answered): number =>
    CLOCKS_APART_MS + other.server.clock.uncertainMs + first.server.clock.uncertainMs;
  return others
    .filter((other) => Math.abs(apart(other)) > limitOf(other))
    .map((other) =>
      about(other.spec.id, {
        severity: "warning",
        check: "clock",
        says: `its clock is ${String(Math.round(Math.abs(apart(other)) / 1_000))} s ${apart(other) > 0 ? "ahead of" : "behind"} that of ${first.spec.id}: while clocks disagree, old receipts and events are kept, and new ids may be refused`,
        change: `run chrony or another NTP client on ${other.spec.id} and ${first.spec.id}`,
      }),
    );
}

function settings({ topology, authorityFaults, replayHold }: Deployment): Finding[] {
  return [
    ...(replayHold === null
      ? []
      : [about(null, { severity: "note", check: "replay_hold", says: replayHold, change: null })]),
    ...authorityFaults.map((says) =>
      about(null, { severity: "danger", check: "authority", says, change: null }),
    ),
    ...topologyWarnings(topology).map((says) =>
      about(null, { severity: "warning", check: "topology", says, change: null }),
    ),
  ];
}
