// Names the primary under a lease: the node that holds the lease, while the lease as last read is
// valid; otherwise no node. Reports of other writable nodes do not count.
// (docs/decisions/0011-authority-from-a-lease.md)
import { type EpochGraph, type EpochId, outranks } from "@highwater/protocol";
import { type Authority, obeyed, strangersTo, withoutHistory } from "../ancestry.ts";
import { type NodeReport } from "../nodes.ts";
import { type LeaseView } from "./view.ts";

export interface LeaseEvidence {
  readonly view: LeaseView;
  readonly failure: string | null;
  readonly nowMs: number;
}

/**
 * `known`: the epoch that this process last took for current. A holder whose history lacks it
 * begins a new epoch that ends the known one.
 */
export function decideByLease(
  lease: LeaseEvidence,
  reports: readonly NodeReport[],
  known: EpochId | null,
  graph: EpochGraph,
): Authority {
  const { view } = lease;
  if (view.kind !== "held" || lease.nowMs >= view.validUntilMs) return nobody(whyNobodyHolds(lease));
  const { node } = view.term;
  const holder = reports.find((report) => report.node === node);
  if (holder === undefined) return nobody(`${node} holds the lease, but does not answer`);
  if (holder.role !== "primary") return nobody(`${node} holds the lease, but is not writable`);
  if (holder.epochs.length === 0) return firstContact(holder, reports, known, graph);
  if (!holder.prepared) return { kind: "prepare", node };
  const isFollowed = known === null || outranks(holder.epochs, known, graph);
  if (holder.current !== null && isFollowed) return { kind: "primary", node, epoch: holder.current };
  // The lease ends every epoch that this history does not end itself.
  const supersedes = strangersTo(holder, graph).filter((id) => !outranks(holder.epochs, id, graph));
  return { kind: "mint", node, command: null, supersedes };
}

function whyNobodyHolds({ view, failure }: LeaseEvidence): string {
  if (view.kind === "free") return "no node holds the lease";
  if (failure !== null) return `the lease cannot be read: ${failure}`;
  return view.kind === "unread" ? "the lease has not been read yet" : "the lease has expired";
}

function firstContact(
  holder: NodeReport,
  reports: readonly NodeReport[],
  known: EpochId | null,
  graph: EpochGraph,
): Authority {
  if (known !== null || reports.some((report) => report.epochs.length > 0))
    // A command counts under a lease only here: without it the lease would make any empty database
    // the primary.
    return obeyed([holder], reports, graph) ?? nobody(withoutHistory([holder]));
  return holder.prepared
    ? { kind: "mint", node: holder.node, command: null, supersedes: [] }
    : { kind: "prepare", node: holder.node };
}

function nobody(reason: string): Authority {
  return { kind: "none", reason };
}
