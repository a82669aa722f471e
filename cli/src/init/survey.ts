// Asks a server who it is and whom it follows.
import { OLDEST_VERSION, type Receiver, receiverOf, rows, withServer } from "../postgres.ts";

/** A stream of the log to another server. */
interface Stream {
  readonly applicationName: string;
}

export interface Survey {
  readonly version: string;
  readonly isOld: boolean;
  readonly isReplica: boolean;
  readonly systemIdentifier: string;
  /** Differs between servers of one cluster, and between two starts of one server. */
  readonly startedAt: string;
  readonly clusterName: string;
  readonly database: string;
  readonly user: string;
  /** The user may see the streams of others: without that, their positions are hidden. */
  readonly seesStreams: boolean;
  readonly streams: readonly Stream[];
  readonly receiver: Receiver | null;
  /** Null where the user may not see it. */
  readonly primaryConninfo: string | null;
}

const VERSION =
  "SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int AS number";

const SELF = `SELECT pg_is_in_recovery() AS "isReplica",
  (SELECT system_identifier::text FROM pg_control_system()) AS "systemIdentifier",
  concat(extract(epoch FROM pg_postmaster_start_time()), ' ', inet_server_port()) AS "startedAt",
  current_setting('cluster_name') AS "clusterName", current_database()::text AS database, current_user::text AS user,
  pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS "seesStreams",
  (SELECT setting FROM pg_settings WHERE name = 'primary_conninfo') AS "primaryConninfo"`;

/** Without those of backups and of logical replication. */
const STREAMS = `SELECT r.application_name AS "applicationName"
FROM pg_stat_replication r JOIN pg_stat_activity a USING (pid)
WHERE a.datid IS NULL AND r.state IS DISTINCT FROM 'backup'`;

/** Errors: those of the connection and of the server. */
export function survey(url: string): Promise<Survey> {
  return withServer(url, async (client) => {
    const [{ version, number } = { version: "", number: 0 }] = await rows<{
      version: string;
      number: number;
    }>(client, VERSION);
    if (number < OLDEST_VERSION) return { ...UNKNOWN, version, isOld: true };
    type Self = Omit<Survey, "version" | "isOld" | "streams" | "receiver">;
    const [self] = await rows<Self>(client, SELF);
    if (self === undefined) throw new Error("the server did not describe itself");
    const streams = await rows<Stream>(client, STREAMS);
    return { ...self, version, isOld: false, streams, receiver: await receiverOf(client) };
  });
}

const UNKNOWN: Omit<Survey, "version" | "isOld"> = {
  isReplica: false,
  systemIdentifier: "",
  startedAt: "",
  clusterName: "",
  database: "",
  user: "",
  seesStreams: false,
  streams: [],
  receiver: null,
  primaryConninfo: null,
};
