// Decides whether an operator's command still counts. The operator gave it for the nodes as they
// were then. A node that was out of reach may show the command later, when the other nodes have
// moved on. (docs/decisions/0010-a-command-names-what-it-overrules.md)
import { type EpochGraph, type EpochId, outranks } from "@highwater/protocol";
import { type NodeReport } from "./nodes.ts";

/**
 * True when a node that answers reports an epoch that the command does not name. A service that
 * sees the same reports decides the same.
 */
export function isStale(report: NodeReport, reports: readonly NodeReport[], graph: EpochGraph): boolean {
  const known = reports.flatMap((each) => each.epochs.map((record) => record.id as EpochId));
  return unnamedBy(report, known, graph).length > 0;
}

/** The given epochs that neither the node's history nor its command ends. */
export function unnamedBy(report: NodeReport, epochs: readonly EpochId[], graph: EpochGraph): EpochId[] {
  const named = new Set<string>(report.command?.overrules);
  const own = new Set(report.epochs.map((record) => record.id));
  const histories = [...named]
    .filter((id) => !own.has(id))
    .map((id) => graph.ancestry(id as EpochId).reverse());
  const isGivenUp = (id: EpochId): boolean => {
    // Giving up an epoch also gives up the epochs that its history had ended: the operator may know
    // only the newest of them.
    if (histories.some((history) => outranks(history, id, graph))) return true;
    // Giving up an epoch also gives up those that followed without a command, such as a restart,
    // but not one that another command began.
    for (const record of graph.ancestry(id)) {
      if (named.has(record.id)) return true;
      if (own.has(record.id) || record.commanded) return false;
    }
    return false;
  };
  const unnamed = new Set(epochs.filter((id) => !outranks(report.epochs, id, graph) && !isGivenUp(id)));
  return [...unnamed].sort();
}
