// Names the primary by operators' commands alone: only a node that an operator chose is followed,
// whatever the nodes report about themselves.
import { type EpochGraph, type EpochId } from "@highwater/protocol";
import { type Authority, decideAuthority } from "./ancestry.ts";
import { type NodeReport } from "./nodes.ts";

/**
 * Decides by ancestry among the chosen nodes: a command or the first use of the store began the
 * node's epoch, and no other node has had an epoch since. The node's restarts are followed; a
 * promotion without a command is not.
 */
export function decideByOperator(
  reports: readonly NodeReport[],
  known: EpochId | null,
  graph: EpochGraph,
): Authority {
  const followed = reports.filter(
    (report) => report.role !== "primary" || report.command !== null || isChosen(report),
  );
  const authority = decideAuthority(followed, known, graph);
  const ignored = reports.filter((report) => !followed.includes(report)).map(({ node }) => node);
  if (authority.kind !== "none" || ignored.length === 0) return authority;
  const names = ignored.join(", ");
  return { kind: "none", reason: `${names}: writable without an operator's command; ${authority.reason}` };
}

function isChosen({ node, epochs }: NodeReport): boolean {
  // Before the first epoch there was nothing for a command to overrule.
  const from = epochs.findLastIndex((record) => record.commanded || record.previous === null);
  return epochs.slice(Math.max(0, from)).every((record) => record.node === node);
}
