// Asks every node of a switchover what it is now. Changes nothing.
import { type NodeReport } from "@highwater/authority";
import {
  askMemories,
  askNodes,
  findNodes,
  type KnownEpochs,
  knownEpochs,
  type NodeFinding,
  remembering,
} from "@highwater/durability-tracker/failover";
import { type EpochRecord, type NodeSpec, type Offset } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { type PostgresStore, type ReplicaStream, ReplicaStreams } from "@highwater/store";
import { type Trackers } from "../deployment.ts";
import { type Receiver, receiverOf, rows, whyNot, withServer } from "../postgres.ts";
import { isChoosy } from "./conninfo.ts";
import { type NodeState, type Scene, type Signal } from "./next-step.ts";

/** All settings that a check looks at. */
const SETTINGS = [
  ...["hot_standby", "max_connections", "max_locks_per_transaction", "max_prepared_transactions"],
  ...["max_replication_slots", "max_wal_senders", "max_worker_processes"],
  ...["recovery_min_apply_delay", "recovery_target_timeline"],
];

interface Server {
  readonly isSuperuser: boolean;
  readonly dataDirectory: string;
  readonly conninfo: string;
  /** The replication slot that it uses on its upstream. */
  readonly slot: string;
  readonly timeline: number | null;
  readonly signal: string | null;
  readonly isPromoting: boolean;
  readonly waitsForLog: boolean;
  readonly isPaused: boolean;
  /** A replica: its log ends with the record that a clean shutdown writes. */
  readonly stoppedCleanly: boolean;
  readonly receiver: Receiver | null;
  readonly streams: readonly ReplicaStream[];
  readonly slots: readonly {
    readonly name: string;
    readonly isActive: boolean;
    readonly isLogical: boolean;
  }[];
  readonly settings: Readonly<Record<string, string>>;
}

/** What a node said, or why it said nothing. */
export interface Node {
  readonly spec: NodeSpec;
  readonly report: NodeReport | null;
  readonly server: Server | null;
  readonly why: string | null;
  readonly standing: NodeFinding["standing"];
}

export interface Observed {
  readonly nodes: ReadonlyMap<string, Node>;
  /** Null: no one knows any, or several that do not end each other. */
  readonly epoch: EpochRecord | null;
  readonly known: KnownEpochs;
}

export interface Places {
  /** As an administrator logs in. */
  readonly specs: readonly NodeSpec[];
  readonly store: PostgresStore;
  readonly clock: Clock;
  readonly trackers: Trackers;
}

/** Never rejects for what a node does. */
export async function observe({ specs, store, clock, trackers }: Places): Promise<Observed> {
  const [answers, memories, servers] = await Promise.all([
    askNodes(store, clock, 0),
    askMemories(trackers.urls, trackers.caller),
    Promise.all(specs.map((spec) => askServer(spec).catch((cause: unknown) => whyNot(cause)))),
  ]);
  const remembered = remembering(memories);
  const about = { ...answers, nodes: store.nodes, trackers: remembered };
  const known = knownEpochs(about);
  const findings = known.current === null ? [] : findNodes(about, known.current, known.graph);
  const nodes = specs.map((spec, at): Node => {
    const server = servers[at] ?? "it was not asked";
    const report = answers.reports.get(spec.id) ?? null;
    const finding = findings.find(({ node }) => node === spec.id);
    if (report === null || typeof server === "string") {
      const reason = typeof server === "string" ? server : (answers.failures.get(spec.id) ?? "");
      return { spec, report: null, server: null, standing: "silent", why: `does not answer: ${reason}` };
    }
    return {
      spec,
      report,
      server,
      standing: finding?.standing ?? "no_history",
      why: finding?.reason ?? null,
    };
  });
  return { nodes: new Map(nodes.map((node) => [node.spec.id, node])), epoch: known.current, known };
}

