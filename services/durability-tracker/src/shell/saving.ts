// Writes the core's effects that concern the ledger on disk.
import { type EpochId } from "@highwater/protocol";
import { type Effect, type TrackerState } from "../core/index.ts";
import { type LedgerFile } from "./ledger-file.ts";

type Saving = Extract<Effect, { kind: `save${string}` | `forget${string}` | "begin_waiting" }>;

export function saveEffect(ledger: LedgerFile, state: TrackerState, effect: Saving): void {
  switch (effect.kind) {
    case "save":
      ledger.save(effect.entry);
      return;
    case "forget":
      ledger.forget(effect.key);
      return;
    case "save_waiting":
      ledger.saveWaiting(effect.item);
      return;
    case "forget_waiting":
      ledger.forgetWaiting(effect.through);
      // Entries that leave by a mark leave together with it: without the mark the promise would be
      // forgotten.
      saveMarks(ledger, state, state.ledger.backlog.epoch);
      return;
    case "begin_waiting":
      ledger.beginWaiting(effect.epoch);
      return;
    case "save_levels":
      ledger.saveLevels(state.levelBits);
      return;
    case "save_departed":
      ledger.saveDeparted(effect.part);
      return;
    case "forget_departed":
      ledger.forgetDeparted(effect.number);
      return;
    case "save_epochs":
      for (const record of effect.records) ledger.saveEpoch(record);
      return;
    case "save_parent":
      ledger.saveParent(effect.epoch, effect.parent);
      return;
    case "save_old_epoch":
      ledger.saveOldEpoch(effect.epoch, effect.isOld);
      return;
    case "save_marks":
      saveMarks(ledger, state, effect.epoch);
  }
}

export function saveMarks(ledger: LedgerFile, state: TrackerState, epoch: EpochId | null): void {
  if (epoch === null) return;
  for (const [level, offset] of state.topology.marks.get(epoch) ?? []) ledger.saveMark(epoch, level, offset);
}
