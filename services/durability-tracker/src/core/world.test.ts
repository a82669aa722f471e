// A small replicated store with ground truth that the core cannot see: logs made of records with an identity, nodes that
// lose what they had not flushed and reuse its offsets, promotions, superseded branches. What it shows to a tracker is only
// what nodes and gateways would say. Holds no tests; world.prop.test.ts plays it and checks.
import {
  type EpochId,
  type EpochRecord,
  type LevelRule,
  type Offset,
  type TokenKind,
  type TxnId,
} from "@highwater/protocol";
import { type NodeSite } from "./index.ts";
import { epochId, off, txnId } from "./fixtures.test.ts";

export type Rec = { readonly end: bigint } & (
  | { readonly kind: "noise" }
  /** Here a replica was promoted. */
  | { readonly kind: "switch" }
  | { readonly kind: "epoch"; readonly record: EpochRecord }
  | {
      readonly kind: "receipt";
      readonly id: TxnId;
      readonly says: "commit" | "aborted" | "lost";
      readonly epoch: EpochId;
    }
);

export interface Txn {
  readonly id: TxnId;
  readonly attempt: EpochId;
  readonly kind: TokenKind;
  /** A write's own record; for a read the last record that it could see. */
  readonly rec: Rec;
  readonly node: string;
  readonly incarnation: number;
  /** What its token says; null until it is read behind the COMMIT, and for ever if that failed. */
  offset: Offset | null;
}

/** Enough for every kind of fate; every one of them is judged at every step. */
const MAX_TXNS = 20;

interface Stream {
  /** The primary's name for it, and the replica's own. */
  readonly session: string;
  readonly own: string;
  readonly replica: string;
  readonly from: string;
  /** The replica has gone and the primary has not noticed: it goes on showing this. */
  frozen: bigint | null;
}

export class WorldNode {
  readonly site: NodeSite;
  readonly unfit: boolean;
  log: Rec[] = [];
  /** How many records of the log are on disk. */
  flushed = 0;
  incarnation = 1;
  role: "primary" | "replica" = "replica";
  /** The epoch that transactions of this primary commit in. */
  epoch: EpochId | null = null;

  constructor(site: NodeSite, unfit: boolean) {
    this.site = site;
    this.unfit = unfit;
  }

  get end(): bigint {
    return this.log.at(-1)?.end ?? 0n;
  }

  get flushedEnd(): bigint {
    return this.log[this.flushed - 1]?.end ?? 0n;
  }

  /** Where this history first left the log of its newest epoch by a promotion. */
  get switchPoint(): bigint | null {
    const newest = this.log.findLastIndex(({ kind }) => kind === "epoch");
    return this.log.slice(newest + 1).find(({ kind }) => kind === "switch")?.end ?? null;
  }

  get epochs(): EpochRecord[] {
    return this.log.flatMap((rec) => (rec.kind === "epoch" ? [rec.record] : []));
  }

  receipt(id: TxnId): Extract<Rec, { kind: "receipt" }> | undefined {
    return this.log.find((rec) => rec.kind === "receipt" && rec.id === id) as
      Extract<Rec, { kind: "receipt" }> | undefined;
  }
}

interface EpochTruth {
  readonly record: EpochRecord;
  readonly rec: Rec;
  /** Everything that was ever in this epoch's log, from the epoch's record on. */
  readonly log: Rec[];
  /** What each node has had on its disk while this epoch was running and its record was there too. */
  readonly onDisk: Map<string, Set<Rec>>;
}

export class World {
  readonly nodes: readonly WorldNode[];
  readonly txns: Txn[] = [];
  readonly epochs = new Map<EpochId, EpochTruth>();
  streams: Stream[] = [];
  ruler: WorldNode;
  #ids = 0;
  #sessions = 0;

  constructor(sites: readonly NodeSite[], unfit: string | null) {
    this.nodes = sites.map((site) => new WorldNode(site, site.id === unfit));
    const [first] = this.nodes;
    if (first === undefined) throw new Error("a world needs a node");
    this.ruler = first;
    first.role = "primary";
    this.mint({ share: 0, limited: true, marks: {}, commanded: false, supersedes: [] });
    for (const node of this.nodes) if (node !== first) this.connect(node, first);
  }