/** By the log file's name: a promoted server's control file has the old timeline for a while. */
const SELF = `SELECT current_setting('data_directory') AS "dataDirectory",
  (SELECT setting FROM pg_settings WHERE name = 'primary_conninfo') AS conninfo, current_setting('primary_slot_name') AS slot,
  CASE WHEN pg_is_in_recovery() THEN coalesce((SELECT greatest(receive_start_tli, received_tli) FROM pg_stat_wal_receiver),
      (SELECT nullif(min_recovery_end_timeline, 0) FROM pg_control_recovery()), (SELECT timeline_id FROM pg_control_checkpoint()))
    ELSE ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int END AS timeline,
  pg_read_file('standby.signal', 0, 200, true) AS signal, (pg_stat_file('promote', true)).modification IS NOT NULL AS "isPromoting",
  coalesce((SELECT wait_event IN ('RecoveryWalStream', 'RecoveryRetrieveRetryInterval') FROM pg_stat_activity
    WHERE backend_type = 'startup'), false) AS "waitsForLog",
  CASE WHEN pg_is_in_recovery() THEN pg_is_wal_replay_paused() ELSE false END AS "isPaused"`;

/**
 * A checkpoint of a clean shutdown begins where its record does, and nothing follows the record.
 * The record has 120 bytes, and a page's header may be within.
 */
const STOPPED_CLEANLY = `SELECT pg_is_in_recovery() AND c.redo_lsn = c.checkpoint_lsn
  AND pg_last_wal_replay_lsn() - c.checkpoint_lsn <= 160 AS clean FROM pg_control_checkpoint() c`;

const STREAMS = `SELECT concat(r.pid, '/', extract(epoch FROM r.backend_start)) AS session, r.application_name AS "applicationName",
  host(r.client_addr) AS address, s.slot_name::text AS slot, false AS "isSynchronous", coalesce(r.flush_lsn, '0/0')::text AS flushed
FROM pg_stat_replication r LEFT JOIN pg_replication_slots s ON s.active_pid = r.pid WHERE r.state = 'streaming'`;

const SLOTS = `SELECT slot_name::text AS name, active AS "isActive", slot_type = 'logical' AS "isLogical"
FROM pg_replication_slots WHERE NOT temporary`;

interface Self extends Pick<
  Server,
  "dataDirectory" | "slot" | "timeline" | "signal" | "isPromoting" | "waitsForLog" | "isPaused"
> {
  readonly conninfo: string | null;
}

/** Of a role that may not ask. */
const BARE: Server = {
  isSuperuser: false,
  dataDirectory: "",
  conninfo: "",
  slot: "",
  timeline: null,
  signal: null,
  isPromoting: false,
  waitsForLog: false,
  isPaused: false,
  stoppedCleanly: false,
  receiver: null,
  streams: [],
  slots: [],
  settings: {},
};

function askServer({ url }: NodeSpec): Promise<Server> {
  return withServer(url, async (client) => {
    const [role] = await rows<{ is: boolean }>(
      client,
      "SELECT rolsuper AS is FROM pg_roles WHERE rolname = current_user",
    );
    // Others may not even ask the rest.
    if (role?.is !== true) return BARE;
    const [self] = await rows<Self>(client, SELF);
    if (self === undefined) throw new Error("the server did not describe itself");
    const [stop] = await rows<{ clean: boolean }>(client, STOPPED_CLEANLY);
    const settings = await rows<{ name: string; setting: string | null }>(
      client,
      "SELECT name, setting FROM pg_settings WHERE name = ANY ($1)",
      [SETTINGS],
    );
    return {
      ...self,
      isSuperuser: true,
      conninfo: self.conninfo ?? "",
      stoppedCleanly: stop?.clean ?? false,
      receiver: await receiverOf(client),
      streams: await rows<ReplicaStream>(client, STREAMS),
      slots: await rows<Server["slots"][number]>(client, SLOTS),
      settings: Object.fromEntries(settings.map(({ name, setting }) => [name, setting ?? ""])),
    };
  });
}

const OURS = "highwater switchover to ";

export function signalText(target: string): string {
  return `${OURS}${target}`;
}

