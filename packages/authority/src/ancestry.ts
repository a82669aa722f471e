// Names the primary from the nodes' reports and from the epochs that this process has seen before.
// Pure. A node outranks another if and only if its history contains the other's current epoch, or
// an operator chose it. Sequence numbers, timelines and log positions never decide.
import { type EpochGraph, type EpochId, outranks } from "@highwater/protocol";
import { isStale, unnamedBy } from "./command.ts";
import { type NodeReport } from "./nodes.ts";

export type Authority =
  /** `mint`: the node is the authority, and its epoch has still to be begun. */
  | { readonly kind: "primary"; readonly node: string; readonly epoch: EpochId }
  | {
      readonly kind: "mint";
      readonly node: string;
      readonly command: string | null;
      readonly supersedes: readonly EpochId[];
    }
  /** The database lacks the service's tables, or has those of an older version. */
  | { readonly kind: "prepare"; readonly node: string }
  | { readonly kind: "none"; readonly reason: string }
  | { readonly kind: "split"; readonly nodes: readonly string[]; readonly reason: string };

/**
 * Picks the authoritative node from the reports. `known`: the epoch that this process last took for
 * current. A node that does not outrank `known` is a zombie: a former primary that still runs.
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
    return {
      kind: "none",
      reason: `every writable node that answers is behind: none has epoch ${String(known)} in its history`,
    };
  const winners = live.filter((report) =>
    prepared.every(
      (rival) =>
        rival === report ||
        // A rival that is a zombie loses if our history contains its epoch. A zombie that has begun
        // an epoch of its own splits the store.
        (live.includes(rival) ? beats(report, rival, graph) : outranks(report.epochs, lastOf(rival), graph)),
    ),
  );
  const [winner] = winners;
  if (winner === undefined || winners.length > 1)
    return split(
      prepared.filter((report) => !prepared.some((rival) => isPast(rival, report, graph))),
      "neither history contains the other's current epoch",
    );
  // The node's tables are those of an older version of the service.
  if (!winner.prepared) return { kind: "prepare", node: winner.node };
  if (winner.current === null) return mintOn(winner, graph);
  return { kind: "primary", node: winner.node, epoch: winner.current };
}

/** The node's current epoch; before that epoch is minted, the last one in its history. */
function lastOf(report: NodeReport): EpochId {
  return report.current ?? (report.epochs.at(-1)?.id as EpochId);
}

/**
 * True when the rival's history contains the report's epoch, and not the reverse. The report is
 * then a zombie and takes no part in the split.
 */
function isPast(rival: NodeReport, report: NodeReport, graph: EpochGraph): boolean {
  return outranks(rival.epochs, lastOf(report), graph) && !outranks(report.epochs, lastOf(rival), graph);
}

function beats(report: NodeReport, rival: NodeReport, graph: EpochGraph): boolean {
  if (rival.current !== null) {
    // A writable node whose history contains the rival's current epoch is its successor, even
    // before its own epoch is minted.
    if (report.current === rival.current || !outranks(report.epochs, rival.current, graph)) return false;
    return report.current === null || !outranks(rival.epochs, report.current, graph);
  }
  // The rival's next epoch is not minted yet. A node beats it only with an epoch later than its
  // last.
  const last = lastOf(rival);
  if (report.current === null || report.current === last) return false;
  return outranks(report.epochs, last, graph);
}

/**
 * The answer that operators' commands on the writable nodes give; null when no command still
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
  // No node that answers has these epochs, so other nodes may have obeyed the command and moved on.
  // Waiting is safer than a second primary.
  const reason = `the operator's command on ${chosen.node} does not name epoch ${unnamed.join(", ")} among those that it overrules`;
  return { kind: "none", reason };
}

function mintOn(report: NodeReport, graph: EpochGraph): Authority {
  const supersedes = report.command === null ? [] : endedBy(report, report.command.overrules, graph);
  return { kind: "mint", node: report.node, command: report.command?.id ?? null, supersedes };
}

/**
 * The epochs that the command ends: all known ones outside the node's history, and those that the
 * command names. It may name one that this service does not know and another one waits for.
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

/** The reason that every waiting process gives, in its readiness and in its refusals. */
export function withoutHistory(reports: readonly NodeReport[]): string {
  const nodes = reports.map(({ node }) => node).join(", ");
  return `${nodes} has no Highwater history, although an epoch existed before: its schema was dropped, or this is another database. To see what continuing with it gives up: make adopt ARGS="--node ${reports[0]?.node ?? "NODE"}"`;
}

function split(reports: readonly NodeReport[], reason: string): Authority {
  return { kind: "split", nodes: reports.map((report) => report.node), reason };
}
