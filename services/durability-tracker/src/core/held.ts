// Finds the ledger's entries by id alone, for tombstones, which name neither the attempt nor its
// position.
import { type EpochId, type OwnedId } from "@highwater/protocol";
import { entryKey } from "./entry-key.ts";
import { type LedgerEntry, type LogPosition, type TrackerState } from "./types.ts";
import { judgeEntry, type Judgement } from "./verdict.ts";

export interface Held {
  readonly attempt: EpochId;
  /** Where it committed. */
  readonly origin: LogPosition;
  readonly judgement: Judgement;
}

/**
 * Of each id the newest attempt that is known to have committed, judged as its token would be; null
 * where none is held.
 */
export function judgeHeld(
  state: TrackerState,
  ids: readonly OwnedId[],
  level: string,
): readonly (Held | null)[] {
  const records = state.topology.epochs.records().sort((one, other) => other.seq - one.seq);
  const attempts = [...state.topology.epochs.unseen(), ...records.map(({ id }) => id as EpochId)];
  return ids.map((of) => {
    for (const attempt of attempts) {
      const entry = state.ledger.entries.get(entryKey(of, attempt));
      if (entry?.origin != null) return held(state, entry, entry.origin, level);
    }
    return null;
  });
}

function held(state: TrackerState, entry: LedgerEntry, origin: LogPosition, level: string): Held {
  return { attempt: entry.attempt, origin, judgement: judgeEntry(state, entry, level) };
}
