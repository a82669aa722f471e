// Asks every node of a topology, as the services log in. Changes nothing.
import { type NodeSpec } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { isLoopback } from "@highwater/service";
import { KEY_GROUPS, POSTGRES_DEFAULTS, PostgresStore } from "@highwater/store";
import type pg from "pg";
import { receiverOf, rows, whyNot, withServer } from "../postgres.ts";
import {
  type Application,
  type NodeFacts,
  type Server,
  type ServiceRole,
  type Slot,
  type Stream,
} from "./facts.ts";

/** All settings that a rule looks at. */
const SETTINGS = [
  ...["full_page_writes", "hot_standby", "hot_standby_feedback", "max_connections", "max_slot_wal_keep_size"],
  ...["max_standby_streaming_delay", "max_wal_senders", "primary_conninfo", "recovery_min_apply_delay"],
  ...["reserved_connections", "superuser_reserved_connections", "synchronous_standby_names", "wal_keep_size"],
  ...["wal_level", "wal_log_hints", "wal_receiver_status_interval", "wal_sender_timeout"],
  // Since PostgreSQL 19.
  "wal_sender_shutdown_timeout",
];

const SELF = `SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int AS number,
  current_database()::text AS database, current_setting('data_checksums') = 'on' AS checksums,
  coalesce((SELECT s.ssl FROM pg_stat_ssl s WHERE s.pid = pg_backend_pid()), false) AS encrypted,
  ARRAY(SELECT name FROM pg_settings WHERE pending_restart ORDER BY name) AS "pendingRestart"`;

/**
 * By the log file's name: after a promotion the control file has the old timeline until a
 * checkpoint.
 */
const TIMELINE = {
  primary: "SELECT ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int AS timeline",
  replica: `SELECT coalesce((SELECT received_tli FROM pg_stat_wal_receiver), (SELECT timeline_id FROM pg_control_checkpoint())) AS timeline`,
};

/** $1 groups of API keys. */
const ROLE = `SELECT current_user::text AS name, r.rolsuper AS "isSuperuser",
  pg_has_role('pg_monitor', 'USAGE') AS monitors, pg_has_role('pg_signal_backend', 'USAGE') AS signals,
  has_database_privilege(current_database(), 'CREATE') AS "mayCreate",
  ARRAY(SELECT g FROM unnest($1::text[]) g WHERE to_regrole(g) IS NULL) AS "missingGroups",
  EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = 'highwater_audit' AND n.nspowner = r.oid) AS "ownsAuditLog",
  EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = 'highwater_sequences' AND n.nspowner = r.oid) AS "ownsSequences",
  EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = 'highwater_sequences' AND NOT EXISTS (SELECT FROM pg_proc p
    WHERE p.pronamespace = n.oid AND p.proname = 'reserve'
      AND p.proargtypes = '20 26 1184'::oidvector)) AS "hasOldSequences"
FROM pg_roles r WHERE r.rolname = current_user`;

const STREAMS = `SELECT concat(r.pid, '/', extract(epoch FROM r.backend_start)) AS session, r.application_name AS "applicationName",
  host(r.client_addr) AS address, s.slot_name::text AS slot, r.state, r.sync_state = 'sync' AS "isSynchronous",
  coalesce(r.flush_lsn, '0/0')::text AS flushed, (pg_current_wal_flush_lsn() - r.flush_lsn)::float8 AS "lagBytes",
  coalesce(t.ssl, false) AS "isEncrypted", r.client_addr IS NULL OR r.client_addr <<= '127.0.0.0/8' OR r.client_addr = '::1' AS "isLocal"
FROM pg_stat_replication r JOIN pg_stat_activity a USING (pid) LEFT JOIN pg_replication_slots s ON s.active_pid = r.pid
  LEFT JOIN pg_stat_ssl t USING (pid)
WHERE a.datid IS NULL AND r.state IS DISTINCT FROM 'backup'`;

const SLOTS = `SELECT slot_name::text AS name, active AS "isActive", wal_status AS "walStatus",
  coalesce(pg_current_wal_lsn() - restart_lsn, 0)::float8 AS "keptBytes"
FROM pg_replication_slots WHERE NOT temporary AND slot_type = 'physical'`;

