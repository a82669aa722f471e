// A small replicated store: servers that lose what they had not flushed and reuse its offsets, streams that die without
// anybody noticing, promotions, superseded branches. It shows only what real servers would say.
import { type NodeReport } from "@highwater/authority";
import { type EpochId, type Offset, type TxnId } from "@highwater/protocol";
import { type KeyCheck, type NewEvent, type Witness } from "@highwater/store";
import { type NodeSite } from "../src/core/index.ts";
import { txnId } from "../test/support/core.ts";
import { IDS_MS } from "./clock.ts";
import { Epochs } from "./epochs.ts";
import { type Image, type Rec, type Receipt, SimNode } from "./node.ts";
import { Truth, type Txn } from "./truth.ts";

/** Deliberate faults of what lies outside the core: in the store's SQL and in the gateway. All off in honest runs. */
export interface Habits {
  /** A token's offset is what has been written out, which can be below the commit. */
  readonly tokenFromWritten: boolean;
  /** Positions say what a replica has received, on disk or not. */
  readonly showsReceived: boolean;
  /** What may have committed is run again under a new id, unsettled. */
  readonly retriesUnsettled: boolean;
  /** A tombstone is answered before it is on disk. */
  readonly settlesLazily: boolean;
  /** A look-up writes no tombstone for what it does not find. */
  readonly looksOnly: boolean;
}

export const HONEST: Habits = {
  tokenFromWritten: false,
  showsReceived: false,
  retriesUnsettled: false,
  settlesLazily: false,
  looksOnly: false,
};

interface Stream {
  /** The primary's name for it, and the replica's own. */
  readonly session: string;
  readonly own: string;
  readonly replica: string;
  readonly from: string;
  /** The replica has gone and the primary has not noticed: it goes on showing this. */
  frozen: bigint | null;
}

type SettledReceipts = ReadonlyMap<TxnId, Pick<Receipt, "epoch" | "request"> & { kind: Receipt["says"] }>;

/** Enough for every kind of outcome; each of them is judged again and again. */
const MAX_TXNS = 24;

interface WorldParts {
  readonly unfit: string | null;
  /** Where the log of every node begins. */
  readonly origin: bigint;
  readonly habits: Habits;
}

export class World {
  readonly nodes: readonly SimNode[];
  readonly truth = new Truth();
  readonly epochs: Epochs;
  readonly habits: Habits;
  streams: Stream[] = [];
  readonly copies: Image[] = [];
  /** What was asked for, as its gateway digested it: receipts keep that. By request. */
  readonly digests = new Map<number, bigint>();
  readonly keyChecks: KeyCheck[] = [];
  #ids = 0;
  #names = 0;
  /** No two server processes are alike, on whatever node. */
  #lives = 0;

