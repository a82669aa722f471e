// Chooses the node to promote, from what the nodes answered, what trackers remember, and what the
// operator vouches for. Pure: it asks no service and promotes no node.
import { type Authority, decideAuthority } from "@highwater/authority";
import { type EpochId, type EpochRecord, type LevelRule } from "@highwater/protocol";
import { type Bound, elect, type ElectionFinding } from "./election.ts";
import {
  type ClusterReports,
  findNodes,
  type KnownEpochs,
  knownEpochs,
  type NodeFinding,
} from "./history.ts";

export interface Wishes {
  /** Among equally advanced nodes. */
  readonly region: string | null;
  readonly zone: string | null;
  /** Nodes that are not to be promoted; what they have on disk still counts. */
  readonly excluded: ReadonlySet<string>;
  /**
   * By the operator's command these have acknowledged nothing in the current epoch, and need not
   * answer.
   */
  readonly ignored: ReadonlySet<string>;
  /** The primary is to hand over, so it may well answer. */
  readonly isSwitchover: boolean;
  /** The operator's word: the old primary is off, and cannot acknowledge anything any more. */
  readonly isFenced: boolean;
  readonly acceptsLoss: boolean;
}

export interface Situation extends ClusterReports {
  /** Weakest first. */
  readonly levels: readonly { readonly name: string; readonly rule: LevelRule }[];
  /**
   * Under a lease it is not the operator who makes the primary, and two writable nodes are no split
   * brain.
   */
  readonly isLease: boolean;
  /** Nodes whose position has changed between the last two looks. */
  readonly moving: ReadonlySet<string>;
  readonly wishes: Wishes;
}

export interface LevelFinding extends ElectionFinding {
  readonly level: string;
}

export const REFUSALS = [
  /** The primary is there, or somebody has been promoted already. */
  "primary_answers",
  "split_brain",
  "no_candidate",
  /** What a level has promised may be lost, or is. */
  "loss",
  /** A node that has answered still holds an open stream: what it said may be outdated by now. */
  "still_fed",
] as const;
export type Refusal = (typeof REFUSALS)[number];

export interface Decision {
  /** The epoch that the candidates are of; null when there is none. */
  readonly epoch: EpochRecord | null;
  /** An earlier epoch than the current one: no node that answers has that one's record. */
  readonly isEarlier: boolean;
  /** The node of that epoch. */
  readonly primary: string | null;
  readonly nodes: readonly NodeFinding[];
  readonly chosen: NodeFinding | null;
  /** A node that somebody has promoted already. */
  readonly occupant: string | null;
  readonly levels: readonly LevelFinding[];
  readonly refusal: Refusal | null;
  /** In plain words: why it is refused, or what is accepted. */
  readonly reasons: readonly string[];
  /**
   * Epochs outside the history of the chosen node, or of the occupant, which a command has to name.
   */
  readonly overrules: readonly EpochId[];
}

const NOTHING = {
  epoch: null,
  isEarlier: false,
  primary: null,
  nodes: [],
  chosen: null,
  occupant: null,
  levels: [],
  overrules: [],
} as const;

export function decideCandidate(situation: Situation): Decision {
  const known = knownEpochs(situation);
  if (known.current === null) return withoutEpoch(situation, known);
  const authority = authorityOf(situation, known);
  if (authority.kind === "split" && !situation.isLease) {
    const nodes = findNodes(situation, known.current, known.graph);
    const reason = `split brain: ${authority.nodes.join(" and ")} are writable; ${authority.reason}`;
    return { ...NOTHING, epoch: known.current, nodes, refusal: "split_brain", reasons: [reason] };
  }
  const current = choose(situation, known, known.current);
  const standing = whoStands(current, situation);
  if (standing !== null) {
    const { occupant, reason } = standing;
    const overrules = occupant === null ? [] : strangersOf(occupant, situation, known);
    return { ...current, occupant, overrules, refusal: "primary_answers", reasons: [reason] };
  }
  if (current.chosen !== null) return conclude(current, situation);
  const earlier = situation.wishes.acceptsLoss ? chooseEarlier(situation, known, known.current) : null;
  if (earlier !== null) return earlier;
  const reason = `no node that answers can be promoted: none that counts has epoch ${String(known.current.seq)} (${known.current.id})`;
  return { ...current, refusal: "no_candidate", reasons: [reason] };
}

function withoutEpoch(situation: Situation, { rivals }: KnownEpochs): Decision {
  if (rivals.length === 0) {
    const reason = "no node that answers has a record of any epoch";
    return { ...NOTHING, refusal: "no_candidate", reasons: [reason] };
  }
  const names = rivals.map(({ id, seq, node }) => `${id} (number ${String(seq)}, on ${node})`);
  const tellers = [...situation.reports.values()].flatMap(({ node, epochs }) => {
    const newest = epochs.at(-1);
    return newest === undefined ? [] : [`${node}: ${newest.id}`];
  });
  const reasons = [
    `split brain: none of these epochs has ended the others: ${names.join(", ")}`,
    `the newest epoch of each node that answers: ${tellers.join("; ")}`,
  ];
  return { ...NOTHING, refusal: "split_brain", reasons };
}

function authorityOf({ reports }: Situation, { current, graph }: KnownEpochs): Authority {
  return decideAuthority([...reports.values()], current?.id as EpochId, graph);
}

