// The rules about one server: its settings and the roles of the services. Pure.
import { pgIdentifier } from "../sql-names.ts";
import { OLDEST_VERSION } from "../postgres.ts";
import { type Deployment, type Finding, type NodeFacts, type Server } from "./facts.ts";

/** Sessions of a tracker on a node, with those of its queue of webhooks. */
const SESSIONS_OF_TRACKER = 20;
const RELOAD = "SELECT pg_reload_conf();";
const RESTART = "-- then restart the server";

type Said = Omit<Finding, "node">;

const set = (setting: string, then: string): string => `ALTER SYSTEM SET ${setting}; ${then}`;

export function judgeServers(deployment: Deployment): Finding[] {
  return deployment.nodes.flatMap((facts) => {
    const { spec, server } = facts;
    if (server === null) return [];
    const said = [
      ...version(server),
      ...disk(server),
      ...replication(server, deployment),
      ...standby(server),
      ...sessions(server, deployment),
      ...serviceRole(server),
      ...application(server),
      ...encryption(facts, server),
    ];
    return said.map((finding) => ({ ...finding, node: spec.id }));
  });
}

function version({ versionNumber, version: text, pendingRestart }: Server): Said[] {
  const found: Said[] = [];
  if (versionNumber < OLDEST_VERSION)
    found.push({
      severity: "danger",
      check: "version",
      says: `PostgreSQL ${text} is too old: Highwater needs 15 or newer`,
      change: "pg_upgrade to PostgreSQL 15 or newer",
    });
  if (pendingRestart.length > 0)
    found.push({
      severity: "warning",
      check: "pending_restart",
      says: `${pendingRestart.join(", ")} changed in the configuration, and takes effect at the next restart`,
      change: "restart the server",
    });
  return found;
}

function disk({ report: { unfit }, settings, hasChecksums }: Server): Said[] {
  const found: Said[] = [];
  if (unfit !== null)
    found.push({
      severity: "danger",
      check: "fsync",
      says: `${unfit}: the services do not count this node, because its disk proves nothing`,
      change: unfit.startsWith("fsync")
        ? set("fsync = on", RELOAD)
        : "remove the recovery_target settings from its configuration -- then restart the server",
    });
  if (settings["full_page_writes"] === "off")
    found.push({
      severity: "danger",
      check: "full_page_writes",
      says: "full_page_writes is off: a crash can tear a page that holds durable transactions",
      change: set("full_page_writes = on", RELOAD),
    });
  if (!hasChecksums && settings["wal_log_hints"] === "off")
    found.push({
      severity: "note",
      check: "pg_rewind",
      says: "without data checksums or wal_log_hints, pg_rewind cannot bring this node back after a failover: it has to be cloned",
      change: set("wal_log_hints = on", RESTART),
    });
  return found;
}

function replication({ settings }: Server, { topology, isLease }: Deployment): Said[] {
  const found: Said[] = [];
  const replicas = topology.nodes.length - 1;
  if (settings["wal_level"] === "minimal" && replicas > 0)
    found.push({
      severity: "danger",
      check: "wal_level",
      says: "wal_level is minimal: this node cannot feed a replica, and nothing becomes durable beyond its own disk",
      change: set("wal_level = replica", RESTART),
    });
  const senders = Number(settings["max_wal_senders"]);
  if (senders < replicas)
    found.push({
      severity: "danger",
      check: "max_wal_senders",
      says: `max_wal_senders is ${String(senders)}, and this node has to feed ${String(replicas)} replicas while it is the primary`,
      change: set(`max_wal_senders = ${String(Math.max(10, replicas + 2))}`, RESTART),
    });
  const names = settings["synchronous_standby_names"] ?? "";
  if (names !== "" && !isLease)
    found.push({
      severity: "note",
      check: "synchronous_standby_names",
      says: `synchronous_standby_names is ${names}: commits that do not go through Highwater wait for these standbys, and hold their locks meanwhile`,
      change: set("synchronous_standby_names = ''", RELOAD),
    });
  if (settings["wal_sender_timeout"] === "0")
    found.push({
      severity: "warning",
      check: "wal_sender_timeout",
      says: "wal_sender_timeout is 0: the stream of a dead replica looks open for ever",
      change: set("wal_sender_timeout = '60s'", RELOAD),
    });
  const shutdown = settings["wal_sender_shutdown_timeout"] ?? "-1";
  if (shutdown !== "-1")
    found.push({
      severity: "warning",
      check: "wal_sender_shutdown_timeout",
      says: `wal_sender_shutdown_timeout is ${shutdown} ms: a clean stop of this node, as the primary, may leave its replicas behind`,
      change: set("wal_sender_shutdown_timeout = -1", RELOAD),
    });
  return found;
}

/** Each node may be a replica after the next failover. */
function standby({ settings }: Server): Said[] {
  const found: Said[] = [];
  if (settings["hot_standby"] === "off")
    found.push({
      severity: "danger",
      check: "hot_standby",
      says: "hot_standby is off: as a replica, this node answers no question, so services cannot count or promote it",
      change: set("hot_standby = on", RESTART),
    });
  if (settings["wal_receiver_status_interval"] === "0")
    found.push({
      severity: "danger",
      check: "wal_receiver_status_interval",
      says: "wal_receiver_status_interval is 0: as a replica, this node does not report what it has flushed, so nothing becomes durable by it",
      change: set("wal_receiver_status_interval = '1s'", RELOAD),
    });
  if ((settings["recovery_min_apply_delay"] ?? "0") !== "0")
    found.push({
      severity: "warning",
      check: "recovery_min_apply_delay",
      says: `recovery_min_apply_delay is ${settings["recovery_min_apply_delay"] ?? ""} ms: reads at this node are that old, and a promotion waits for the replay`,
      change: set("recovery_min_apply_delay = 0", RELOAD),
    });
  if (settings["max_standby_streaming_delay"] === "-1")
    found.push({
      severity: "warning",
      check: "max_standby_streaming_delay",
      says: "max_standby_streaming_delay is -1: one long read at this replica stops its replay, and with it reads near the user",
      change: set("max_standby_streaming_delay = '30s'", RELOAD),
    });
  if (settings["hot_standby_feedback"] === "off")
    found.push({
      severity: "note",
      check: "hot_standby_feedback",
      says: "hot_standby_feedback is off: the server may cancel long reads at this replica. Promises do not need it",
      change: set("hot_standby_feedback = on", RELOAD),
    });
  return found;
}

