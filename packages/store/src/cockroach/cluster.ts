// One cluster: its virtual cluster with the data, and the system virtual cluster, which alone knows
// of replication.
import { type ClientBase, type QueryResultRow } from "pg";
import {
  type EpochCause,
  type EpochRecord,
  formatOffset,
  minOffset,
  type NodeSpec,
  type Offset,
} from "@highwater/protocol";
import { applicationName, Channel } from "../postgres/channel.ts";
import { parseHlc, parseTime } from "./hlc.ts";
import { CockroachClient, cockroachSettings, type SessionOptions, Sessions } from "./sessions.ts";
import { EPOCHS, FINAL_MARKS, showStatus, UNSAFE_LOG } from "./sql.ts";

export interface ClusterOptions extends SessionOptions {
  /** The virtual cluster with the data. Default: `main`. */
  readonly virtualCluster?: string;
  /**
   * By node: URLs of the system virtual cluster. Default: the node's own URL, with the option
   * `cluster=system`.
   */
  readonly systemUrls?: Readonly<Record<string, string>>;
  /**
   * By node: how standbys name it as their source (`source_cluster_uri`). Default: host and port of
   * its URL.
   */
  readonly sources?: Readonly<Record<string, string>>;
  /**
   * By node: URL of the cluster's servers that are nearest to this service, for reads at a
   * position. Default: the node's own URL.
   */
  readonly readUrls?: Readonly<Record<string, string>>;
}

/** Texts as the server sends them: a timestamp has more digits than a float or a Date. */
type Texts = Record<string, string | null>;

/** What the system virtual cluster says. */
export interface ClusterStatus {
  /** `ready` once it runs alone; of a standby, the state of its replication. */
  readonly status: string;
  /** Everything up to here is on the standby. Null: it did not say, which changes nothing. */
  readonly mark: Offset | null;
  /** Which stream it is, as far as the server says. */
  readonly stream: string;
  readonly sourceUri: string;
  /** The name of this virtual cluster in the standbys' records: `cluster uuid:tenant id`. */
  readonly ownSource: string;
  /** Which one it was a standby of, and where it left its history. */
  readonly prior: { readonly source: string; readonly at: Offset } | null;
  /** Its servers confirm what is not on their disks. */
  readonly isUnsafe: boolean;
}

const COUNTED = new Set(["replicating", "replication pending failover"]);

export class Cluster {
  readonly spec: NodeSpec;
  readonly sessions: Sessions;
  /** For reads at a position, on the nearest servers. */
  readonly readers: Sessions;
  readonly control: Channel;
  /** Calls that may wait for a transaction. */
  readonly settling: Channel;
  readonly #system: Channel;
  readonly #status: string;

  constructor(spec: NodeSpec, options: ClusterOptions) {
    const { clock, helper, connectTimeoutMs, callTimeoutMs, virtualCluster = "main" } = options;
    if (!/^[a-z][a-z0-9-]*$/.test(virtualCluster))
      throw new Error(`not a virtual cluster's name: ${virtualCluster}`);
    const limits = { statementTimeoutMs: callTimeoutMs, lockTimeoutMs: callTimeoutMs };
    const channel = (purpose: string, url: string, more: Record<string, string> = {}): Channel =>
      new Channel({
        Client: CockroachClient,
        url,
        clock,
        connectTimeoutMs,
        callTimeoutMs,
        name: applicationName(helper, purpose),
        settings: { ...cockroachSettings(limits), ...more },
      });
    this.spec = spec;
    this.sessions = new Sessions(spec, options);
    const readUrl = options.readUrls?.[spec.id];
    const nearest = readUrl === undefined ? spec : { ...spec, url: readUrl, appUrl: readUrl };
    this.readers = new Sessions(nearest, options, "read");
    this.control = channel("control", spec.url);
    this.settling = channel("settle", spec.url);
    const systemUrl = options.systemUrls?.[spec.id];
    this.#system = channel(
      "system",
      systemUrl ?? spec.url,
      systemUrl === undefined ? { cluster: "system" } : {},
    );
    this.#status = showStatus(virtualCluster);
  }

  ask(text: string, values: readonly (string | null)[] = []): Promise<Texts[]> {
    return this.control.run((client) => query(client, text, values));
  }

  async status(): Promise<ClusterStatus> {
    const [[row], [own], [setting]] = await this.#system.run((client) =>
      Promise.all([
        query(client, this.#status),
        query(client, "SELECT crdb_internal.cluster_id() AS cluster_id"),
        // A user without the privilege may not read it, and a release may not have it.
        query(client, UNSAFE_LOG).catch((): Texts[] => []),
      ]),
    );
    if (row === undefined || own === undefined) throw new Error(`${this.#status}: no row`);
    return statusOf(row, own["cluster_id"] ?? "", /^t/.test(Object.values(setting ?? {})[0] ?? ""));
  }

  async epochs(): Promise<{ readonly records: EpochRecord[]; readonly newest: Texts | undefined }> {
    const [rows, marks] = await Promise.all([this.ask(EPOCHS), this.ask(FINAL_MARKS)]);
    const records = rows.map((row) => recordOf(row, marks));
    return { records, newest: rows.at(-1) };
  }

  forget(): void {
    this.control.reset();
    this.settling.reset();
    this.sessions.reset();
    this.readers.reset();
  }

  close(): void {
    for (const channel of [this.control, this.settling, this.#system]) channel.close();
    this.sessions.close();
    this.readers.close();
  }
}

export function statusOf(row: Texts, clusterId: string, isUnsafe: boolean): ClusterStatus {
  const status = row["status"] ?? "";
  const time = row["replicated_time"];
  const { source_id: source = null, activation_time: at = null } = row;
  // An operator has ordered a cut-over, which takes back what is above this time.
  const end = row["failover_time"];
  const replicated = COUNTED.has(status) && time != null ? parseTime(time) : null;
  return {
    status,
    mark: replicated === null || end == null ? replicated : minOffset(replicated, parseHlc(end)),
    stream: `${row["source_cluster_uri"] ?? ""}#${row["ingestion_job_id"] ?? ""}`,
    sourceUri: row["source_cluster_uri"] ?? "",
    ownSource: `${clusterId}:${row["id"] ?? ""}`,
    prior: source === null || at === null ? null : { source, at: parseHlc(at) },
    isUnsafe,
  };
}

export async function query(
  client: ClientBase,
  text: string,
  values: readonly (string | null)[] = [],
): Promise<Texts[]> {
  const types = { getTypeParser: () => (value: string) => value };
  const { rows } = await client.query<QueryResultRow & Texts>({ text, values: [...values], types });
  return rows;
}

function recordOf(row: Texts, marks: readonly Texts[]): EpochRecord {
  const text = (name: string): string => row[name] ?? "";
  const own = marks.filter(({ epoch }) => epoch === row["id"]);
  return {
    id: text("id"),
    seq: Number(text("seq")),
    previous: row["previous"] ?? null,
    node: text("node"),
    cause: text("cause") as EpochCause,
    startedAt: text("started_at"),
    startOffset: formatOffset(parseHlc(text("start_offset"))),
    forkOffset: text("fork_offset"),
    forkLimit: row["fork_limit"] ?? null,
    supersedes: text("supersedes")
      .split(",")
      .filter((id) => id !== ""),
    commanded: row["commanded"] === "t",
    finalMarks: Object.fromEntries(own.map(({ level, mark }) => [level ?? "", mark ?? ""])),
  };
}
