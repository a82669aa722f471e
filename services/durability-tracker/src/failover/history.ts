// Chooses the history to continue, and the nodes that belong to it, by epoch records alone: a
// position says nothing about its history.
import { type NodeReport } from "@highwater/authority";
import {
  EpochGraph,
  type EpochId,
  type EpochRecord,
  formatOffset,
  type Offset,
  outranks,
} from "@highwater/protocol";
import { type StoreNode, type Witness } from "@highwater/store";

/** What a node is in an election after the current epoch. */
export const STANDINGS = [
  /** A replica of the current history whose disk counts: it can be promoted. */
  "candidate",
  /** Writable, in the current epoch. */
  "primary",
  /**
   * Writable, of the current history, and its own epoch has yet to begin: restarted or promoted.
   */
  "writable",
  /**
   * Of an earlier part of the same history: the current epoch's record has not been replayed there.
   */
  "behind",
  "other_history",
  /** It must not be promoted: its disk does not count. */
  "unfit",
  /** It has no epoch at all: new, empty or of another product. */
  "no_history",
  "silent",
] as const;
type NodeStanding = (typeof STANDINGS)[number];

export interface NodeFinding {
  readonly node: string;
  readonly region: string;
  readonly zone: string;
  readonly standing: NodeStanding;
  /** In plain words, for what is not a candidate. */
  readonly reason: string | null;
  /** On its disk of the current epoch's log; null where that is not known. */
  readonly position: Offset | null;
  /** Number of the newest epoch in its history. */
  readonly newestSeq: number | null;
  /** It still holds an open stream from another server. */
  readonly isFed: boolean;
}

/** What one tracker remembers of the epochs. */
export interface TrackerMemory {
  readonly tracker: string;
  /** Of the history that it follows, oldest first. */
  readonly epochs: readonly EpochRecord[];
}

export interface ClusterReports {
  readonly nodes: readonly StoreNode[];
  readonly reports: ReadonlyMap<string, NodeReport>;
  /**
   * Of the newest epoch of each that answers, read after its report; null: it has none. Left out:
   * it did not say.
   */
  readonly witnesses: ReadonlyMap<string, Witness | null>;
  /** Why the others do not answer. */
  readonly failures: ReadonlyMap<string, string>;
  readonly trackers: readonly TrackerMemory[];
}

export interface KnownEpochs {
  readonly graph: EpochGraph;
  /** The one that ends all others. Null: there is none, or several that do not end each other. */
  readonly current: EpochRecord | null;
  /** Those that no other has ended. */
  readonly rivals: readonly EpochRecord[];
}

/** The epochs that a node's history (oldest first) neither has nor ends, oldest first. */
export function notEndedBy(own: readonly EpochRecord[], graph: EpochGraph): EpochRecord[] {
  return graph
    .records()
    .filter(({ id }) => !outranks(own, id as EpochId, graph))
    .sort((a, b) => a.seq - b.seq);
}

export function knownEpochs({
  reports,
  trackers,
}: Pick<ClusterReports, "reports" | "trackers">): KnownEpochs {
  const graph = new EpochGraph();
  for (const { epochs } of reports.values()) graph.add(epochs);
  for (const { epochs } of trackers) graph.add(epochs);
  const records = graph.records();
  const ends = (mine: EpochRecord, other: EpochRecord): boolean =>
    outranks(graph.ancestry(mine.id as EpochId).reverse(), other.id as EpochId, graph);
  const rivals = records.filter((record) =>
    records.every((other) => other === record || !ends(other, record) || ends(record, other)),
  );
  const current = rivals.find((record) => records.every((other) => other === record || ends(record, other)));
  return { graph, current: rivals.length === 1 ? (current ?? null) : null, rivals };
}

/** What every configured node is, seen from `epoch`. */
export function findNodes(answers: ClusterReports, epoch: EpochRecord, graph: EpochGraph): NodeFinding[] {
  const ancestors = new Set(graph.ancestry(epoch.id as EpochId).map(({ id }) => id));
  return answers.nodes.map((site) => {
    const report = answers.reports.get(site.id);
    const about = { node: site.id, region: site.region, zone: site.zone };
    if (report === undefined) {
      const reason = `does not answer: ${answers.failures.get(site.id) ?? "not asked"}`;
      return { ...about, standing: "silent", reason, position: null, newestSeq: null, isFed: false };
    }
    const newest = report.epochs.at(-1);
    return {
      ...about,
      ...refuseStranger(answers, report, standingOf(report, newest, { epoch, ancestors })),
      newestSeq: newest?.seq ?? null,
      isFed: report.upstream !== null,
    };
  });
}

type Standing = Pick<NodeFinding, "standing" | "reason" | "position">;

/**
 * A server that was restored from an older copy and went on has the epoch's record, and log of its
 * own above that. If it has replayed beyond another node's witness and lacks that witness, its log
 * is another one, however far it goes.
 */
function refuseStranger(
  { reports, witnesses }: ClusterReports,
  report: NodeReport,
  found: Standing,
): Standing {
  const own = witnesses.get(report.node);
  if (found.standing !== "candidate" || own === undefined) return found;
  const epoch = report.epochs.at(-1)?.id;
  for (const [other, theirs] of witnesses) {
    const isOfEpoch = reports.get(other)?.epochs.at(-1)?.id === epoch;
    if (theirs === null || !isOfEpoch || report.applied < theirs.seenBy) continue;
    if (own !== null && own.reached >= theirs.reached) continue;
    const reason = `has another history: it has replayed up to ${formatOffset(report.applied)}, and lacks what ${other} had at ${formatOffset(theirs.seenBy)}; it was restored from an older copy`;
    return { standing: "other_history", reason, position: null };
  }
  return found;
}

function standingOf(
  report: NodeReport,
  newest: EpochRecord | undefined,
  { epoch, ancestors }: { readonly epoch: EpochRecord; readonly ancestors: ReadonlySet<string> },
): Standing {
  if (newest === undefined)
    return { standing: "no_history", reason: "has no epoch: it is new or empty", position: null };
  const [current, newestIs] = [
    `epoch ${String(epoch.seq)}`,
    `its newest epoch is ${String(newest.seq)} (${newest.id})`,
  ];
  if (newest.id !== epoch.id) {
    if (!ancestors.has(newest.id))
      return { standing: "other_history", reason: `has another history: ${newestIs}`, position: null };
    const reason = `lacks the record of ${current}: ${newestIs}`;
    return {
      standing: report.role === "primary" ? "other_history" : "behind",
      reason: report.role === "primary" ? `is a writable node of the past: ${newestIs}` : reason,
      position: null,
    };
  }
  if (report.role === "primary") {
    if (report.current === epoch.id)
      return { standing: "primary", reason: `is the primary in ${current}`, position: report.flushed };
    const reason = "is already writable, and its own epoch has not begun yet";
    // After a recovery or a promotion the end of its log says nothing of the epoch that ended.
    return { standing: "writable", reason, position: null };
  }
  if (report.unfit !== null) return { standing: "unfit", reason: report.unfit, position: null };
  return { standing: "candidate", reason: null, position: report.flushed };
}
