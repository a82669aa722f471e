// What the core's effects leave on disk, written and read back by the ledger's own codec.
import { type EpochId, type EpochRecord, type Offset } from "@highwater/protocol";
import {
  decodeDeparted,
  decodeEntry,
  decodeWaiting,
  encodeDeparted,
  encodeEntry,
  encodeWaiting,
} from "../../src/shell/ledger-codec.ts";
import { type Effect, type Restored, type TrackerState } from "../../src/core/index.ts";

export class Disk {
  readonly epochs = new Map<string, string>();
  readonly parents = new Map<EpochId, EpochId>();
  readonly oldEpochs = new Set<EpochId>();
  readonly marks = new Map<string, { epoch: EpochId; level: string; offset: Offset }>();
  readonly entries = new Map<string, string>();
  readonly departed = new Map<number, string>();
  waiting = new Map<string, string>();
  waitingEpoch: EpochId | null = null;
  levels: string;

  constructor(state: TrackerState) {
    this.levels = JSON.stringify([...state.levelBits]);
  }

  take(effect: Effect, state: TrackerState): void {
    switch (effect.kind) {
      case "save":
        this.entries.set(effect.entry.key, encodeEntry(effect.entry));
        return;
      case "forget":
        this.entries.delete(effect.key);
        return;
      case "save_waiting": {
        const { key, body } = encodeWaiting(effect.item);
        this.waiting.set(key, body);
        return;
      }
      case "forget_waiting":
        for (const [key, body] of this.waiting)
          if (decodeWaiting(key, body).offset <= effect.through) this.waiting.delete(key);
        return;
      case "begin_waiting":
        this.waiting.clear();
        this.waitingEpoch = effect.epoch;
        return;
      case "save_departed":
        this.departed.set(effect.part.number, encodeDeparted(effect.part));
        return;
      case "forget_departed":
        this.departed.delete(effect.number);
        return;
      case "save_levels":
        this.levels = JSON.stringify([...state.levelBits]);
        return;
      case "save_epochs":
        for (const record of effect.records) this.epochs.set(record.id, JSON.stringify(record));
        return;
      case "save_parent":
        this.parents.set(effect.epoch, effect.parent);
        return;
      case "save_old_epoch":
        this.oldEpochs[effect.isOld ? "add" : "delete"](effect.epoch);
        return;
      case "save_marks":
        for (const [level, offset] of state.topology.marks.get(effect.epoch) ?? [])
          this.marks.set(`${effect.epoch}/${level}`, { epoch: effect.epoch, level, offset });
        return;
      default:
        return;
    }
  }

  read(): Restored {
    return {
      levelBits: new Map(JSON.parse(this.levels) as [string, number][]),
      epochs: [...this.epochs.values()].map((text) => JSON.parse(text) as EpochRecord),
      parents: this.parents,
      oldEpochs: [...this.oldEpochs],
      marks: [...this.marks.values()],
      entries: [...this.entries.values()].map(decodeEntry),
      departed: [...this.departed].map(([number, body]) => decodeDeparted(String(number), body)),
      waitingEpoch: this.waitingEpoch,
      waiting: [...this.waiting].map(([key, body]) => decodeWaiting(key, body)),
    };
  }
}
