// Decides whether an operator's command still counts. The operator gave it for the nodes as they
// were then. If the command is found on a node that was out of reach for a while, the nodes may
// have moved on. (docs/decisions/0010-a-command-names-what-it-overrules.md)
import { type EpochGraph, type EpochId, outranks } from "@highwater/protocol";
import { type NodeReport } from "./nodes.ts";

/**
 * A node that answers reports an epoch that the command does not name. A service that sees these
 * answers knows it.
 */
export function isStale(report: NodeReport, reports: readonly NodeReport[], graph: EpochGraph): boolean {
  const known = reports.flatMap((each) => each.epochs.map((record) => record.id as EpochId));
  return unnamedBy(report, known, graph).length > 0;
}

/** Those of the epochs that neither the node's history ends nor its command gives up. */
export function unnamedBy(report: NodeReport, epochs: readonly EpochId[], graph: EpochGraph): EpochId[] {
  const named = new Set<string>(report.command?.overrules);
  const own = new Set(report.epochs.map((record) => record.id));
  const histories = [...named]
    .filter((id) => !own.has(id))
    .map((id) => graph.ancestry(id as EpochId).reverse());
  const isGivenUp = (id: EpochId): boolean => {
    // With an epoch goes what it had ended itself: an operator sees the last history, not those
    // that it gave up.
    if (histories.some((history) => outranks(history, id, graph))) return true;
    // With an epoch goes what followed it by itself, a restart for instance; but not what another
    // command has begun.
    for (const record of graph.ancestry(id)) {
      if (named.has(record.id)) return true;
      if (own.has(record.id) || record.commanded) return false;
    }
    return false;
  };
  const unnamed = new Set(epochs.filter((id) => !outranks(report.epochs, id, graph) && !isGivenUp(id)));
  return [...unnamed].sort();
}
