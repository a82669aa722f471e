// The ledger on local disk: what the core must find again after a kill. Batches itself: one write in flight, the next
// takes everything since. Nothing here judges.
import { Worker } from "node:worker_threads";
import { type EpochId, type EpochRecord, type Offset } from "@highwater/protocol";
import { type Entry, type Restored } from "../core/index.ts";
import type { LedgerOperation, LedgerReply, LedgerRequest } from "./ledger-worker.ts";

export interface Saved extends Restored {
  /** The epoch that reigned when the ledger was last written. */
  readonly reigning: EpochId | null;
}

type Pending = LedgerOperation | { readonly table: "entry"; readonly key: string; readonly entry: Entry };

export class LedgerFile {
  readonly #worker: Worker;
  readonly #answers: { resolve: (reply: LedgerReply) => void; reject: (cause: Error) => void }[] = [];
  #next = new Map<string, Pending>();
  #writing: Promise<void> | null = null;
  #nextDone: Promise<void> | null = null;
  #failed: Error | null = null;

  constructor(file: string, onFailure: (cause: Error) => void) {
    this.#worker = new Worker(new URL("./ledger-worker.ts", import.meta.url), {
      workerData: { file },
      execArgv: ["--disable-warning=ExperimentalWarning"],
    });
    this.#worker.on("message", (reply: LedgerReply) => this.#answers.shift()?.resolve(reply));
    this.#worker.on("error", (cause) => {
      const error = cause instanceof Error ? cause : new Error(String(cause));
      this.#failed = error;
      for (const answer of this.#answers.splice(0)) answer.reject(error);
      onFailure(error);
    });
  }

  async #ask(request: LedgerRequest): Promise<LedgerReply> {
    if (this.#failed !== null) throw this.#failed;
    const reply = await new Promise<LedgerReply>((resolve, reject) => {
      this.#answers.push({ resolve, reject });
      this.#worker.postMessage(request);
    });
    if (reply.kind === "failed") throw new Error(`ledger: ${reply.message}`);
    return reply;
  }

  async load(): Promise<Saved> {
    const reply = await this.#ask({ kind: "load" });
    const saved = {
      epochs: [] as EpochRecord[],
      marks: [] as Restored["marks"][number][],
      entries: [] as Entry[],
    };
    let reigning: EpochId | null = null;
    for (const { table, key, body } of reply.kind === "loaded" ? reply.rows : []) {
      if (table === "entry") saved.entries.push(decodeEntry(body));
      else if (table === "epoch") saved.epochs.push(JSON.parse(body) as EpochRecord);
      else if (table === "mark") {
        const [epoch = "", level = ""] = key.split("/");
        saved.marks.push({ epoch: epoch as EpochId, level, offset: BigInt(body) as Offset });
      } else if (key === "reigning") reigning = body as EpochId;
    }
    // The core finds the oldest by walking from the front.
    saved.entries.sort((a, b) => a.atMs - b.atMs);
    return { ...saved, reigning };
  }

  save(entry: Entry): void {
    this.#next.set(`entry/${entry.key}`, { table: "entry", key: entry.key, entry });
  }

  forget(key: string): void {
    this.#next.set(`entry/${key}`, { table: "entry", key, body: null });
  }

  saveEpoch(record: EpochRecord): void {
    this.#next.set(`epoch/${record.id}`, { table: "epoch", key: record.id, body: JSON.stringify(record) });
  }

  saveMark(epoch: EpochId, level: string, offset: Offset): void {
    const key = `${epoch}/${level}`;
    this.#next.set(`mark/${key}`, { table: "mark", key, body: offset.toString() });
  }

  saveReigning(epoch: EpochId): void {
    this.#next.set("meta/reigning", { table: "meta", key: "reigning", body: epoch });
  }

  /** Resolves when everything handed over so far is on disk. */
  async flush(): Promise<void> {
    if (this.#writing === null) {
      if (this.#next.size === 0) return;
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
    this.#writing = this.#next.size === 0 ? null : this.#writeNext();
    return this.#writing ?? Promise.resolve();
  }

  async #writeNext(): Promise<void> {
    const batch = this.#next;
    this.#next = new Map();
    const operations = [...batch.values()].map((item) =>
      "entry" in item ? { table: item.table, key: item.key, body: encodeEntry(item.entry) } : item,
    );
    try {
      await this.#ask({ kind: "write", operations });
    } finally {
      if (this.#nextDone === null) this.#writing = null;
    }
  }

  async close(): Promise<void> {
    await this.flush().catch(() => undefined);
    await this.flush().catch(() => undefined);
    await this.#ask({ kind: "close" }).catch(() => undefined);
    await this.#worker.terminate();
  }
}

const isBigint = (value: unknown): value is bigint => typeof value === "bigint";

export function encodeEntry(entry: Entry): string {
  const state = entry.state.kind === "asked" ? { kind: "unproven" } : entry.state;
  // Metadata are a client's: as a text of their own, whatever they say cannot pass for something of ours.
  const metadata = entry.metadata === null ? null : JSON.stringify(entry.metadata);
  return JSON.stringify({ ...entry, state, metadata }, (_, value: unknown) =>
    isBigint(value) ? { $offset: value.toString() } : value,
  );
}

export function decodeEntry(body: string): Entry {
  const entry = JSON.parse(body, (_, value: unknown) =>
    typeof value === "object" && value !== null && "$offset" in value ? BigInt(String(value.$offset)) : value,
  ) as Entry & { metadata: string | null };
  const metadata = entry.metadata === null ? null : (JSON.parse(entry.metadata) as Entry["metadata"]);
  return { ...entry, metadata };
}
