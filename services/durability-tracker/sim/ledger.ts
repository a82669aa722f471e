// The disk of a simulated tracker: what its effects leave there, in batches. Each is written wholly or not at all, by the
// product's own codec. A tracker that dies loses what was not written; a torn ledger has lost some batches more.
import { type EpochId, type EpochRecord, type Offset, type TxnId } from "@highwater/protocol";
import type { Departed, LedgerEntry, Restored, TrackerState, Waiting } from "../src/core/index.ts";
import {
  decodeDeparted,
  decodeEntry,
  decodeWaiting,
  encodeDeparted,
  encodeEntry,
  encodeWaiting,
  sortable,
} from "../src/shell/ledger-codec.ts";

type Row = { readonly body: string | null } | { readonly entry: LedgerEntry };

interface Batch {
  clearsWaiting: boolean;
  through: Offset | null;
  readonly rows: Map<string, Row>;
  readonly waiting: Map<TxnId, Waiting>;
}

interface Written {
  readonly clearsWaiting: boolean;
  readonly through: string | null;
  readonly rows: readonly (readonly [string, string | null])[];
  readonly waiting: readonly { readonly key: string; readonly body: string }[];
}

const emptyBatch = (): Batch => ({
  clearsWaiting: false,
  through: null,
  rows: new Map(),
  waiting: new Map(),
});

export type RestoredWithEpoch = Restored & { readonly currentEpoch: EpochId | null };

/** Has the methods of the product's LedgerFile that saveEffect() calls, in the product's order of writing. */
export class SimLedger {
  #next = emptyBatch();
  readonly #written: Written[] = [];

  constructor(state: TrackerState) {
    this.saveLevels(state.levelBits);
    this.flush();
  }

  get batches(): number {
    return this.#written.length;
  }

  save(entry: LedgerEntry): void {
    this.#next.rows.set(`entry/${entry.key}`, { entry });
  }

  forget(key: string): void {
    this.#put(`entry/${key}`, null);
  }

  saveWaiting(item: Waiting): void {
    this.#next.waiting.set(item.id, item);
  }

  forgetWaiting(through: Offset): void {
    const { waiting } = this.#next;
    for (const [id, { offset }] of waiting) if (offset <= through) waiting.delete(id);
    if (this.#next.through === null || through > this.#next.through) this.#next.through = through;
  }

  beginWaiting(epoch: EpochId): void {
    this.#next.waiting.clear();
    this.#next.through = null;
    this.#next.clearsWaiting = true;
    this.#put("meta/waiting_epoch", epoch);
  }

  saveEpoch(record: EpochRecord): void {
    this.#put(`epoch/${record.id}`, JSON.stringify(record));
  }

  saveParent(epoch: EpochId, parent: EpochId): void {
    this.#put(`parent/${epoch}`, parent);
  }

  saveOldEpoch(epoch: EpochId, isOld: boolean): void {
    this.#put(`old_epoch/${epoch}`, isOld ? "" : null);
  }

  saveDeparted(part: Departed): void {
    this.#put(`departed/${String(part.number)}`, encodeDeparted(part));
  }

  forgetDeparted(number: number): void {
    this.#put(`departed/${String(number)}`, null);
  }

  saveMark(epoch: EpochId, level: string, offset: Offset): void {
    this.#put(`mark/${epoch}/${level}`, offset.toString());
  }

  saveCurrentEpoch(epoch: EpochId): void {
    this.#put("meta/currentEpoch", epoch);
  }

  saveLevels(bits: ReadonlyMap<string, number>): void {
    this.#put("meta/levels", JSON.stringify(Object.fromEntries(bits)));
  }

  #put(key: string, body: string | null): void {
    this.#next.rows.set(key, { body });
  }

  flush(): void {
    const { clearsWaiting, through, rows, waiting } = this.#next;
    if (!clearsWaiting && through === null && rows.size === 0 && waiting.size === 0) return;
    this.#next = emptyBatch();
    this.#written.push({
      clearsWaiting,
      through: through === null ? null : sortable(through),
      rows: [...rows].map(([key, row]) => [key, "entry" in row ? encodeEntry(row.entry) : row.body] as const),
      waiting: [...waiting.values()].map(encodeWaiting),
    });
  }

  /** What is found after a kill, with only so many batches left. */
  read(batches: number): RestoredWithEpoch {
    this.#next = emptyBatch();
    this.#written.length = batches;
    const rows = new Map<string, string>();
    let waiting = new Map<string, string>();
    for (const batch of this.#written) {
      if (batch.clearsWaiting) waiting = new Map();
      if (batch.through !== null)
        for (const key of [...waiting.keys()]) if (key < `${batch.through}0`) waiting.delete(key);
      for (const [key, body] of batch.rows)
        if (body === null) rows.delete(key);
        else rows.set(key, body);
      for (const { key, body } of batch.waiting) waiting.set(key, body);
    }
    return restored(rows, waiting);
  }
}

function restored(
  rows: ReadonlyMap<string, string>,
  waiting: ReadonlyMap<string, string>,
): RestoredWithEpoch {
  const of = (table: string): [string, string][] =>
    [...rows].flatMap(([key, body]) =>
      key.startsWith(`${table}/`) ? [[key.slice(table.length + 1), body] as [string, string]] : [],
    );
  const meta = new Map(of("meta"));
  const entries = of("entry").map(([, body]) => decodeEntry(body));
  return {
    levelBits: new Map(Object.entries(JSON.parse(meta.get("levels") ?? "{}") as Record<string, number>)),
    epochs: of("epoch").map(([, body]) => JSON.parse(body) as EpochRecord),
    departed: of("departed").map(([number, body]) => decodeDeparted(number, body)),
    oldEpochs: of("old_epoch").map(([epoch]) => epoch as EpochId),
    parents: new Map(of("parent") as [EpochId, EpochId][]),
    marks: of("mark").map(([key, body]) => {
      const [epoch = "", level = ""] = key.split("/");
      return { epoch: epoch as EpochId, level, offset: BigInt(body) as Offset };
    }),
    entries: entries.sort((a, b) => a.atMs - b.atMs),
    waitingEpoch: (meta.get("waiting_epoch") ?? null) as EpochId | null,
    waiting: [...waiting].map(([key, body]) => decodeWaiting(key, body)),
    currentEpoch: (meta.get("currentEpoch") ?? null) as EpochId | null,
  };
}