const APPLICATION = `SELECT current_user::text AS name, r.rolsuper AS "isSuperuser",
  coalesce(pg_has_role(to_regrole('highwater_app'), 'USAGE'), false) AS "isMember"
FROM pg_roles r WHERE r.rolname = current_user`;

/** Never rejects: a node that cannot be asked says why. */
export async function askNodes(nodes: readonly NodeSpec[], clock: Clock): Promise<NodeFacts[]> {
  const store = new PostgresStore({ ...POSTGRES_DEFAULTS, nodes, clock, helper: "doctor", poolSize: 1 });
  try {
    return await Promise.all(
      nodes.map(async (spec) => {
        try {
          return { spec, server: await askServer(spec, store, clock), silent: null };
        } catch (cause) {
          return { spec, server: null, silent: whyNot(cause) };
        }
      }),
    );
  } finally {
    await store.close();
  }
}

function askServer(spec: NodeSpec, store: PostgresStore, clock: Clock): Promise<Server> {
  return withServer(spec.url, async (client) => {
    const self = await one<{
      version: string;
      number: number;
      database: string;
      checksums: boolean;
      encrypted: boolean;
      pendingRestart: string[];
    }>(client, SELF);
    const offset = await clockOf(client, clock);
    const report = await store.probe(spec.id);
    const isPrimary = report.role === "primary";
    const settings = await rows<{ name: string; setting: string | null }>(
      client,
      "SELECT name, setting FROM pg_settings WHERE name = ANY ($1)",
      [SETTINGS],
    );
    return {
      report,
      version: self.version,
      versionNumber: self.number,
      timeline: (await one<{ timeline: number | null }>(client, TIMELINE[report.role])).timeline,
      database: self.database,
      settings: Object.fromEntries(settings.map(({ name, setting }) => [name, setting ?? ""])),
      pendingRestart: self.pendingRestart,
      hasChecksums: self.checksums,
      role: await one<ServiceRole>(client, ROLE, [KEY_GROUPS]),
      application: spec.appUrl === undefined ? null : await askApplication(spec.appUrl),
      isEncrypted: self.encrypted,
      isLocal: isLocal(spec.url),
      streams: isPrimary ? await rows<Stream>(client, STREAMS) : [],
      slots: isPrimary ? await rows<Slot>(client, SLOTS) : [],
      receiver: isPrimary ? null : await receiverOf(client),
      clock: offset,
    };
  });
}

/** The best of a few questions: the one whose answer came soonest. */
async function clockOf(client: pg.Client, clock: Clock): Promise<Server["clock"]> {
  let best = { aheadMs: 0, uncertainMs: Number.POSITIVE_INFINITY };
  for (let asked = 0; asked < CLOCK_QUESTIONS; asked++) {
    const beganMs = clock.monotonicMs();
    const { ms } = await one<{ ms: number }>(
      client,
      "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS ms",
    );
    const uncertainMs = (clock.monotonicMs() - beganMs) / 2;
    if (uncertainMs < best.uncertainMs) best = { aheadMs: ms - (clock.wallMs() - uncertainMs), uncertainMs };
  }
  return best;
}
const CLOCK_QUESTIONS = 3;

async function askApplication(url: string): Promise<Application> {
  try {
    return await withServer(url, async (client) => ({
      ...(await one<Omit<Application, "refused">>(client, APPLICATION)),
      refused: null,
    }));
  } catch (cause) {
    const { username } = new URL(url);
    return {
      name: decodeURIComponent(username),
      refused: whyNot(cause),
      isSuperuser: false,
      isMember: false,
    };
  }
}

/** Over a socket of this machine, or its loopback. */
function isLocal(url: string): boolean {
  const host = new URL(url).hostname.replaceAll(/[[\]]/g, "");
  return host === "" || isLoopback(host);
}

async function one<T extends object>(
  client: pg.Client,
  sql: string,
  values?: readonly unknown[],
): Promise<T> {
  const [row] = await rows<T>(client, sql, values);
  if (row === undefined) throw new Error("the server did not describe itself");
  return row;
}
