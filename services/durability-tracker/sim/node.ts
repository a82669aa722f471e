// One server of the simulated store: a log of records with an identity, a disk that may be behind it, and what survives of
// both. Rules of the real thing: an unlogged row says which epoch the server is in, a promotion starts a timeline.
import { type EpochId, type EpochRecord, type Offset, type TxnId } from "@highwater/protocol";
import { type NewEvent, type Witness } from "@highwater/store";
import { type NodeSite } from "../src/core/index.ts";

export type Receipt = {
  readonly kind: "receipt";
  readonly id: TxnId;
  readonly says: "commit" | "aborted" | "lost";
  readonly epoch: EpochId;
  /** What was asked for, whatever id it was tried under; 0 for a tombstone. */
  readonly request: number;
};

export type Rec = { readonly end: bigint } &
  /** `isStray`: written in no epoch, on a node that was put back to an older copy. */
  (
    | { readonly kind: "noise"; readonly isStray: boolean }
    /** Here a replica was promoted. */
    | { readonly kind: "switch"; readonly from: number }
    /** An epoch's record before it says where it starts. Only the last one counts, until it is opened. */
    | {
        readonly kind: "draft";
        readonly record: EpochRecord;
        readonly timeline: number;
        readonly life: number;
      }
    | { readonly kind: "epoch"; readonly record: EpochRecord; readonly timeline: number }
    /** The log of the epoch is in this history at least so far. */
    | ({ readonly kind: "witness" } & Pick<Witness, "marks"> & {
          readonly epoch: EpochId;
          readonly reached: bigint;
        })
    | Receipt
    /** An operator's command, and that it was carried out. */
    | {
        readonly kind: "command";
        readonly id: string;
        readonly node: string;
        readonly overrules: readonly EpochId[];
      }
    | { readonly kind: "obeyed"; readonly id: string; readonly epoch: EpochId }
    /** Final marks that somebody has raised, in the record of this epoch. */
    | { readonly kind: "raised"; readonly epoch: EpochId; readonly marks: Readonly<Record<string, string>> }
    /** What a tracker has recorded for everybody. */
    | { readonly kind: "peer_verdict"; readonly key: string; readonly event: NewEvent }
  );

export type RecOf<K extends Rec["kind"]> = Extract<Rec, { readonly kind: K }>;

/** What is left of a server when it is copied: its disk, and the row that names its epoch if it was stopped cleanly. */
export interface Image {
  readonly log: readonly Rec[];
  readonly sentinel: { readonly epoch: EpochId; readonly life: number } | null;
}

interface SimNodeParts {
  readonly unfit: boolean;
  readonly life: number;
  readonly origin: bigint;
}

export class SimNode {
  readonly site: NodeSite;
  readonly unfit: boolean;
  log: Rec[] = [];
  /** How many records of the log are on disk, and how many a reader sees. */
  flushed = 0;
  replayed = 0;
  /** Of the server process. */
  life: number;
  isUp = true;
  role: "primary" | "replica" = "replica";
  sentinel: Image["sentinel"] = null;
  /** Put back to an older copy, and in no epoch since. */
  isRestored = false;
  /** How far its last recovery went, and whether a promotion ended it. A clean restart forgets that. */
  recovery: { readonly end: Offset; readonly isPromotion: boolean } | null = null;
  /** Grows whenever the log was replaced or cut. */
  edition = 0;
  /** Grows whenever all connections to the server end. */
  sessions = 0;

  /** Where the log of a node begins that has never run. */
  readonly #origin: bigint;

  constructor(site: NodeSite, { unfit, life, origin }: SimNodeParts) {
    this.site = site;
    this.unfit = unfit;
    this.life = life;
    this.#origin = origin;
  }

  get id(): string {
    return this.site.id;
  }

  /** The server process. */
  get incarnation(): string {
    return `${this.id}/${String(this.life)}`;
  }

  get isPrimary(): boolean {
    return this.isUp && this.role === "primary";
  }

  /** The epoch that transactions commit in here. */
  get epoch(): EpochId | null {
    return this.isPrimary && this.sentinel?.life === this.life ? this.sentinel.epoch : null;
  }

