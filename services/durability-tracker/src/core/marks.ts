// Computes marks from positions: the highest offset that has reached a level, by the level's rule.
import { type EpochId, formatOffset, type LevelRule, type Offset } from "@highwater/protocol";
import { NOT_SYNCHRONOUS } from "./synchronous.ts";
import { type Effect } from "./effects.ts";
import type { NodeSite, NodeState, Own, SynchronousSet, Topology, TrackerState } from "./types.ts";

/** Returns up to where a node has the current epoch's log on its disk, or null. */
export type PositionOf = (node: NodeState) => Offset | null;

/**
 * Returns the rule's mark: the k-th largest position over distinct failure domains that qualify, or
 * null when too few are known. A region or zone counts once, by its best node, because all of its
 * nodes can be lost together.
 */
export function markOf(
  rule: LevelRule,
  nodes: Iterable<NodeState>,
  primary: NodeSite,
  positionOf: PositionOf,
  synchronous: SynchronousSet,
): Offset | null {
  if ("synchronous" in rule)
    // If their number is not the rule's, the manager might promote another node.
    return synchronous.kind === "known" && synchronous.count === rule.synchronous ? synchronous.offset : null;
  if ("primary" in rule) {
    for (const node of nodes) if (node.site.id === primary.id) return node.unfit ? null : positionOf(node);
    return null;
  }
  if ("regions" in rule) return lowest(bestByDomain(nodes, (site) => site.region, positionOf));
  const domain =
    rule.outside === "region"
      ? (site: NodeSite): string => site.region
      : (site: NodeSite): string => `${site.region}/${site.zone}`;
  const best = bestByDomain(nodes, domain, positionOf);
  best.delete(domain(primary));
  const known = [...best.values()]
    .filter((offset) => offset !== null)
    .sort((a, b) => (a < b ? 1 : a > b ? -1 : 0));
  return known[rule.replicas - 1] ?? null;
}

function bestByDomain(
  nodes: Iterable<NodeState>,
  domain: (site: NodeSite) => string,
  positionOf: PositionOf,
): Map<string, Offset | null> {
  const best = new Map<string, Offset | null>();
  for (const node of nodes) {
    const key = domain(node.site);
    const position = node.unfit ? null : positionOf(node);
    const known = best.get(key) ?? null;
    best.set(key, known === null || (position !== null && position > known) ? position : known);
  }
  return best;
}

function lowest(best: ReadonlyMap<string, Offset | null>): Offset | null {
  let low: Offset | null = null;
  for (const position of best.values()) {
    if (position === null) return null;
    if (low === null || position < low) low = position;
  }
  return low;
}

/** Returns the mark of a level in an epoch, or null if none was ever observed. */
export function markIn(state: TrackerState, epoch: EpochId, level: string): Offset | null {
  return state.topology.marks.get(epoch)?.get(level) ?? null;
}

const own = ({ topology }: TrackerState): Pick<Own<Topology>, "marks"> => topology as Own<Topology>;

function marksOf(state: TrackerState, epoch: EpochId): Map<string, Offset> {
  const { marks: epochs } = own(state);
  let marks = epochs.get(epoch);
  if (marks === undefined) epochs.set(epoch, (marks = new Map<string, Offset>()));
  return marks;
}

/** The only place where a mark changes. If it fell, it would take promises back (SPEC I8). */
export function setMark(state: TrackerState, epoch: EpochId, level: string, offset: Offset): void {
  const marks = marksOf(state, epoch);
  const known = marks.get(level);
  if (known !== undefined && offset < known)
    throw new Error(
      `the mark of ${level} in epoch ${epoch} would fall from ${formatOffset(known)} to ${formatOffset(offset)}`,
    );
  marks.set(level, offset);
}

/**
 * Raises the epoch's marks to what the levels' rules compute from the positions. Returns true when
 * one rose.
 */
export function raiseMarks(
  state: TrackerState,
  epoch: EpochId,
  primary: NodeSite,
  positionOf: PositionOf,
  synchronous: SynchronousSet,
): boolean {
  let isRaised = false;
  for (const { name, rule } of state.config.levels) {
    const mark = markOf(rule, state.topology.nodes.values(), primary, positionOf, synchronous);
    if (mark === null || mark <= (markIn(state, epoch, name) ?? -1n)) continue;
    setMark(state, epoch, name, mark);
    isRaised = true;
  }
  return isRaised;
}

/** True if the epoch's primary answers commits no sooner than they have what the level promises. */
export function isMetByCommit({ config, topology }: TrackerState, epoch: EpochId, level: string): boolean {
  if (!config.commitsDurably) return false;
  const rule = config.levels.find(({ name }) => name === level)?.rule;
  const primary = topology.nodes.get(topology.epochs.get(epoch)?.node ?? "");
  return rule !== undefined && "primary" in rule && primary?.unfit === false;
}

/** Raises the marks of such levels to the position of a commit that was answered. */
export function raiseByCommit(
  state: TrackerState,
  { epoch, offset }: { readonly epoch: EpochId; readonly offset: Offset },
  effects: Effect[],
): void {
  const met = state.config.levels.filter(
    ({ name }) => isMetByCommit(state, epoch, name) && offset > (markIn(state, epoch, name) ?? -1n),
  );
  for (const { name } of met) setMark(state, epoch, name, offset);
  if (met.length > 0) effects.push({ kind: "publish_marks", epoch }, { kind: "save_marks", epoch });
}

/** Returns the epoch's marks by level, in the format of rows and records. */
export function marksText({ topology }: TrackerState, epoch: EpochId): Record<string, string> {
  const marks = [...(topology.marks.get(epoch) ?? [])];
  return Object.fromEntries(marks.map(([level, offset]) => [level, offset.toString()]));
}

/** Raises the marks of the current epoch. Returns true when one rose. */
export function advanceMarks(state: TrackerState, effects: Effect[]): boolean {
  const { standing, nodes, synchronous } = state.topology;
  if (standing.kind !== "following") return false;
  const { epoch } = standing;
  const primary = nodes.get(standing.node)?.site;
  if (primary === undefined) return false;
  // From now on the epoch has no marks, instead of unknown ones.
  marksOf(state, epoch);
  const isRaised = raiseMarks(state, epoch, primary, ({ position }) => position, synchronous);
  if (isRaised) effects.push({ kind: "publish_marks", epoch }, { kind: "save_marks", epoch });
  return isRaised;
}

const EVERYTHING = 1n as Offset;

/** Returns the levels that the nodes with a recent report could reach, weakest first. */
export function reachableLevels(state: TrackerState): string[] {
  const { standing, nodes } = state.topology;
  const { config } = state;
  if (standing.kind !== "following") return [];
  const primary = nodes.get(standing.node)?.site;
  if (primary === undefined) return [];
  // A writable node besides the primary, dead or a zombie, has another history and will not receive
  // this one.
  const isAstray = (node: NodeState): boolean => node.role === "primary" && node.site.id !== standing.node;
  const positionOf: PositionOf = (node) => (node.alive && !node.unfit && !isAstray(node) ? EVERYTHING : null);
  // The manager may choose any of them.
  const count = [...nodes.values()].filter(
    (node) => node.site !== primary && positionOf(node) !== null,
  ).length;
  const chosenOf = (rule: LevelRule): SynchronousSet =>
    "synchronous" in rule && count >= rule.synchronous
      ? { kind: "known", count: rule.synchronous, offset: EVERYTHING }
      : NOT_SYNCHRONOUS;
  return config.levels
    .filter(({ rule }) => markOf(rule, nodes.values(), primary, positionOf, chosenOf(rule)) !== null)
    .map(({ name }) => name);
}
