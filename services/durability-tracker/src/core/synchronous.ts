// For levels under an HA manager that promotes only synchronous standbys: what one report of the
// primary, together with what the manager wrote after it, proves about the node that is promoted
// next. (docs/decisions/0027-only-what-may-be-promoted.md)
import { type Offset } from "@highwater/protocol";
import { type TrackerEvent } from "./events.ts";
import { type SynchronousSet, type TrackerState } from "./types.ts";

type PositionsReported = Extract<TrackerEvent, { kind: "positions_reported" }>;

export const NOT_SYNCHRONOUS: SynchronousSet = unknown("the primary has not been asked in this epoch");

/**
 * Known only if the primary shows as synchronous exactly the standbys that the manager lists. It
 * may still show a name that the manager has struck out, and it may show one that the manager is
 * about to list before that one has caught up. Each of them counts as anywhere else: in a stream
 * that is confirmed in this epoch, and by the position of this report alone.
 */
export function synchronousSet(
  state: TrackerState,
  { candidates, replicas }: PositionsReported,
): SynchronousSet {
  if (candidates === undefined) return unknown("nobody was asked whom the HA manager may promote");
  if (candidates.kind === "unknown") return unknown(candidates.reason, true);
  const shown = replicas.filter(({ synchronous }) => synchronous === true);
  const names = shown.map(({ node }) => node);
  const isSame =
    shown.length === candidates.nodes.length && candidates.nodes.every((name) => names.includes(name));
  if (!isSame)
    return unknown(
      `the HA manager lists ${listOf(candidates.nodes)} as synchronous, the primary shows ${listOf(names)}`,
      true,
    );
  let lowest: Offset | null = null;
  for (const { node: name, session, flushed } of shown) {
    const node = state.topology.nodes.get(name);
    if (node === undefined) return unknown(`${name} is no configured node`);
    if (node.confirmedFeed !== session)
      return unknown(`the stream of ${name} is not confirmed in this epoch`);
    if (node.unfit) return unknown(`${name} is unfit: its disk does not count`);
    if (lowest === null || flushed < lowest) lowest = flushed;
  }
  return lowest === null
    ? unknown("there is no synchronous standby")
    : { kind: "known", count: shown.length, offset: lowest };
}

/** Only then has anybody to ask the HA manager whom it may promote. */
export function asksForCandidates({ config }: TrackerState): boolean {
  return config.levels.some(({ rule }) => "synchronous" in rule);
}

/**
 * Why a level that counts synchronous standbys gets no mark from the newest word; null where it
 * does.
 */
export function whyNotSynchronous(state: TrackerState, level: string): string | null {
  const rule = state.config.levels.find(({ name }) => name === level)?.rule;
  if (rule === undefined || !("synchronous" in rule)) return null;
  const { synchronous } = state.topology;
  if (synchronous.kind === "unknown") return synchronous.reason;
  if (synchronous.count === rule.synchronous) return null;
  return `the level asks for ${String(rule.synchronous)} synchronous standbys, and the HA manager keeps ${String(synchronous.count)}`;
}

/** Looking closely would settle nothing. */
export function waitsForManager(state: TrackerState, level: string): boolean {
  const { synchronous } = state.topology;
  return whyNotSynchronous(state, level) !== null && (synchronous.kind === "known" || synchronous.isManagers);
}

function listOf(names: readonly string[]): string {
  return names.length === 0 ? "nobody" : [...names].sort().join(", ");
}

function unknown(reason: string, isManagers = false): SynchronousSet {
  return { kind: "unknown", reason, isManagers };
}