  get end(): Offset {
    return (this.log.at(-1)?.end ?? this.#origin) as Offset;
  }

  get flushedEnd(): Offset {
    return (this.log[this.flushed - 1]?.end ?? this.#origin) as Offset;
  }

  get replayedEnd(): Offset {
    return (this.log[this.replayed - 1]?.end ?? this.#origin) as Offset;
  }

  get timeline(): number {
    const last = this.log.findLast(({ kind }) => kind === "switch");
    return last?.kind === "switch" ? last.from + 1 : 1;
  }

  /** Oldest first, as a reader sees them. */
  get epochRecs(): RecOf<"epoch">[] {
    return this.log.slice(0, this.replayed).filter((rec) => rec.kind === "epoch");
  }

  /** The same with the final marks as they have been raised since, and the commands that have confirmed them. */
  get records(): EpochRecord[] {
    const raised = new Map<string, Record<string, string>>();
    const confirmed = new Set<string>();
    for (const rec of this.log.slice(0, this.replayed)) {
      if (rec.kind === "obeyed") confirmed.add(rec.epoch);
      if (rec.kind !== "raised") continue;
      const marks = raised.get(rec.epoch) ?? {};
      raised.set(rec.epoch, { ...marks, ...rec.marks });
    }
    return this.epochRecs.map(({ record }) => ({
      ...record,
      finalMarks: { ...record.finalMarks, ...raised.get(record.id) },
      commanded: record.commanded || confirmed.has(record.id),
    }));
  }

  get newestEpoch(): EpochId | null {
    return (this.log.findLast((rec) => rec.kind === "epoch")?.record.id ?? null) as EpochId | null;
  }

  get draft(): RecOf<"draft"> | null {
    const last = this.log.findLast((rec) => rec.kind === "draft");
    const isOpen = this.log.some((rec) => rec.kind === "epoch" && rec.record.id === last?.record.id);
    return last === undefined || isOpen ? null : last;
  }

  get command(): { id: string; overrules: readonly EpochId[] } | null {
    const given = this.log.findLast((rec) => rec.kind === "command" && rec.node === this.id);
    if (given?.kind !== "command") return null;
    return this.log.some((rec) => rec.kind === "obeyed" && rec.id === given.id) ? null : given;
  }

  receipt(id: TxnId): RecOf<"receipt"> | undefined {
    return this.log.find((rec): rec is RecOf<"receipt"> => rec.kind === "receipt" && rec.id === id);
  }

  /** The highest that it has replayed. */
  witnessOf(epoch: EpochId): Witness | null {
    const found = this.log
      .slice(0, this.replayed)
      .filter((rec) => rec.kind === "witness" && rec.epoch === epoch);
    const last = found.at(-1);
    if (last?.kind !== "witness") return null;
    const marks: Record<string, string> = {};
    for (const rec of found)
      for (const [level, mark] of rec.kind === "witness" ? Object.entries(rec.marks) : [])
        if (BigInt(mark) > BigInt(marks[level] ?? -1)) marks[level] = mark;
    return { reached: last.reached as Offset, seenBy: last.end as Offset, marks };
  }

  has(rec: Rec): boolean {
    return this.log.includes(rec);
  }

  flush(records: number): void {
    this.flushed = Math.min(this.log.length, this.flushed + records);
    if (this.role === "primary") this.replayed = this.log.length;
  }

  /** What is not on disk is gone. */
  lose(): void {
    if (this.log.length !== this.flushed) this.edition++;
    this.log.length = this.flushed;
    this.replayed = this.flushed;
  }

  recover(isPromotion: boolean): void {
    this.recovery = { end: this.end, isPromotion };
  }

  /** Puts another server's disk in place of this one's. */
  replaceBy(image: Image): void {
    this.edition++;
    this.log = [...image.log];
    this.flushed = this.log.length;
    this.replayed = this.log.length;
    this.sentinel = image.sentinel;
    // A copy of a server that was stopped cleanly starts without recovery.
    if (image.sentinel === null) this.recover(false);
    else this.recovery = null;
  }

  image(): Image {
    const isClean = !this.isUp && this.flushed === this.log.length;
    return { log: this.log.slice(0, this.flushed), sentinel: isClean ? this.sentinel : null };
  }
}
