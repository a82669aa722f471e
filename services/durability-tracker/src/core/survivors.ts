// Learns marks of an ended epoch from its survivors. A replica that did not follow the next epoch
// still has the old log. The witness rows in it say up to where, and which marks services knew. So
// trackers learn of promises that only a dead tracker had made.
import { type EpochId, type Offset } from "@highwater/protocol";
import { type SurvivorsWord } from "./events.ts";
import { learnPromises } from "./learned.ts";
import { markIn, type PositionOf, raiseMarks, setMark } from "./marks.ts";
import { NOT_SYNCHRONOUS } from "./synchronous.ts";
import { type Effect } from "./effects.ts";
import { type TrackerState } from "./types.ts";
import { hasEnded } from "./verdict.ts";

export function takeWitnesses(
  state: TrackerState,
  { epoch, reached, marks }: SurvivorsWord,
  effects: Effect[],
): void {
  const primary = state.topology.nodes.get(state.topology.epochs.get(epoch)?.node ?? "")?.site;
  // While an epoch lives, streams that are confirmed say more.
  if (primary === undefined || !hasEnded(state, epoch)) return;
  // A primary sends nothing that it has not flushed itself.
  const sent = [...reached.values()].reduce<Offset | null>(
    (most, offset) => (most === null || offset > most ? offset : most),
    null,
  );
  const positionOf: PositionOf = ({ site }) =>
    site.id === primary.id ? sent : (reached.get(site.id) ?? null);
  const isProven = raiseMarks(state, epoch, primary, positionOf, NOT_SYNCHRONOUS);
  // A level can ask for more nodes than have survived, or for what the primary alone knew.
  if (!raiseTo(state, epoch, marks) && !isProven) return;
  effects.push({ kind: "save_marks", epoch });
  learnPromises(state, new Set([epoch]), effects);
}

function raiseTo(state: TrackerState, epoch: EpochId, marks: SurvivorsWord["marks"]): boolean {
  let isRaised = false;
  for (const { name } of state.config.levels) {
    const mark = marks.get(name);
    if (mark === undefined || mark <= (markIn(state, epoch, name) ?? -1n)) continue;
    setMark(state, epoch, name, mark);
    isRaised = true;
  }
  return isRaised;
}
