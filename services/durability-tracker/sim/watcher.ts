// Who is the primary, as one process of the simulation sees it: the store's rule over the newest word of every node that can be
// asked. The same bookkeeping as the real watcher's, without its clock.
import { type Authority, decideAuthority, type NodeReport } from "@highwater/authority";
import { EpochGraph, type EpochId } from "@highwater/protocol";

export class Watcher {
  readonly graph = new EpochGraph();
  readonly reports = new Map<string, NodeReport>();
  readonly #askedAt = new Map<string, number>();
  readonly #nodes: number;
  known: EpochId | null = null;
  authority: Authority = { kind: "none", reason: "no node has answered yet" };

  constructor(nodes: number) {
    this.#nodes = nodes;
  }

  /** False if a later report of the node came before. */
  observe(report: NodeReport, askedAt: number): boolean {
    if ((this.#askedAt.get(report.node) ?? -1) > askedAt) return false;
    this.#askedAt.set(report.node, askedAt);
    this.reports.set(report.node, report);
    this.graph.add(report.epochs);
    return true;
  }

  missed(node: string, askedAt: number): void {
    this.#askedAt.set(node, askedAt);
    this.reports.delete(node);
  }

  /** The answer if it is another one, or if somebody has to act on it. */
  decide(): Authority | null {
    // The first answer alone could be a zombie's: every node gets its chance to speak, or to be silent, once.
    if (this.#askedAt.size < this.#nodes) return null;
    const next = decideAuthority([...this.reports.values()], this.known, this.graph);
    const isSame = sameAs(next, this.authority);
    this.authority = next;
    if (next.kind === "primary") this.known = next.epoch;
    return isSame && next.kind !== "mint" ? null : next;
  }
}

function sameAs(one: Authority, other: Authority): boolean {
  if (one.kind !== other.kind) return false;
  if (one.kind === "primary" && other.kind === "primary")
    return one.epoch === other.epoch && one.node === other.node;
  return JSON.stringify(one) === JSON.stringify(other);
}