function sessions({ settings }: Server, { gateways, sessionsOfGateway, topology }: Deployment): Said[] {
  const reserved =
    Number(settings["superuser_reserved_connections"]) + Number(settings["reserved_connections"] ?? 0);
  const limit = Number(settings["max_connections"]) - reserved;
  const trackers = new Set(topology.nodes.map(({ region }) => region)).size;
  const needed = gateways * sessionsOfGateway + trackers * SESSIONS_OF_TRACKER;
  if (needed <= limit) return [];
  return [
    {
      severity: "warning",
      check: "max_connections",
      says: `max_connections leaves ${String(limit)} sessions, and ${String(gateways)} gateways and ${String(trackers)} trackers may open ${String(needed)} with one role of applications`,
      change: set(`max_connections = ${String(needed + reserved)}`, RESTART),
    },
  ];
}

function serviceRole({ role, report, database }: Server): Said[] {
  const name = pgIdentifier(role.name);
  const found: Said[] = [];
  const grant = (severity: Finding["severity"], right: string, says: string): void => {
    found.push({
      severity,
      check: "role",
      says,
      change: `GRANT ${right} TO ${name}; -- on the primary, as an administrator`,
    });
  };
  if (role.isSuperuser)
    found.push({
      severity: "warning",
      check: "role",
      says: `the services log in as ${role.name}, a superuser: SQL of clients without a role of their own could do everything`,
      change: `highwater roles --database ${database} | psql … -- and its role in the topology's url`,
    });
  if (!role.monitors)
    grant(
      "danger",
      "pg_monitor",
      `the role ${role.name} lacks pg_monitor: it cannot see the replicas' positions, so nothing becomes durable beyond the primary's disk`,
    );
  if (!role.signals)
    grant(
      "warning",
      "pg_signal_backend",
      `the role ${role.name} lacks pg_signal_backend: a session that holds a lock stops the next epoch until it ends`,
    );
  if (!role.mayCreate && !report.prepared)
    grant(
      "danger",
      `CONNECT, CREATE ON DATABASE ${pgIdentifier(database)}`,
      `the role ${role.name} may not create schemas in ${database}: the first start of a service fails`,
    );
  if (role.missingGroups.length > 0)
    found.push({
      severity: "danger",
      check: "role",
      says: `the roles ${role.missingGroups.join(", ")} are missing: the first start of a service fails`,
      change: `highwater roles --role ${role.name} --database ${database} | psql …`,
    });
  if (role.ownsAuditLog && !role.isSuperuser)
    found.push({
      severity: "warning",
      check: "audit_log",
      says: `the role ${role.name} owns the audit log, and could change its entries`,
      change: `highwater roles --role ${role.name} --database ${database} | psql …`,
    });
  if (role.ownsSequences && !role.isSuperuser)
    found.push({
      severity: "warning",
      check: "sequences",
      says: `the role ${role.name} owns the function that advances sequences at a new epoch: it does not reach sequences that the role may not update, which may then hand out ids of lost transactions again`,
      change: `highwater roles --role ${role.name} --database ${database} | psql …`,
    });
  if (role.hasOldSequences)
    found.push({
      severity: "warning",
      check: "sequences",
      says: "the function that advances sequences at a new epoch is that of an older version: no sequence is advanced, and each may hand out ids of lost transactions again",
      change: `highwater roles --role ${role.name} --database ${database} | psql …`,
    });
  return found;
}

function application({ application: role }: Server): Said[] {
  if (role === null) return [];
  const name = pgIdentifier(role.name);
  if (role.refused !== null)
    return [
      {
        severity: "danger",
        check: "app_role",
        says: `the applications' role ${role.name} cannot log in: ${role.refused}`,
        change: `CREATE ROLE ${name} LOGIN; GRANT highwater_app TO ${name}; -- or correct appUrl in the topology`,
      },
    ];
  if (role.isSuperuser)
    return [
      {
        severity: "danger",
        check: "app_role",
        says: `the applications' role ${role.name} is a superuser: a client's SQL can change receipts and every promise`,
        change: `ALTER ROLE ${name} NOSUPERUSER;`,
      },
    ];
  if (role.isMember) return [];
  return [
    {
      severity: "danger",
      check: "app_role",
      says: `the applications' role ${role.name} is not in highwater_app: it can write no receipt, so no transaction commits`,
      change: `GRANT highwater_app TO ${name};`,
    },
  ];
}

function encryption({ spec }: NodeFacts, { isEncrypted, isLocal }: Server): Said[] {
  if (isEncrypted || isLocal) return [];
  return [
    {
      severity: "warning",
      check: "tls",
      says: "the connection to this node is not encrypted, and leaves the machine",
      change: `ssl = on in postgresql.conf of ${spec.id}, and ?sslmode=verify-full in its url`,
    },
  ];
}