  constructor(sites: readonly NodeSite[], { unfit, origin, habits }: WorldParts) {
    this.habits = habits;
    this.nodes = sites.map(
      (site) => new SimNode(site, { unfit: site.id === unfit, life: ++this.#lives, origin }),
    );
    const [first] = this.nodes;
    if (first === undefined) throw new Error("a world needs a node");
    first.role = "primary";
    this.epochs = new Epochs({
      truth: this.truth,
      witness: () => {
        this.truth.witness(this.nodes);
      },
      append: (node, rec) => {
        this.#append(node, rec);
      },
    });
    const request = { minSeq: 1, supersedes: [], command: null, streamed: null, finalMarks: {} };
    this.epochs.open(first, this.epochs.begin(first, request) as EpochId, request);
    // Replicas begin as copies of their primary.
    for (const node of this.nodes) {
      if (node === first) continue;
      node.replaceBy({ ...first.image(), sentinel: null });
      this.connect(node, first);
    }
  }

  named(id: string): SimNode | undefined {
    return this.nodes.find((node) => node.id === id);
  }

  get isFull(): boolean {
    return this.truth.txns.length >= MAX_TXNS;
  }

  newId(): TxnId {
    return txnId(++this.#ids);
  }

  #append(node: SimNode, rec: Rec): void {
    node.log.push(rec);
    node.replayed = node.log.length;
    if (node.epoch !== null) this.truth.epochs.get(node.epoch)?.log.push(rec);
  }

  // ---- what runs on a primary

  /** Answers the record, which a node that takes no writes does not get. */
  noise(node: SimNode, size: number): Rec {
    const isStray = node.isRestored && node.epoch === null;
    const rec: Rec = { kind: "noise", isStray, end: node.end + BigInt(size) };
    if (node.isPrimary) this.#append(node, rec);
    return rec;
  }

  /** `refused`: the server is in another epoch, or in none. `used`: the id has a receipt. */
  commit(
    node: SimNode,
    about: Pick<Txn, "id" | "attempt" | "request"> & { readonly size: number },
  ): Txn | "refused" | "used" {
    const { id, attempt, request } = about;
    if (node.epoch !== attempt) return "refused";
    if (node.receipt(id) !== undefined) return "used";
    const end = node.end + BigInt(about.size);
    const rec: Rec = { kind: "receipt", id, says: "commit", epoch: attempt, request, end };
    this.#append(node, rec);
    const txn: Txn = { id, attempt, kind: "write", rec, request };
    this.truth.txns.push(txn);
    return txn;
  }

  read(node: SimNode, seen: number, attempt: EpochId): Txn | null {
    // All else in a log is nothing that a reader could see.
    const rec = node.log.slice(0, seen).findLast(({ kind }) => kind === "receipt" || kind === "epoch");
    if (rec === undefined) return null;
    const txn: Txn = { id: this.newId(), attempt, kind: "read", rec, request: 0 };
    this.truth.txns.push(txn);
    return txn;
  }

  /** What a connection that has just committed reads of the log's end. */
  logEnd(node: SimNode): Offset {
    return this.habits.tokenFromWritten ? node.flushedEnd : node.end;
  }

  /**
   * One tiny commit, all of the log on disk, and a row that says how far it was there: that
   * position, and null in another epoch.
   */
  helpFlush(node: SimNode, epoch: EpochId, marks: Witness["marks"] = {}): Offset | null {
    if (node.epoch !== epoch) return null;
    const reached = node.end;
    this.#append(node, { kind: "witness", epoch, reached, marks, end: node.end + 4n });
    node.flush(node.log.length);
    return reached;
  }

  /** A tombstone for every absent id, all of it on disk; null in another epoch than the one that it is asked in. */
  settle(
    node: SimNode,
    asked: {
      readonly epoch: EpochId;
      readonly ids: readonly TxnId[];
      readonly tombstone: "aborted" | "lost";
    },
  ): SettledReceipts | null {
    const { epoch, ids, tombstone } = asked;
    if (node.epoch !== epoch) return null;
    const found = new Map<TxnId, Pick<Receipt, "epoch" | "request"> & { kind: Receipt["says"] }>();
    for (const id of ids) {
      let receipt: Receipt | undefined = node.receipt(id);
      if (receipt === undefined) {
        const rec: Rec = { kind: "receipt", id, says: tombstone, epoch, request: 0, end: node.end + 5n };
        if (!this.habits.looksOnly) this.#append(node, rec);
        receipt = rec;
      }
      const isOwn = this.truth.begun.has(`${id}/${receipt.epoch}`);
      if (receipt.says === "aborted" && isOwn) this.truth.settled.add(id);
      found.set(id, { kind: receipt.says, epoch: receipt.epoch, request: receipt.request });
    }
    if (!this.habits.settlesLazily) node.flush(node.log.length);
    return found;
  }

  // ---- streams

  follows(replica: SimNode, source: SimNode): boolean {
    const at = replica.log.length;
    return at === 0 || (at <= source.flushed && source.log[at - 1] === replica.log[at - 1]);
  }

  #streamOf(replica: SimNode): Stream | undefined {
    return this.streams.find(({ replica: id, frozen }) => id === replica.id && frozen === null);
  }

  /** Brings a replica some records from its source, if it can follow it. They are not on its disk yet. */
  receive(replica: SimNode, records: number): boolean {
    const stream = this.#streamOf(replica);
    const source = stream === undefined ? undefined : this.named(stream.from);
    if (source === undefined || !source.isUp || !replica.isUp || !this.follows(replica, source)) return false;
    const from = replica.log.length;
    replica.log.push(...source.log.slice(from, Math.min(source.flushed, from + records)));
    return replica.log.length > from;
  }

  /** A replica replays what is on its disk. */
  replay(replica: SimNode, records: number): void {
    if (replica.role === "replica" && replica.isUp)
      replica.replayed = Math.min(replica.flushed, replica.replayed + records);
  }

  connect(replica: SimNode, source: SimNode): void {
    if (replica.role !== "replica" || !replica.isUp || !source.isPrimary || replica === source) return;
    this.cut(replica, false);
    const n = String(++this.#names);
    this.streams.push({ session: `s${n}`, own: `w${n}`, replica: replica.id, from: source.id, frozen: null });
  }

  /** `lingers`: the primary will not notice for a while. */
  cut(replica: SimNode, lingers: boolean): void {
    this.streams = this.streams.filter((stream) => {
      if (stream.replica !== replica.id || stream.frozen !== null) return true;
      stream.frozen = replica.flushedEnd;
      return lingers;
    });
  }

  /** The primaries notice which of their streams are dead. */
  reap(): void {
    this.streams = this.streams.filter(({ frozen }) => frozen === null);
  }

  #cutAll(node: SimNode, lingers: boolean): void {
    // What was on its disk until now was there.
    this.truth.witness(this.nodes);
    node.sessions++;
    this.cut(node, lingers);
    this.streams = this.streams.filter(({ from }) => from !== node.id);
  }

  // ---- what happens to servers

  /** From here on the server does not show what was written after an earlier recovery. */
  #recover(node: SimNode, isPromotion: boolean): void {
    node.recover(isPromotion);
    this.truth.hideStrays(node.log);
  }