  node(index: number): WorldNode {
    return this.nodes[index % this.nodes.length] ?? this.ruler;
  }

  named(id: string): WorldNode {
    return this.nodes.find(({ site }) => site.id === id) ?? this.ruler;
  }

  /** After every change: who has what on disk, in the running epochs. */
  witness(): void {
    for (const primary of this.nodes) {
      const truth = primary.epoch === null ? undefined : this.epochs.get(primary.epoch);
      if (truth === undefined) continue;
      for (const node of this.nodes) {
        const disk = node.log.slice(0, node.flushed);
        if (node.unfit || !disk.includes(truth.rec)) continue;
        let had = truth.onDisk.get(node.site.id);
        if (had === undefined) truth.onDisk.set(node.site.id, (had = new Set()));
        for (const rec of disk) had.add(rec);
      }
    }
  }

  #append(node: WorldNode, rec: Rec): void {
    node.log.push(rec);
    if (node.epoch !== null) this.epochs.get(node.epoch)?.log.push(rec);
  }

  noise(node: WorldNode, size: number): void {
    if (node.role === "primary") this.#append(node, { kind: "noise", end: node.end + BigInt(size) });
  }

  /** Commits on a primary that has an epoch; under an id that may have been tried before. */
  commit(node: WorldNode, size: number, retry: Txn | undefined): Txn | null {
    if (node.role !== "primary" || node.epoch === null || this.isFull) return null;
    const id = retry?.kind === "write" ? retry.id : txnId(++this.#ids);
    if (node.receipt(id) !== undefined) return null;
    const rec: Rec = {
      kind: "receipt",
      id,
      says: "commit",
      epoch: node.epoch,
      end: node.end + BigInt(size),
    };
    this.#append(node, rec);
    return this.#txn(node, node.epoch, { id, kind: "write", rec });
  }

  read(node: WorldNode): Txn | null {
    const rec = node.log.at(-1);
    if (node.role !== "primary" || node.epoch === null || rec === undefined || this.isFull) return null;
    return this.#txn(node, node.epoch, { id: txnId(++this.#ids), kind: "read", rec });
  }

  newId(): TxnId {
    return txnId(++this.#ids);
  }

  get isFull(): boolean {
    return this.txns.length >= MAX_TXNS;
  }

  #txn(node: WorldNode, attempt: EpochId, about: Pick<Txn, "id" | "kind" | "rec">): Txn {
    const txn = { ...about, attempt, node: node.site.id, incarnation: node.incarnation, offset: null };
    this.txns.push(txn);
    return txn;
  }

  /** The position is read behind the COMMIT: by then others may have written more. */
  acknowledge(txn: Txn): boolean {
    const node = this.named(txn.node);
    if (txn.offset !== null || node.incarnation !== txn.incarnation || node.epoch !== txn.attempt)
      return false;
    txn.offset = node.end as Offset;
    return true;
  }

  flush(node: WorldNode, records: number): void {
    node.flushed = Math.min(node.log.length, node.flushed + records);
  }

  follows(replica: WorldNode, source: WorldNode): boolean {
    const at = replica.log.length;
    return at === 0 || (at <= source.flushed && source.log[at - 1] === replica.log[at - 1]);
  }

  /** Brings a replica some records from its source, if it can follow it. */
  stream(replica: WorldNode, records: number): void {
    const stream = this.streams.find(({ replica: id, frozen }) => id === replica.site.id && frozen === null);
    if (stream === undefined) return;
    const source = this.named(stream.from);
    if (!this.follows(replica, source)) return;
    replica.log.push(
      ...source.log.slice(replica.log.length, Math.min(source.flushed, replica.log.length + records)),
    );
    replica.flushed = replica.log.length;
  }

  connect(replica: WorldNode, source: WorldNode): void {
    if (replica.role !== "replica" || source.role !== "primary" || replica === source) return;
    this.cut(replica, false);
    this.streams.push({
      session: `s${String(++this.#sessions)}`,
      own: `w${String(this.#sessions)}`,
      replica: replica.site.id,
      from: source.site.id,
      frozen: null,
    });
  }

  /** `lingers`: the primary will not notice for a while. */
  cut(replica: WorldNode, lingers: boolean): void {
    this.streams = this.streams.filter((stream) => {
      if (stream.replica !== replica.site.id || stream.frozen !== null) return true;
      stream.frozen = replica.flushedEnd;
      return lingers;
    });
  }

  /** The primaries notice which of their streams are dead. */
  reap(): void {
    this.streams = this.streams.filter(({ frozen }) => frozen === null);
  }

  /** The server dies and comes back on the same disk. A primary reuses the offsets of what it had not flushed. */
  restart(node: WorldNode, clean: boolean): void {
    this.cut(node, false);
    this.streams = this.streams.filter(({ from }) => from !== node.site.id);
    if (clean) node.flushed = node.log.length;
    node.log.length = node.flushed;
    node.incarnation++;
    node.epoch = null;
  }

  promote(node: WorldNode): void {
    if (node.role === "replica") {
      this.cut(node, true);
      node.log.push({ kind: "switch", end: node.end });
      node.flushed = node.log.length;
    }
    node.role = "primary";
    this.ruler = node;
  }

  /** Throws a node's diverged history away and gives it the ruler's, as far as `records` beyond what they share. */
  clone(node: WorldNode, records: number, lingers: boolean): void {
    const { ruler } = this;
    if (node === ruler) return;
    let shared = 0;
    while (shared < ruler.flushed && node.log[shared] !== undefined && node.log[shared] === ruler.log[shared])
      shared++;
    this.cut(node, lingers);
    this.streams = this.streams.filter(({ from }) => from !== node.site.id);
    node.role = "replica";
    node.epoch = null;
    node.incarnation++;
    node.log = ruler.log.slice(0, Math.min(ruler.flushed, shared + records));
    node.flushed = node.log.length;
  }

  /** Begins the ruler's epoch. `share`: how much of what truly survived the fork offset admits, in thousandths. */
  mint(how: {
    readonly share: number;
    readonly limited: boolean;
    readonly marks: Record<string, string>;
    readonly commanded: boolean;
    readonly supersedes: readonly EpochId[];
  }): EpochRecord {
    const node = this.ruler;
    const previous = node.epochs.at(-1);
    const { fork, limit } = this.#fork(node, previous, how.share);
    node.epoch = null;
    const n = this.epochs.size + 1;
    const start = node.end + 8n;
    const record: EpochRecord = {
      id: epochId(n),
      seq: n,
      previous: previous?.id ?? null,
      node: node.site.id,
      cause: previous === undefined ? "first" : "crash_recovery",
      startedAt: "2026-01-01T00:00:00.000000Z",
      startOffset: String(start),
      forkOffset: String(fork),
      forkLimit: how.limited && limit !== null ? String(limit) : null,
      supersedes: [...how.supersedes],
      commanded: how.commanded,
      finalMarks: how.marks,
    };
    const rec: Rec = { kind: "epoch", record, end: start };
    node.log.push(rec);
    node.epoch = record.id as EpochId;
    node.flushed = node.log.length;
    this.epochs.set(node.epoch, { record, rec, log: [rec], onDisk: new Map() });
    return record;
  }

  #fork(
    node: WorldNode,
    previous: EpochRecord | undefined,
    share: number,
  ): { fork: bigint; limit: bigint | null } {
    const old = previous === undefined ? undefined : this.epochs.get(previous.id as EpochId);
    if (old === undefined) return { fork: 0n, limit: 0n };
    const mine = new Set(node.log);
    const missing = old.log.findIndex((rec) => !mine.has(rec));
    const last = (missing < 0 ? old.log.at(-1) : old.log[missing - 1])?.end ?? 0n;
    const stillRuns = this.nodes.some((other) => other.epoch === old.record.id && other !== node);
    // Nothing of that log above what is here and below what is missing; and nothing at all, if no more can be written.
    const highest = stillRuns ? last : missing < 0 ? node.end : (old.log[missing]?.end ?? last + 1n) - 1n;
    const start = BigInt(old.record.startOffset);
    const { switchPoint } = node;
    const bound = switchPoint !== null && switchPoint < highest ? switchPoint : highest;
    const fork = start + ((bound - start) * BigInt(share)) / 1000n;
    if (switchPoint !== null) return { fork, limit: switchPoint };
    return { fork, limit: node.epoch === null && old.record.node === node.site.id ? node.end : null };
  }

  /** Whether a transaction is in this node's log; a read: everything that it may have seen. */
  contains(node: WorldNode, txn: Txn): boolean {
    return node.log.includes(txn.rec);
  }

  /** Whether the nodes that the level's rule asks for have had the transaction on disk in one epoch's history. */
  everDurable(txn: Txn, rule: LevelRule): boolean {
    return this.everOnDisk(txn.rec, rule);
  }

  everOnDisk(rec: Rec, rule: LevelRule): boolean {
    for (const { record, onDisk } of this.epochs.values()) {
      const has = (node: WorldNode): boolean => onDisk.get(node.site.id)?.has(rec) === true;
      const home = this.named(record.node).site;
      if (holds(rule, home, this.nodes, has)) return true;
    }
    return false;
  }

  /** The epochs whose history contains this one. */
  heirsOf(epoch: EpochId): Set<EpochId> {
    const heirs = new Set<EpochId>();
    for (const [id, { record }] of this.epochs)
      if (record.previous === epoch || heirs.has(record.previous as EpochId)) heirs.add(id);
    return heirs;
  }

  positionsOf(primary: WorldNode): { node: string; session: string; flushed: Offset }[] {
    const shown = this.streams.filter(({ from }) => from === primary.site.id);
    return shown
      .filter(({ replica }) => shown.filter((other) => other.replica === replica).length === 1)
      .map(({ replica, session, frozen }) => ({
        node: replica,
        session,
        flushed: (frozen ?? this.named(replica).flushedEnd) as Offset,
      }));
  }

  upstreamOf(node: WorldNode): { session: string; flushed: Offset } | null {
    const stream = this.streams.find(({ replica, frozen }) => replica === node.site.id && frozen === null);
    return stream === undefined ? null : { session: stream.own, flushed: off(node.flushedEnd) };
  }

  /** What settling does on the real thing: a tombstone for every absent id, all of it on disk. */
  settle(
    node: WorldNode,
    ids: readonly TxnId[],
    tombstone: "aborted" | "lost",
  ): Map<TxnId, { kind: "commit" | "aborted" | "lost"; epoch: EpochId }> {
    const found = new Map<TxnId, { kind: "commit" | "aborted" | "lost"; epoch: EpochId }>();
    for (const id of ids) {
      let receipt = node.receipt(id);
      if (receipt === undefined) {
        const epoch = node.epoch ?? epochId(0);
        receipt = { kind: "receipt", id, says: tombstone, epoch, end: node.end + 5n };
        this.#append(node, receipt);
      }
      found.set(id, { kind: receipt.says, epoch: receipt.epoch });
    }
    node.flushed = node.log.length;
    return found;
  }
}

/** The rule by its definition: brute force over every choice of domains. */
export function holds(
  rule: LevelRule,
  primary: NodeSite,
  nodes: readonly { readonly site: NodeSite }[],
  has: (node: never) => boolean,
): boolean {
  const owners = nodes.filter((node) => has(node as never)).map(({ site }) => site);
  if ("primary" in rule) return owners.some(({ id }) => id === primary.id);
  if ("regions" in rule)
    return nodes.every(({ site }) => owners.some(({ region }) => region === site.region));
  if ("synchronous" in rule) throw new Error("not by positions alone: see synchronous.test.ts");
  const domain = (site: NodeSite): string =>
    rule.outside === "region" ? site.region : `${site.region}/${site.zone}`;
  const domains = new Set(owners.map(domain));
  domains.delete(domain(primary));
  return domains.size >= rule.replicas;
}
