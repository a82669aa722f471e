// Names the primary from what the nodes report and what this process has seen before. Pure. A node
// outranks another if and only if its history contains the other's current epoch, or an operator
// chose it. Sequence numbers, timelines and log positions never decide.
import { type EpochGraph, type EpochId, outranks } from "@highwater/protocol";
import { isStale, unnamedBy } from "./command.ts";
import { type NodeReport } from "./nodes.ts";

export type Authority =
  /** `mint`: the node is the authority, but its epoch has yet to begin. */
  | { readonly kind: "primary"; readonly node: string; readonly epoch: EpochId }
  | {
      readonly kind: "mint";
      readonly node: string;
      readonly command: string | null;
      readonly supersedes: readonly EpochId[];
    }
  /** The database has none of the service's tables, or those of an older version. */
  | { readonly kind: "prepare"; readonly node: string }
  | { readonly kind: "none"; readonly reason: string }
  | { readonly kind: "split"; readonly nodes: readonly string[]; readonly reason: string };

/**
 * The authoritative node among the reports. `known`: the epoch that this process last took for
 * current; a node that does not outrank it is a zombie.
 */
export function decideAuthority(
  reports: readonly NodeReport[],
  known: EpochId | null,
  graph: EpochGraph,
): Authority {
  const primaries = reports.filter((report) => report.role === "primary");
  if (primaries.length === 0) return { kind: "none", reason: "no writable node answers" };

  const commanded = obeyed(primaries, reports, graph);
  if (commanded !== null) return commanded;

  const prepared = primaries.filter((report) => report.epochs.length > 0);
  if (prepared.length === 0) return firstContact(primaries, reports, known);

  const live = prepared.filter((report) => known === null || outranks(report.epochs, known, graph));
  if (live.length === 0)
    return { kind: "none", reason: `only zombies answer: none has epoch ${String(known)} in its history` };
  const winners = live.filter((report) =>
    prepared.every(
      (rival) =>
        rival === report ||
        // A mere zombie stands for an epoch that ours has ended; one that lives in an epoch of its
        // own is no mere zombie.
        (live.includes(rival) ? beats(report, rival, graph) : outranks(report.epochs, lastOf(rival), graph)),
    ),
  );
  const [winner] = winners;
  if (winner === undefined || winners.length > 1)
    return split(
      prepared.filter((report) => !prepared.some((rival) => isPast(rival, report, graph))),
      "neither history contains the other's current epoch",
    );
  // An older version of the service made its tables.
  if (!winner.prepared) return { kind: "prepare", node: winner.node };
  if (winner.current === null) return mintOn(winner, graph);
  return { kind: "primary", node: winner.node, epoch: winner.current };
}

/**
 * The epoch that a writable node stands for: its current one, or between two the last that it had.
 */
function lastOf(report: NodeReport): EpochId {
  return report.current ?? (report.epochs.at(-1)?.id as EpochId);
}

/**
 * The rival has ended the report's epoch, and not the other way round: whatever is split, the
 * report is a mere zombie.
 */
function isPast(rival: NodeReport, report: NodeReport, graph: EpochGraph): boolean {
  return outranks(rival.epochs, lastOf(report), graph) && !outranks(report.epochs, lastOf(rival), graph);
}

function beats(report: NodeReport, rival: NodeReport, graph: EpochGraph): boolean {
  if (rival.current !== null) {
    // A writable node past the rival's current epoch is its successor, even before its own epoch is
    // minted.
    if (report.current === rival.current || !outranks(report.epochs, rival.current, graph)) return false;
    return report.current === null || !outranks(rival.epochs, report.current, graph);
  }
  // Against a rival between two epochs only being in a later one than its last settles it.
  const last = lastOf(rival);
  if (report.current === null || report.current === last) return false;
  return outranks(report.epochs, last, graph);
}

/**
 * What an operator's commands on the writable nodes decide; null when there is none that still
 * counts.
 */
export function obeyed(
  primaries: readonly NodeReport[],
  reports: readonly NodeReport[],
  graph: EpochGraph,
): Authority | null {
  const commanded = primaries.filter((report) => report.command !== null && !isStale(report, reports, graph));
  if (commanded.length > 1) return split(commanded, "operator's commands name more than one node");
  const [chosen] = commanded;
  if (chosen === undefined) return null;
  const unnamed = unnamedBy(chosen, graph.ids(), graph);
  if (unnamed.length === 0) return mintOn(chosen, graph);
  // No node that answers has them, so others may follow the command; to go against those would be
  // worse than to wait.
  const reason = `the operator's command on ${chosen.node} does not name epoch ${unnamed.join(", ")} among those that it overrules`;
  return { kind: "none", reason };
}

function mintOn(report: NodeReport, graph: EpochGraph): Authority {
  const supersedes = report.command === null ? [] : endedBy(report, report.command.overrules, graph);
  return { kind: "mint", node: report.node, command: report.command?.id ?? null, supersedes };
}

/**
 * The epochs that the command ends: all that the node's history lacks, and those that the command
 * names beyond that. The service that carries it out may not know an epoch that others wait for.
 */
function endedBy(report: NodeReport, overrules: readonly EpochId[], graph: EpochGraph): EpochId[] {
  const own = new Set(report.epochs.map((record) => record.id));
  const named = overrules.filter((id) => !own.has(id));
  return [...new Set([...strangersTo(report, graph), ...named])].sort();
}

/** Known epochs outside the node's history. */
export function strangersTo(report: NodeReport, graph: EpochGraph): EpochId[] {
  const own = new Set(report.epochs.map((record) => record.id));
  return graph
    .ids()
    .filter((id) => !own.has(id))
    .sort();
}

function firstContact(
  primaries: readonly NodeReport[],
  reports: readonly NodeReport[],
  known: EpochId | null,
): Authority {
  const [only] = primaries;
  if (known !== null || reports.some((report) => report.epochs.length > 0))
    return { kind: "none", reason: withoutHistory(primaries) };
  if (only === undefined || primaries.length > 1)
    return split(primaries, "several writable nodes, and no history that ranks them");
  return only.prepared
    ? { kind: "mint", node: only.node, command: null, supersedes: [] }
    : { kind: "prepare", node: only.node };
}

/** What every process that waits says of it, in its readiness and in its refusals. */
export function withoutHistory(reports: readonly NodeReport[]): string {
  const nodes = reports.map(({ node }) => node).join(", ");
  return `${nodes} has no Highwater history, although an epoch existed before: its schema was dropped, or this is another database. To see what continuing with it gives up: make adopt ARGS="--node ${reports[0]?.node ?? "NODE"}"`;
}

function split(reports: readonly NodeReport[], reason: string): Authority {
  return { kind: "split", nodes: reports.map((report) => report.node), reason };
}