  stop(node: SimNode, clean: boolean, lingers: boolean): void {
    if (!node.isUp) return;
    if (clean) node.flush(node.log.length);
    else node.sentinel = null;
    this.#cutAll(node, lingers);
    node.lose();
    node.isUp = false;
    if (clean) node.recovery = null;
    else this.#recover(node, false);
  }

  start(node: SimNode): void {
    if (node.isUp) return;
    node.isUp = true;
    node.life = ++this.#lives;
  }

  /** The server kills all its sessions and recovers, without a new process. */
  recoverInPlace(node: SimNode): void {
    if (!node.isUp) return;
    this.#cutAll(node, false);
    node.lose();
    this.#recover(node, false);
    node.sentinel = null;
  }

  promote(node: SimNode): void {
    if (!node.isUp || node.role !== "replica") return;
    this.cut(node, true);
    node.lose();
    this.#recover(node, true);
    node.log.push({ kind: "switch", from: node.timeline, end: node.end });
    node.role = "primary";
    node.sentinel = null;
    node.flush(node.log.length);
  }

  command(node: SimNode, overrules: readonly EpochId[]): void {
    if (!node.isPrimary) return;
    const id = `c${String(++this.#names)}`;
    this.#append(node, { kind: "command", id, node: node.id, overrules, end: node.end + 3n });
    node.flush(node.log.length);
  }

  /** Throws a node's diverged history away and gives it the source's, as far as `records` beyond what they share. */
  clone(node: SimNode, source: SimNode, records: number, lingers: boolean): void {
    if (node === source) return;
    let shared = 0;
    while (
      shared < source.flushed &&
      node.log[shared] !== undefined &&
      node.log[shared] === source.log[shared]
    )
      shared++;
    this.#cutAll(node, lingers);
    node.replaceBy({ log: source.log.slice(0, Math.min(source.flushed, shared + records)), sentinel: null });
    node.role = "replica";
    node.isUp = true;
    node.life = ++this.#lives;
  }

  /** An older copy is put in place of a node's disk, and started as a primary on the timeline that it is of. */
  restore(node: SimNode, image: Image): void {
    this.#cutAll(node, false);
    node.replaceBy(image);
    if (node.recovery !== null) this.truth.hideStrays(node.log);
    node.isRestored = true;
    node.role = "primary";
    node.isUp = true;
    node.life = ++this.#lives;
  }

  // ---- what trackers share

  /** Marks that are higher than those in the epoch's record are written behind it. */
  raiseFinalMarks(node: SimNode, epoch: EpochId, marks: Readonly<Record<string, string>>): void {
    const record = node.isPrimary ? node.records.find(({ id }) => id === epoch) : undefined;
    if (record === undefined) return;
    const higher = Object.entries(marks).filter(
      ([level, mark]) => BigInt(mark) > BigInt(record.finalMarks[level] ?? -1),
    );
    if (higher.length === 0) return;
    this.#append(node, { kind: "raised", epoch, marks: Object.fromEntries(higher), end: node.end + 2n });
  }

  /** Under each key once. */
  recordVerdict(node: SimNode, epoch: EpochId, event: NewEvent): void {
    if (node.epoch !== epoch) return;
    const { key, owner } = event;
    const known = node.log.findLast((rec) => rec.kind === "peer_verdict" && rec.key === key);
    const isPoorer = known?.kind === "peer_verdict" && known.event.owner === 0n && owner !== 0n;
    if (known === undefined || isPoorer)
      this.#append(node, { kind: "peer_verdict", key, event, end: node.end + 6n });
  }

  // ---- what servers say

  report(node: SimNode): NodeReport {
    const { isPrimary } = node;
    const stream = isPrimary ? undefined : this.#streamOf(node);
    return {
      node: node.id,
      role: isPrimary ? "primary" : "replica",
      incarnation: node.incarnation,
      prepared: true,
      epochs: node.records,
      current: node.epoch,
      flushed: node.flushedEnd,
      applied: isPrimary ? node.end : node.replayedEnd,
      unfit: node.unfit ? "a test" : null,
      isFed: stream !== undefined,
      upstream: stream === undefined ? null : { session: stream.own, flushed: node.flushedEnd },
      command: isPrimary ? node.command : null,
      serverTimeMs: IDS_MS,
    };
  }

  positionsOf(primary: SimNode): { node: string; session: string; flushed: Offset }[] {
    const shown = this.streams.filter(({ from }) => from === primary.id);
    const positionOf = (node: SimNode | undefined): bigint =>
      (this.habits.showsReceived ? node?.end : node?.flushedEnd) ?? 0n;
    return shown
      .filter(({ replica }) => shown.filter((other) => other.replica === replica).length === 1)
      .map(({ replica, session, frozen }) => ({
        node: replica,
        session,
        flushed: (frozen ?? positionOf(this.named(replica))) as Offset,
      }));
  }
}
