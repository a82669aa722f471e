// Learns marks of an ended epoch from its survivors. A replica that did not follow the next epoch
// still has the old log, and the witness rows in it say up to where. So trackers learn of promises
// that only a dead tracker had made.
import { type EpochId, type Offset } from "@highwater/protocol";
import { learnPromises } from "./learned.ts";
import { type PositionOf, raiseMarks } from "./marks.ts";
import { NOT_SYNCHRONOUS } from "./synchronous.ts";
import { type Effect } from "./effects.ts";
import { type TrackerState } from "./types.ts";
import { hasEnded } from "./verdict.ts";

/** `reached`: by node, up to where it has the epoch's log on disk. */
export function takeWitnesses(
  state: TrackerState,
  { epoch, reached }: { readonly epoch: EpochId; readonly reached: ReadonlyMap<string, Offset> },
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
  if (!raiseMarks(state, epoch, primary, positionOf, NOT_SYNCHRONOUS)) return;
  effects.push({ kind: "save_marks", epoch });
  learnPromises(state, new Set([epoch]), effects);
}
