// What has to be so before a primary is handed over: everything that would make the switchover fail
// half-way, or lose what no log has. Pure.
import { type Node, type Observed } from "./observe.ts";
import { isChoosy } from "./conninfo.ts";

export interface CheckWishes {
  readonly target: string;
  readonly leftOut: ReadonlySet<string>;
  /** Rows of UNLOGGED tables may go. */
  readonly acceptsUnlogged: boolean;
}

export interface Checked {
  readonly obstacles: readonly string[];
  readonly warnings: readonly string[];
}

/** A standby does not run with less than its primary. */
const AS_MUCH_AS_PRIMARY = [
  ...["max_connections", "max_locks_per_transaction", "max_prepared_transactions"],
  ...["max_wal_senders", "max_worker_processes"],
];

/** `unlogged`: names of tables whose rows no standby has. */
export function checkSwitchover(
  { nodes, epoch }: Observed,
  unlogged: readonly string[],
  wishes: CheckWishes,
): Checked {
  const { target, leftOut, acceptsUnlogged } = wishes;
  const owner = nodes.get(epoch?.node ?? "");
  const heir = nodes.get(target);
  if (owner === undefined || heir === undefined) return { obstacles: [], warnings: [] };
  const others = [...nodes.values()].filter(
    ({ spec: { id }, server }) => id !== target && server !== null && !leftOut.has(id),
  );
  const lost = unlogged.length > 0 && !acceptsUnlogged;
  return {
    obstacles: [
      ...heirFaults(heir, owner),
      ...ownerFaults(owner),
      ...others.flatMap((node) => [...historyFaults(node), ...standbyFaults(node, heir)]),
      ...roomFaults(heir, others.length),
      ...(lost
        ? [
            `the rows of these tables are in no log, because they are UNLOGGED, so ${target} lacks them: ${unlogged.join(", ")}. If they may go, add --accept-unlogged`,
          ]
        : []),
    ],
    warnings: [
      ...logicalSlots(owner, heir),
      ...[...leftOut].map(
        (node) => `${node} is left out: point it at ${target} when it is back, with this command`,
      ),
    ],
  };
}

function heirFaults({ spec: { id }, server }: Node, owner: Node): string[] {
  if (server === null) return [];
  const { isPaused, settings, conninfo, receiver } = server;
  const faults: string[] = [];
  if (isPaused) faults.push(`replay is paused on ${id}: SELECT pg_wal_replay_resume();`);
  if (!["0", ""].includes(settings["recovery_min_apply_delay"] ?? ""))
    faults.push(`${id} delays its replay (recovery_min_apply_delay): it is no node to promote`);
  if (receiver?.status !== "streaming")
    faults.push(`no stream feeds ${id}: it has to have everything that ${owner.spec.id} has`);
  else if (isChoosy(conninfo))
    faults.push(
      `primary_conninfo on ${id} has target_session_attrs, so it would not follow ${owner.spec.id} while that is a standby. If an earlier switchover was interrupted, finish it: highwater switchover ${owner.spec.id}`,
    );
  return faults;
}

function ownerFaults({ spec: { id }, server }: Node): string[] {
  const { settings = {}, slots = [] } = server ?? {};
  const faults: string[] = [];
  if (settings["hot_standby"] !== "on")
    faults.push(
      `hot_standby is off on ${id}: as a standby it would not answer. ALTER SYSTEM SET hot_standby = on;`,
    );
  // While it promotes, this command holds one there.
  if (slots.length >= Number(settings["max_replication_slots"] ?? 0))
    faults.push(
      `max_replication_slots leaves no slot on ${id}, and this command needs one: drop one that no standby uses`,
    );
  return faults;
}

/** Of the primary, too: as a standby it has to be fit, and then it is too late to find out. */
function historyFaults({ spec: { id }, report, standing, why }: Node): string[] {
  const { unfit = null } = report ?? {};
  if (unfit !== null) return [`${id}: ${unfit}`];
  if (standing === "candidate" || standing === "primary") return [];
  return [`${id} ${why ?? ""}. Mend it, or add --without ${id}`];
}

function standbyFaults({ spec: { id }, server }: Node, heir: Node): string[] {
  const faults = AS_MUCH_AS_PRIMARY.flatMap((name) => {
    const [own, needed] = [server?.settings[name] ?? "0", heir.server?.settings[name] ?? "0"];
    return Number(own) >= Number(needed)
      ? []
      : [
          `${name} is ${own} on ${id}, and ${needed} on ${heir.spec.id}, which it has to follow: raise it, and restart ${id}`,
        ];
  });
  const timeline = server?.settings["recovery_target_timeline"] ?? "latest";
  if (timeline !== "latest")
    faults.push(
      `recovery_target_timeline is ${timeline} on ${id}: it would not follow a promotion. Set it to latest`,
    );
  return faults;
}

function roomFaults({ spec: { id }, server }: Node, standbys: number): string[] {
  const most = Number(server?.settings["max_wal_senders"] ?? 0);
  return most >= standbys
    ? []
    : [`max_wal_senders is ${String(most)} on ${id}, and ${String(standbys)} standbys will follow it`];
}

/** Subscribers and change streams read from them. */
function logicalSlots({ spec, server }: Node, heir: Node): string[] {
  const there = new Set(heir.server?.slots.map(({ name }) => name));
  const missing = (server?.slots ?? []).filter(({ name, isLogical }) => isLogical && !there.has(name));
  if (missing.length === 0) return [];
  return [
    `logical replication slots are on ${spec.id} only: ${missing.map(({ name }) => name).join(", ")}. Their readers have to begin anew on ${heir.spec.id}`,
  ];
}