/**
 * Why no node should be promoted: there is a primary already. Null: there is none, or that is as
 * the operator wants it.
 */
function whoStands(
  { nodes, primary }: Decision,
  { wishes }: Situation,
): { readonly occupant: string | null; readonly reason: string } | null {
  const holder = nodes.find(({ standing }) => standing === "primary");
  const writable = nodes.find(({ standing }) => standing === "writable");
  const standing = holder ?? writable;
  if (standing === undefined) return null;
  const { node } = standing;
  if (standing === writable && node !== primary) {
    const reason = `${node} is already promoted; its epoch has not begun yet`;
    return { occupant: node, reason };
  }
  if (wishes.isSwitchover) return null;
  const reason =
    standing === holder
      ? `${node} still answers as the primary`
      : `${node} is back and writable; its next epoch has not begun yet`;
  return { occupant: null, reason };
}

function choose(situation: Situation, known: KnownEpochs, epoch: EpochRecord): Decision {
  const nodes = findNodes(situation, epoch, known.graph);
  const primary = situation.nodes.find(({ id }) => id === epoch.node) ?? null;
  const chosen = mostAdvanced(nodes, situation.wishes);
  const base = { epoch, isEarlier: false, primary: epoch.node, nodes, chosen, occupant: null };
  if (chosen?.position == null) return { ...NOTHING, ...base, refusal: null, reasons: [] };
  const at = { node: chosen.node, position: chosen.position };
  const levels = situation.levels.map(({ name, rule }) => ({
    level: name,
    ...elect({
      rule,
      nodes: situation.nodes,
      primary,
      boundOf: boundsOf(nodes, situation.wishes),
      chosen: at,
    }),
  }));
  const overrules = strangersOf(chosen.node, situation, known);
  return { ...base, levels, overrules, refusal: null, reasons: [] };
}

function mostAdvanced(nodes: readonly NodeFinding[], { region, zone, excluded }: Wishes): NodeFinding | null {
  const rank = (node: NodeFinding): number =>
    (node.region === region ? 2 : 0) + (zone !== null && node.zone === zone ? 1 : 0);
  let best: NodeFinding | null = null;
  for (const node of nodes) {
    if (node.standing !== "candidate" || node.position === null || excluded.has(node.node)) continue;
    const isBetter =
      best?.position == null ||
      node.position > best.position ||
      (node.position === best.position && rank(node) > rank(best));
    if (isBetter) best = node;
  }
  return best;
}

/**
 * A node that is not of the current history may have acknowledged before it left it: what it says
 * now bounds nothing.
 */
function boundsOf(nodes: readonly NodeFinding[], { ignored }: Wishes): (node: string) => Bound {
  const bounds = new Map(nodes.map(({ node, position }) => [node, position ?? ("unknown" as const)]));
  return (node) => (ignored.has(node) ? "nothing" : (bounds.get(node) ?? "unknown"));
}

/** Known epochs outside the node's history. */
export function strangersOf(
  node: string,
  { reports }: Pick<ClusterReports, "reports">,
  { graph }: Pick<KnownEpochs, "graph">,
): EpochId[] {
  const own = new Set(reports.get(node)?.epochs.map(({ id }) => id));
  return graph
    .ids()
    .filter((id) => !own.has(id))
    .sort();
}

function conclude(decision: Decision, situation: Situation): Decision {
  const { wishes, moving } = situation;
  const reported = decision.nodes.filter(({ standing }) => standing === "candidate");
  const moved = reported.filter(({ node }) => moving.has(node)).map(({ node }) => node);
  const fed = reported.filter(({ isFed }) => isFed).map(({ node }) => node);
  if (!wishes.isSwitchover && !wishes.isFenced) {
    if (moved.length > 0) {
      const reason = `${moved.join(" and ")}: the position still rises, so the final position is not known; ask again`;
      return { ...decision, refusal: "still_fed", reasons: [reason] };
    }
    if (fed.length > 0) {
      const reason = `${fed.join(" and ")}: a stream from another server is still open, so the old primary may be alive and may still count its acknowledgements`;
      return { ...decision, refusal: "still_fed", reasons: [reason] };
    }
  }
  const risks = decision.levels.filter(({ promise }) => promise === "at_risk");
  const reasons = risks.map(
    ({ level, answered: those, needed, domain }) =>
      `too few ${domain ?? "node"}s answer for level ${level}: ${String(those.length)} of the ${String(needed)} that must`,
  );
  return { ...decision, reasons, refusal: risks.length > 0 && !wishes.acceptsLoss ? "loss" : null };
}

/**
 * The operator gives up the log that no answering node has: the newest of the epochs before that
 * has a node.
 */
function chooseEarlier(situation: Situation, known: KnownEpochs, current: EpochRecord): Decision | null {
  for (const epoch of known.graph.ancestry(current.id as EpochId).slice(1)) {
    const decision = choose(situation, known, epoch);
    if (decision.chosen === null) continue;
    const reason = `everything since epoch ${String(epoch.seq)} is given up: no node that answers and counts has epoch ${String(current.seq)} (${current.id})`;
    const levels = decision.levels.map((level) =>
      level.promise === "kept" ? { ...level, promise: "at_risk" as const } : level,
    );
    return { ...decision, levels, isEarlier: true, reasons: [reason] };
  }
  return null;
}
