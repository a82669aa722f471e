// What really happened, which no gateway and no tracker can see: every record that an epoch's log ever had, who had it on disk
// while the epoch ran, and every token that a client holds.
import type { EpochId, EpochRecord, LevelRule, Offset, TokenKind, TxnId } from "@highwater/protocol";
import { type AnnouncedItem, type NodeSite } from "../src/core/index.ts";
import { type Rec, type SimNode } from "./node.ts";

export interface Txn {
  readonly id: TxnId;
  readonly attempt: EpochId;
  readonly kind: TokenKind;
  /** A write's own record; for a read the last record that it could see. */
  readonly rec: Rec;
  readonly request: number;
}

/** Whose a request is. */
export const ownerOf = (request: number): bigint => BigInt(1 + (request % 3));

export interface Token {
  readonly n: number;
  readonly txn: Txn;
  readonly position: { readonly epoch: EpochId; readonly offset: Offset };
}

export interface EpochTruth {
  readonly record: EpochRecord;
  readonly rec: Rec;
  /** The log before the epoch's record, as its node had it. */
  readonly before: ReadonlySet<Rec>;
  /** Everything that was ever in this epoch's log, from the epoch's record on. */
  readonly log: Rec[];
  /** What each node has had on its disk while this epoch was running and its record was there too. */
  readonly onDisk: Map<string, Seen>;
}

interface Seen {
  readonly recs: Set<Rec>;
  edition: number;
  upTo: number;
}

export class Truth {
  readonly txns: Txn[] = [];
  readonly tokens: Token[] = [];
  readonly epochs = new Map<EpochId, EpochTruth>();
  /** What each tracker knows of an attempt: who announced it and has not taken that back, or where it is. By `tracker/id/attempt`. */
  readonly announcedTo = new Map<string, ReadonlySet<string> | "position">();
  /** Attempts, by `id/attempt`, whose gateway was killed before any tracker had them on its disk. */
  readonly unannounced = new Set<string>();
  /** Attempts, by `id/attempt`, that gateways have taken on. */
  readonly begun = new Set<string>();
  /** Ids with an attempt that was ended in its own epoch: its client learns that from its gateway. */
  readonly settled = new Set<TxnId>();

  /**
   * Written in no epoch on a node that was put back to an older copy, and followed by another recovery or a promotion: from then on
   * the server does not show it any more.
   */
  readonly hiddenStrays = new WeakSet<Rec>();

  hideStrays(log: readonly Rec[]): void {
    for (const rec of log) if (rec.kind === "noise" && rec.isStray) this.hiddenStrays.add(rec);
  }

  token(txn: Txn, position: Token["position"]): Token {
    const token = { n: this.tokens.length, txn, position };
    this.tokens.push(token);
    return token;
  }

  observe(tracker: number, { kind, id, epoch, by = "" }: AnnouncedItem): void {
    const key = `${String(tracker)}/${id}/${epoch}`;
    const known = this.announcedTo.get(key);
    if (kind === "position") this.announcedTo.set(key, kind);
    if (kind === "position" || known === "position") return;
    const announcers = new Set(known);
    if (kind === "intent") announcers.add(by);
    else announcers.delete(by);
    if (announcers.size > 0) this.announcedTo.set(key, announcers);
    else this.announcedTo.delete(key);
  }

  /** After every change: who has what on disk, in the running epochs. */
  witness(nodes: readonly SimNode[]): void {
    for (const primary of nodes) {
      const epoch = primary.epoch === null ? undefined : this.epochs.get(primary.epoch);
      if (epoch === undefined) continue;
      for (const node of nodes) if (!node.unfit) look(epoch, node);
    }
  }

  /** A node that has not followed the next epoch shows what it has of this one; that counts after the epoch has ended, too. */
  survivor(id: EpochId, node: SimNode): void {
    const epoch = this.epochs.get(id);
    if (epoch !== undefined && !node.unfit) look(epoch, node);
  }

  /** Whether the nodes that the level's rule asks for have had the record on disk in one epoch's history. */
  everOnDisk(rec: Rec, rule: LevelRule, nodes: readonly SimNode[]): boolean {
    for (const id of this.epochs.keys()) if (this.wasOnDisk(id, rec, rule, nodes)) return true;
    return false;
  }

  wasOnDisk(epoch: EpochId, rec: Rec, rule: LevelRule, nodes: readonly SimNode[]): boolean {
    const truth = this.epochs.get(epoch);
    const home = nodes.find(({ id }) => id === truth?.record.node)?.site;
    if (truth === undefined || home === undefined) return false;
    return holds(rule, home, nodes, (node) => truth.onDisk.get(node.site.id)?.recs.has(rec) === true);
  }

  /** What a token of the epoch says of the one before. */
  parentOf(epoch: EpochId): EpochId | null {
    return (this.epochs.get(epoch)?.record.previous ?? null) as EpochId | null;
  }

  /** The epoch and those before it, newest first. */
  historyOf(epoch: EpochId): EpochId[] {
    const history: EpochId[] = [];
    for (let at: EpochId | null = epoch; at !== null; at = this.parentOf(at)) history.push(at);
    return history;
  }

  /** The epochs whose history contains this one. */
  heirsOf(epoch: EpochId): Set<EpochId> {
    const heirs = new Set<EpochId>();
    for (const [id, { record }] of this.epochs)
      if (record.previous === epoch || heirs.has(record.previous as EpochId)) heirs.add(id);
    return heirs;
  }
}

function look({ rec, onDisk }: EpochTruth, node: SimNode): void {
  let seen = onDisk.get(node.id);
  if (seen === undefined) onDisk.set(node.id, (seen = { recs: new Set(), edition: -1, upTo: 0 }));
  if (seen.edition !== node.edition) {
    // Nothing counts until the epoch's own record is there.
    const at = node.log.indexOf(rec);
    if (at < 0 || at >= node.flushed) return;
    seen.edition = node.edition;
    seen.upTo = 0;
  }
  for (; seen.upTo < node.flushed; seen.upTo++) {
    const had = node.log[seen.upTo];
    if (had !== undefined) seen.recs.add(had);
  }
}

/** The rule by its definition: brute force over every choice of domains. */
export function holds<N extends { readonly site: NodeSite }>(
  rule: LevelRule,
  primary: NodeSite,
  nodes: readonly N[],
  has: (node: N) => boolean,
): boolean {
  const owners = nodes.filter(has).map(({ site }) => site);
  if ("primary" in rule) return owners.some(({ id }) => id === primary.id);
  if ("regions" in rule)
    return nodes.every(({ site }) => owners.some(({ region }) => region === site.region));
  if (!("replicas" in rule)) return false;
  const domain = (site: NodeSite): string =>
    rule.outside === "region" ? site.region : `${site.region}/${site.zone}`;
  const domains = new Set(owners.map(domain));
  domains.delete(domain(primary));
  return domains.size >= rule.replicas;
}
