// The ledger on local disk, from which the core starts after a kill. One write is in flight, and
// the next one takes everything since. Judges nothing.
import { type EpochId, type EpochRecord, type Offset, ownedName } from "@highwater/protocol";
import type { Departed, LedgerEntry, Restored, SavedWaiting, Waiting } from "../core/index.ts";
import {
  decodeDeparted,
  decodeEntry,
  decodeWaiting,
  encodeDeparted,
  encodeEntry,
  encodeWaiting,
  sortable,
} from "./ledger-codec.ts";
import { DiskThread } from "./disk-thread.ts";
import type { AnyTable, KeptRow, LedgerBatch, LedgerRow, Table } from "./ledger-database.ts";
import type { LedgerRequest } from "./ledger-worker.ts";

export interface Saved extends Restored {
  /** The current epoch when the ledger was last written. */
  readonly currentEpoch: EpochId | null;
}

type Pending = LedgerRow | { readonly table: "entry"; readonly key: string; readonly entry: LedgerEntry };

/** The changes that go to disk together, in one transaction. */
interface Batch {
  /** Whether the backlog was emptied. */
  clearsWaiting: boolean;
  /** Attempts of the backlog at or below this offset have left. */
  through: Offset | null;
  /** By table and key. */
  readonly rows: Map<Table, Map<string, Pending>>;
  /** By `ownedName`. */
  readonly waiting: Map<string, Waiting>;
}

/** Of an epoch, in the key of a row that says which epoch it followed. */
const PARENT = "parent/";
const DEPARTED = "departed/";
const OLD_EPOCH = "old_epoch/";

const emptyBatch = (): Batch => ({
  clearsWaiting: false,
  through: null,
  rows: new Map(),
  waiting: new Map(),
});

export class LedgerFile {
  readonly #thread: DiskThread<LedgerRequest>;
  readonly #onFailure: (cause: Error) => void;
  #next = emptyBatch();
  #writing: Promise<void> | null = null;
  #nextDone: Promise<void> | null = null;
  #failed: Error | null = null;

  constructor(file: string, onFailure: (cause: Error) => void) {
    this.#onFailure = onFailure;
    const onEnd = (cause: Error): void => {
      this.#fail(cause);
    };
    const module = new URL("./ledger-worker.ts", import.meta.url);
    this.#thread = new DiskThread(module, { name: "ledger", data: { file }, onEnd });
  }