function signalOf(text: string | null): Signal {
  if (text === null) return { kind: "absent" };
  const line = text.trim();
  return line.startsWith(OURS) ? { kind: "hands_over", to: line.slice(OURS.length) } : { kind: "foreign" };
}

export interface SceneWishes {
  readonly target: string;
  readonly leftOut: ReadonlySet<string>;
  readonly pointed: ReadonlySet<string>;
}

/** What decides about the next step. */
export function sceneOf({ nodes, epoch }: Observed, wishes: SceneWishes): Scene {
  const { target, leftOut, pointed } = wishes;
  const followers = followersOf(nodes, target);
  const states = [...nodes.values()].map((node) => stateOf(node, followers.all));
  return {
    target,
    leftOut,
    pointed,
    owner: epoch?.node ?? "",
    nodes: new Map(states.map((state) => [state.node, state])),
    authority: authorityOf(nodes.get(target)?.report ?? null),
    leftSlots: leftSlotsOf(nodes, new Set([target, ...followers.direct])),
  };
}

function stateOf({ spec, report, server, why, standing }: Node, followers: ReadonlySet<string>): NodeState {
  return {
    node: spec.id,
    role: report?.role ?? null,
    counts: ["candidate", "primary", "writable"].includes(standing),
    hasEpoch: standing === "primary",
    why,
    applied: report?.applied ?? (0n as Offset),
    timeline: server?.timeline ?? null,
    waitsForLog: server?.waitsForLog ?? false,
    isPromoting: server?.isPromoting ?? false,
    signal: signalOf(server?.signal ?? null),
    followsTarget: followers.has(spec.id),
  };
}

/**
 * The primary knows them by their streams. A standby that has always followed another one is left
 * alone, but not one that follows the old primary.
 */
function followersOf(
  nodes: Observed["nodes"],
  target: string,
): { readonly direct: ReadonlySet<string>; readonly all: ReadonlySet<string> } {
  const recognise = new ReplicaStreams([...nodes.values()].map(({ spec }) => spec));
  const feeds = (from: Node): string[] =>
    recognise.recognise(from.server?.streams ?? [], from.spec.id).map(({ node }) => node);
  const primary = nodes.get(target);
  if (primary?.report?.role !== "primary") return { direct: new Set(), all: new Set() };
  const former = primary.report.epochs.findLast((record) => record.node !== target)?.node;
  const direct = new Set(feeds(primary));
  const relays = [...nodes.values()].filter(({ spec: { id } }) => id !== former && direct.has(id));
  const fed = new Set([...direct, ...relays.flatMap(feeds)]);
  const all = new Set(
    [...nodes.values()].flatMap(({ spec, server }) => {
      if (server?.receiver?.status !== "streaming" || isChoosy(server.conninfo)) return [];
      const isAsked = spec.replication !== undefined && "ask" in spec.replication;
      const isFed = isAsked ? server.timeline === primary.server?.timeline : fed.has(spec.id);
      return isFed ? [spec.id] : [];
    }),
  );
  return { direct, all };
}

/** A first epoch, and a restart of a primary that was chosen, need no command. */
function authorityOf(report: NodeReport | null): Scene["authority"] {
  if (report?.role !== "primary") return "settled";
  const newest = report.epochs.at(-1);
  if (report.command !== null) return "waits_for_services";
  if (report.current === null) return "needs_command";
  return newest?.cause === "promotion" && !newest.commanded ? "needs_command" : "settled";
}

/**
 * On standbys, where they would keep log for ever. `users`: the primary and those that it feeds,
 * which used these slots elsewhere before.
 */
function leftSlotsOf(nodes: Observed["nodes"], users: ReadonlySet<string>): Scene["leftSlots"] {
  const used = new Set([...users].map((id) => nodes.get(id)?.server?.slot));
  return [...nodes.values()].flatMap(({ spec: { id }, report, server }) =>
    report?.role !== "replica"
      ? []
      : (server?.slots ?? [])
          .filter(({ name, isActive, isLogical }) => used.has(name) && !isActive && !isLogical)
          .map(({ name }) => ({ node: id, slot: name })),
  );
}
