// Finds where a reader continues after a cursor, which may be of another history than the current
// one. Pure.
import { type EpochGraph, type EpochId } from "@highwater/protocol";
import { comparePositions, type EventPosition } from "@highwater/store";
import { type Cursor, cursorAt, FIRST_CURSOR } from "./wire.ts";

export interface ReadingOn {
  readonly from: Cursor;
  /**
   * `here`: the cursor is in this history. `parted`: it is in another one, so the reader goes back
   * to the beginning of the last epoch that both have; it may have read a part of that epoch's
   * events which ends elsewhere than here. `unknown`: no epoch of that name is known, so it goes
   * back to the first event.
   */
  readonly found: "here" | "parted" | "unknown";
}

export function readOn(cursor: Cursor, epochs: EpochGraph, currentEpoch: EpochId): ReadingOn {
  if (cursor.seq === 0) return { from: FIRST_CURSOR, found: "here" };
  const mine = new Map(epochs.ancestry(currentEpoch).map(({ seq, id }) => [seq, id]));
  if (mine.get(cursor.seq)?.startsWith(cursor.epoch) === true) return { from: cursor, found: "here" };
  const theirs = epochs.records().find(({ seq, id }) => seq === cursor.seq && id.startsWith(cursor.epoch));
  if (theirs === undefined) return { from: FIRST_CURSOR, found: "unknown" };
  const common = epochs.ancestry(theirs.id as EpochId).find(({ seq, id }) => mine.get(seq) === id);
  const from = common && cursorAt({ epoch: common.id as EpochId, seq: common.seq, n: 0 });
  return { from: from ?? FIRST_CURSOR, found: "parted" };
}

/**
 * `expiredTo`: events at or below may have been dropped. A reader that asks for the oldest that is
 * kept misses nothing of what there is.
 */
export function isMissed({ from, found }: ReadingOn, expiredTo: EventPosition): boolean {
  return (from.seq > 0 || found !== "here") && comparePositions(from, expiredTo) < 0;
}
