// Who is the primary? A pure answer from what the nodes report and what this process has seen before.
// A node outranks another if and only if its history contains the other's current epoch, or an operator chose it.
// Never by sequence number, never by timeline, never by log position.
import { type EpochId, type EpochRecord } from "@highwater/protocol";
import { type NodeReport } from "./port.ts";

export type Authority =
  /** `mint`: the node is the authority, but its epoch has yet to begin. */
  | { readonly kind: "primary"; readonly node: string; readonly epoch: EpochId }
  | {
      readonly kind: "mint";
      readonly node: string;
      readonly command: string | null;
      readonly supersedes: readonly EpochId[];
    }
  /** First contact with a database that has none of the service's tables. */
  | { readonly kind: "prepare"; readonly node: string }
  | { readonly kind: "none"; readonly reason: string }
  | { readonly kind: "split"; readonly nodes: readonly string[]; readonly reason: string };

/** Epoch records seen anywhere, by id. They only ever accumulate. */
export class EpochGraph {
  readonly #records = new Map<EpochId, EpochRecord>();

  add(records: readonly EpochRecord[]): void {
    for (const record of records) this.#records.set(record.id as EpochId, record);
  }

  get(id: EpochId): EpochRecord | undefined {
    return this.#records.get(id);
  }

  get maxSeq(): number {
    let max = 0;
    for (const record of this.#records.values()) max = Math.max(max, record.seq);
    return max;
  }

  /** The epoch and its ancestors, newest first. Bounded by the number of records, should they ever form a loop. */
  ancestry(id: EpochId): EpochRecord[] {
    const chain: EpochRecord[] = [];
    let next = this.#records.get(id);
    while (next !== undefined && chain.length <= this.#records.size) {
      chain.push(next);
      next = next.previous === null ? undefined : this.#records.get(next.previous as EpochId);
    }
    return chain;
  }

  ids(): EpochId[] {
    return [...this.#records.keys()];
  }
}

/** True when the history `mine` (oldest first) ends the reign of `other`: contains it, supersedes it, or was chosen over it. */
export function outranks(mine: readonly EpochRecord[], other: EpochId, graph: EpochGraph): boolean {
  const own = new Set(mine.map((record) => record.id));
  if (own.has(other)) return true;
  if (mine.some((record) => record.supersedes.includes(other))) return true;
  // Neither contains the other. Past their last common epoch an operator's command beats none.
  const otherChain = graph.ancestry(other);
  const common = otherChain.find((record) => own.has(record.id));
  if (common === undefined) return false;
  const theirs = otherChain.slice(0, otherChain.indexOf(common));
  const ours = mine.slice(mine.findIndex((record) => record.id === common.id) + 1);
  return ours.some((record) => record.commanded) && !theirs.some((record) => record.commanded);
}

/**
 * The authoritative node among the reports.
 * `known`: the epoch that this process last took for current; a node that does not outrank it is a zombie.
 */
export function decideAuthority(
  reports: readonly NodeReport[],
  known: EpochId | null,
  graph: EpochGraph,
): Authority {
  const primaries = reports.filter((report) => report.role === "primary");
  if (primaries.length === 0) return { kind: "none", reason: "no writable node answers" };

  const commanded = primaries.filter((report) => report.command !== null);
  if (commanded.length > 1) return split(commanded, "operator's commands name more than one node");
  const [chosen] = commanded;
  if (chosen !== undefined) return mintOn(chosen, graph);

  const prepared = primaries.filter((report) => report.prepared && report.epochs.length > 0);
  if (prepared.length === 0) return firstContact(primaries, reports, known);

  const live = prepared.filter((report) => known === null || outranks(report.epochs, known, graph));
  if (live.length === 0)
    return { kind: "none", reason: `only zombies answer: none has epoch ${String(known)} in its history` };
  const winners = live.filter((report) =>
    live.every((rival) => rival === report || beats(report, rival, graph)),
  );
  const [winner] = winners;
  if (winner === undefined || winners.length > 1)
    return split(live, "neither history contains the other's current epoch");
  if (winner.current === null) return mintOn(winner, graph);
  return { kind: "primary", node: winner.node, epoch: winner.current };
}

function beats(report: NodeReport, rival: NodeReport, graph: EpochGraph): boolean {
  if (rival.current !== null) {
    // A writable node past the rival's current epoch is its successor, even before its own epoch is minted.
    if (report.current === rival.current || !outranks(report.epochs, rival.current, graph)) return false;
    return report.current === null || !outranks(rival.epochs, report.current, graph);
  }
  // A rival between two epochs stands for the last one it had; only being in a later one settles it.
  const last = rival.epochs.at(-1)?.id as EpochId | undefined;
  if (last === undefined || report.current === null || report.current === last) return false;
  return outranks(report.epochs, last, graph);
}

function mintOn(report: NodeReport, graph: EpochGraph): Authority {
  const own = new Set(report.epochs.map((record) => record.id));
  const supersedes = report.command === null ? [] : graph.ids().filter((id) => !own.has(id));
  return { kind: "mint", node: report.node, command: report.command, supersedes };
}

function firstContact(
  primaries: readonly NodeReport[],
  reports: readonly NodeReport[],
  known: EpochId | null,
): Authority {
  const [only] = primaries;
  if (known !== null || reports.some((report) => report.epochs.length > 0))
    return { kind: "none", reason: "the writable node has no history, others have one" };
  if (only === undefined || primaries.length > 1)
    return split(primaries, "several writable nodes and no history to rank them");
  return only.prepared
    ? { kind: "mint", node: only.node, command: null, supersedes: [] }
    : { kind: "prepare", node: only.node };
}

function split(reports: readonly NodeReport[], reason: string): Authority {
  return { kind: "split", nodes: reports.map((report) => report.node), reason };
}
