// Works out what adopting a database gives up, and what speaks against it, from what nodes and
// trackers report. Pure.
import { type NodeReport } from "@highwater/authority";
import { type EpochRecord } from "@highwater/protocol";
import { knownEpochs, notEndedBy } from "../../failover/history.ts";
import { type FailoverPreview } from "../../failover/wire.ts";
import { type Remembered, remembering } from "../failover-candidate/ask.ts";

export interface AdoptionPlan {
  readonly node: string;
  /** Why the command is not given; empty: it can be. */
  readonly obstacles: readonly string[];
  /**
   * Epochs that nodes or trackers know and that the node's history neither has nor ends, oldest
   * first.
   */
  readonly givenUp: readonly EpochRecord[];
  /** Of the newest epoch that each tracker follows. */
  readonly trackers: readonly TrackerLoss[];
  /** The node has tables of the service, with some history. */
  readonly hasHistory: boolean;
}

export interface TrackerLoss {
  readonly tracker: string;
  readonly epoch: string;
  /** Committed there, not known to be durable at every level, and still in the ledger. */
  readonly pending: number;
  /** Announced before their commit, and nothing is known of how they ended. */
  readonly undecided: number;
  /** Up to where each level has promised the epoch. */
  readonly promised: Readonly<Record<string, string>>;
}

export interface AdoptionFacts {
  readonly reports: ReadonlyMap<string, NodeReport>;
  readonly failures: ReadonlyMap<string, string>;
  readonly memories: readonly Remembered[];
}

export function planAdoption(node: string, facts: AdoptionFacts): Omit<AdoptionPlan, "trackers"> {
  const { reports, failures, memories } = facts;
  const { graph } = knownEpochs({ reports, trackers: remembering(memories) });
  const report = reports.get(node);
  const own = report?.epochs ?? [];
  const givenUp = notEndedBy(own, graph);
  const silent = memories.filter((memory) => memory.kind === "silent");
  const obstacles = [
    ...whyNotOn(node, report, failures),
    ...(memories.length === 0 ? ["no tracker is configured: set HIGHWATER_TRACKERS or --tracker"] : []),
    ...silent.map(({ tracker, reason }) => `tracker ${tracker} does not answer: ${reason}`),
    ...rivalsOf(node, reports, new Set(givenUp.map(({ id }) => id))),
  ];
  if (obstacles.length === 0 && givenUp.length === 0)
    obstacles.push(`there is nothing to adopt: the history of ${node} has every known epoch`);
  return { node, obstacles, givenUp, hasHistory: own.length > 0 };
}

function whyNotOn(
  node: string,
  report: NodeReport | undefined,
  failures: ReadonlyMap<string, string>,
): string[] {
  if (report === undefined) return [`${node} does not answer: ${failures.get(node) ?? "it was not asked"}`];
  if (report.role !== "primary") return [`${node} is a replica: promote it first, or name the primary`];
  return report.unfit === null ? [] : [`${node} is unfit: ${report.unfit}`];
}

/** A node that is alive in what would be given up: that history is not gone. */
function rivalsOf(
  node: string,
  reports: ReadonlyMap<string, NodeReport>,
  givenUp: ReadonlySet<string>,
): string[] {
  return [...reports.values()].flatMap((rival) => {
    const newest = rival.epochs.at(-1);
    if (rival.node === node || rival.role !== "primary" || newest === undefined || !givenUp.has(newest.id))
      return [];
    return [
      `${rival.node} is writable and has epoch ${String(newest.seq)} (${newest.id}): go on with it, or turn it off first`,
    ];
  });
}

export function lossOf(tracker: string, preview: FailoverPreview): TrackerLoss {
  return {
    tracker,
    epoch: preview.epoch,
    pending: preview.candidates[0]?.transactions ?? 0,
    undecided: preview.undecided,
    promised: preview.marks,
  };
}