  /**
   * Fails for good: what could not be written is in memory only, and would be acknowledged when it
   * is announced again.
   */
  #fail(error: Error): void {
    this.#failed = error;
    this.#onFailure(error);
  }

  async #ask<T>(request: LedgerRequest): Promise<T> {
    if (this.#failed !== null) throw this.#failed;
    try {
      return await this.#thread.ask<T>(request);
    } catch (cause) {
      // The end of the thread has failed it already.
      if (this.#failed === null) this.#fail(cause instanceof Error ? cause : new Error(String(cause)));
      throw cause;
    }
  }

  #rowsOf(table: AnyTable, after: string): Promise<readonly KeptRow[]> {
    return this.#ask({ kind: "read", table, after });
  }

  /** Loads everything but the backlog, which loadWaiting() reads. */
  async load(): Promise<Saved> {
    const epochs: EpochRecord[] = [];
    const marks: Restored["marks"][number][] = [];
    const entries: Restored["entries"][number][] = [];
    const meta = new Map<string, string>();
    await this.#read("entry", (_, body) => entries.push(decodeEntry(body)));
    await this.#read("epoch", (_, body) => epochs.push(JSON.parse(body) as EpochRecord));
    await this.#read("mark", (key, body) => {
      const [epoch = "", level = ""] = key.split("/");
      marks.push({ epoch: epoch as EpochId, level, offset: BigInt(body) as Offset });
    });
    await this.#read("meta", (key, body) => meta.set(key, body));
    // The core finds the oldest by walking from the front.
    entries.sort((a, b) => a.atMs - b.atMs);
    const levelBits = new Map(
      Object.entries(JSON.parse(meta.get("levels") ?? "{}") as Record<string, number>),
    );
    const waitingEpoch = (meta.get("waiting_epoch") as EpochId | undefined) ?? null;
    const currentEpoch = (meta.get("currentEpoch") as EpochId | undefined) ?? null;
    const parents = new Map<EpochId, EpochId>();
    const oldEpochs: EpochId[] = [];
    const departed: Departed[] = [];
    for (const [key, body] of meta) {
      if (key.startsWith(PARENT)) parents.set(key.slice(PARENT.length) as EpochId, body as EpochId);
      if (key.startsWith(OLD_EPOCH)) oldEpochs.push(key.slice(OLD_EPOCH.length) as EpochId);
      if (key.startsWith(DEPARTED)) departed.push(decodeDeparted(key.slice(DEPARTED.length), body));
    }
    const known = { epochs, parents, oldEpochs, marks, entries, departed, levelBits };
    return { ...known, waitingEpoch, waiting: [], currentEpoch };
  }

  /** Loads the backlog, in parts and in the order of the offsets. */
  async loadWaiting(take: (part: readonly SavedWaiting[]) => void): Promise<void> {
    let part: SavedWaiting[] = [];
    const takePart = (): void => {
      take(part);
      part = [];
    };
    await this.#read("waiting", (key, body) => part.push(decodeWaiting(key, body)), takePart);
  }

  async #read(
    table: AnyTable,
    take: (key: string, body: string) => void,
    onPart: () => void = () => undefined,
  ): Promise<void> {
    for (let after = ""; ;) {
      const rows = await this.#rowsOf(table, after);
      for (const { key, body } of rows) take(key, body);
      onPart();
      const last = rows.at(-1)?.key;
      if (last === undefined) return;
      after = last;
    }
  }

  /**
   * What is on disk behind the key, in the order of the keys; a bounded part of it, and nothing
   * when there is no more.
   */
  async loadOutbox(after: string): Promise<ReadonlyMap<string, string>> {
    return new Map((await this.#rowsOf("outbox", after)).map(({ key, body }) => [key, body]));
  }

  save(entry: LedgerEntry): void {
    this.#put({ table: "entry", key: entry.key, entry });
  }

  forget(key: string): void {
    this.#put({ table: "entry", key, body: null });
  }

  saveWaiting(item: Waiting): void {
    this.#next.waiting.set(ownedName({ id: item.id, owner: item.owner.owner }), item);
  }

  forgetWaiting(through: Offset): void {
    const { waiting } = this.#next;
    for (const [name, { offset }] of waiting) if (offset <= through) waiting.delete(name);
    if (this.#next.through === null || through > this.#next.through) this.#next.through = through;
  }

  /** The backlog is empty, and holds attempts of the epoch from now on. */
  beginWaiting(epoch: EpochId): void {
    this.#next.waiting.clear();
    this.#next.through = null;
    this.#next.clearsWaiting = true;
    this.#put({ table: "meta", key: "waiting_epoch", body: epoch });
  }

  saveEpoch(record: EpochRecord): void {
    this.#put({ table: "epoch", key: record.id, body: JSON.stringify(record) });
  }

  saveParent(epoch: EpochId, parent: EpochId): void {
    this.#put({ table: "meta", key: PARENT + epoch, body: parent });
  }

  saveOldEpoch(epoch: EpochId, isOld: boolean): void {
    this.#put({ table: "meta", key: OLD_EPOCH + epoch, body: isOld ? "" : null });
  }

  saveDeparted(part: Departed): void {
    this.#put({ table: "meta", key: DEPARTED + String(part.number), body: encodeDeparted(part) });
  }

  forgetDeparted(number: number): void {
    this.#put({ table: "meta", key: DEPARTED + String(number), body: null });
  }

  saveMark(epoch: EpochId, level: string, offset: Offset): void {
    this.#put({ table: "mark", key: `${epoch}/${level}`, body: offset.toString() });
  }

  saveCurrentEpoch(epoch: EpochId): void {
    this.#put({ table: "meta", key: "currentEpoch", body: epoch });
  }

  saveLevels(bits: ReadonlyMap<string, number>): void {
    this.#put({ table: "meta", key: "levels", body: JSON.stringify(Object.fromEntries(bits)) });
  }

  saveOutbox(key: string, body: string): void {
    this.#put({ table: "outbox", key, body });
  }

  removeOutbox(key: string): void {
    this.#put({ table: "outbox", key, body: null });
  }

  #put(row: Pending): void {
    const { rows } = this.#next;
    let some = rows.get(row.table);
    if (some === undefined) rows.set(row.table, (some = new Map<string, Pending>()));
    some.set(row.key, row);
  }

  get #hasNext(): boolean {
    const { rows, waiting, through, clearsWaiting } = this.#next;
    return rows.size > 0 || waiting.size > 0 || through !== null || clearsWaiting;
  }

  /** Resolves when everything handed over so far is on disk. */
  async flush(): Promise<void> {
    if (this.#writing === null) {
      if (!this.#hasNext) return;
      this.#writing = this.#writeNext();
      return this.#writing;
    }
    this.#nextDone ??= this.#writing.then(
      () => this.#followUp(),
      () => this.#followUp(),
    );
    return this.#nextDone;
  }

  #followUp(): Promise<void> {
    this.#nextDone = null;
    this.#writing = this.#hasNext ? this.#writeNext() : null;
    return this.#writing ?? Promise.resolve();
  }

  async #writeNext(): Promise<void> {
    const batch = this.#next;
    this.#next = emptyBatch();
    try {
      await this.#ask({ kind: "write", batch: encodeBatch(batch) });
    } finally {
      if (this.#nextDone === null) this.#writing = null;
    }
  }

  async close(): Promise<void> {
    await this.flush().catch(() => undefined);
    await this.flush().catch(() => undefined);
    await this.#ask({ kind: "close" }).catch(() => undefined);
    await this.#thread.end();
  }
}

function encodeBatch({ clearsWaiting, through, rows, waiting }: Batch): LedgerBatch {
  return {
    clearsWaiting,
    through: through === null ? null : sortable(through),
    rows: [...rows.values()].flatMap((some) =>
      Array.from(some.values(), (row) =>
        "entry" in row ? { table: row.table, key: row.key, body: encodeEntry(row.entry) } : row,
      ),
    ),
    waiting: [...waiting.values()].map(encodeWaiting),
  };
}
