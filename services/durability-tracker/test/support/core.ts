// Builders for the core's tests: a small topology, epoch records, and a tracker that is driven by hand.
import {
  type EpochId,
  type EpochRecord,
  type Offset,
  ownedName,
  type TokenKind,
  type TxnId,
} from "@highwater/protocol";
import { epochRecord } from "@highwater/protocol/testing";
import {
  type AnnouncedItem,
  type Candidates,
  type CoreConfig,
  type Effect,
  entryKey,
  initialState,
  judge,
  type Judgement,
  type Published,
  type ReceiptFact,
  type Tracker,
  type TrackerEvent,
} from "../../src/core/index.ts";

export const epochId = (n: number): EpochId =>
  `e0000000-0000-4000-8000-${n.toString(16).padStart(12, "0")}` as EpochId;
export const txnId = (n: number): TxnId =>
  `01990000-0000-7000-8000-${n.toString(16).padStart(12, "0")}` as TxnId;
export const off = (n: number | bigint): Offset => BigInt(n) as Offset;

/** `a` and `d` in one region, `b` and `c` in two others. */
export function configOf(over: Partial<CoreConfig> = {}): CoreConfig {
  return {
    nodes: [
      { id: "a", region: "east", zone: "1" },
      { id: "b", region: "west", zone: "1" },
      { id: "c", region: "north", zone: "1" },
      { id: "d", region: "east", zone: "2" },
    ],
    levels: [
      { name: "disk", rule: { primary: true } },
      { name: "zone", rule: { replicas: 1, outside: "zone" } },
      { name: "region", rule: { replicas: 1, outside: "region" } },
      { name: "global", rule: { regions: "all" } },
    ],
    exposureLevel: "region",
    countsBytes: true,
    commitsDurably: false,
    stallAfterMs: 10_000,
    maxKept: 1_000_000,
    aliveMs: 3_000,
    publishPatienceMs: 5_000,
    intentPatienceMs: 90_000,
    intentGraceMs: 2_000,
    keepDurableMs: 3_600_000,
    keepVerdictMs: 86_400_000,
    batch: 100,
    tokensPerOwner: 1_000,
    ...over,
  };
}

export function record(
  n: number,
  over: Partial<Omit<EpochRecord, "forkOffset" | "startOffset" | "forkLimit">> & {
    fork?: number;
    start?: number;
    limit?: number | null;
  } = {},
): EpochRecord {
  const { fork = 0, start = 10, limit = null, ...rest } = over;
  return epochRecord(epochId(n), {
    seq: n,
    previous: n === 1 ? null : epochId(n - 1),
    cause: n === 1 ? "first" : "crash_recovery",
    startOffset: String(start),
    forkOffset: String(fork),
    forkLimit: limit === null ? null : String(limit),
    ...rest,
  });
}

/** Whom the primary shows as synchronous, and what the HA manager says of whom it may promote. */
export interface SynchronousReport {
  readonly shown: readonly string[];
  readonly candidates?: Candidates;
}

type Timed<T> = T extends { readonly nowMs: number } ? Omit<T, "nowMs"> : never;
type Read = Extract<Effect, { kind: "read_receipts" }>;

/** A tracker's core driven by hand: every method sends what a real shell would, at a time that only `sleep` moves on. */
export class Driven {
  state: Tracker;
  nowMs = 1_000;
  /** Everything that was published of single transactions. */
  readonly published: Published[] = [];
  /** Look-ups that were asked for and not answered. */
  reads: Read[] = [];
  readonly effects: Effect[] = [];

  constructor(over: Partial<CoreConfig> = {}) {
    // Most tests want a loss to be reported as soon as its proof is on the primary's disk.
    this.state = initialState(configOf({ exposureLevel: "disk", ...over }), this.nowMs);
  }

  /** One that follows the last of the epochs. */
  static following(...epochs: EpochRecord[]): Driven {
    const it = new Driven();
    it.follow(...epochs);
    return it;
  }

  send(event: Timed<TrackerEvent>): readonly Effect[] {
    this.nowMs += 1;
    const effects = this.state.apply({ ...event, nowMs: this.nowMs });
    for (const effect of effects) {
      this.effects.push(effect);
      if (effect.kind === "publish_verdict") this.published.push(effect.published);
      if (effect.kind === "read_receipts") this.reads.push(effect);
    }
    return effects;
  }

  sleep(ms: number): readonly Effect[] {
    this.nowMs += ms;
    return this.send({ kind: "ticked" });
  }

  report(
    node: string,
    epochs: readonly EpochRecord[],
    over: Partial<Omit<Extract<TrackerEvent, { kind: "node_reported" }>, "kind" | "nowMs">> = {},
  ): readonly Effect[] {
    return this.send({
      kind: "node_reported",
      askedAtMs: this.nowMs,
      node,
      role: "replica",
      incarnation: "1",
      epochs,
      unfit: false,
      upstream: null,
      ...over,
    });
  }

  /** The last of the epochs is current on its node, which has reported it. */
  follow(...epochs: EpochRecord[]): readonly Effect[] {
    const current = epochs.at(-1) ?? record(1);
    this.report(current.node, epochs, { role: "primary" });
    return this.send({ kind: "epoch_followed", epoch: current.id as EpochId, node: current.node });
  }

  /** Another tracker has recorded an attempt as broken. */
  receivePeerVerdict(id: number, epoch: number, over: Partial<Published> = {}): readonly Effect[] {
    const peerVerdict: Published = {
      ...{ id: txnId(id), attempt: epochId(epoch), kind: "write", origin: null, owner: 0n },
      ...{ verdicts: {}, rule: "R7 broken", settledAt: "disk", retriedIn: null, metadata: null },
      ...over,
    };
    return this.send({ kind: "peer_verdicts_received", peerVerdicts: [peerVerdict] });
  }

  /** The current primary's positions; replicas as `[session, flushed]`. */
  positions(
    flushed: number | null,
    replicas: Record<string, readonly [string, number]> = {},
    over: { epoch?: EpochId; node?: string; askedAtMs?: number; synchronous?: SynchronousReport } = {},
  ): readonly Effect[] {
    const { standing } = this.state.topology;
    const { shown = [], candidates } = over.synchronous ?? {};
    return this.send({
      kind: "positions_reported",
      askedAtMs: over.askedAtMs ?? this.nowMs,
      node: over.node ?? (standing.kind === "following" ? standing.node : "a"),
      epoch: over.epoch ?? (standing.kind === "following" ? standing.epoch : epochId(1)),
      flushed: flushed === null ? null : off(flushed),
      replicas: Object.entries(replicas).map(([node, [session, at]]) => ({
        node,
        session,
        flushed: off(at),
        synchronous: shown.includes(node),
      })),
      ...(candidates === undefined ? {} : { candidates }),
    });
  }

  /** Makes streams known as those of the current epoch: shown, found with the epoch's row, and shown again. */
  confirm(
    flushed: number,
    replicas: Record<string, readonly [string, number]>,
    over: Parameters<Driven["report"]>[2] = {},
  ): readonly Effect[] {
    this.positions(flushed, replicas);
    for (const node of Object.keys(replicas)) this.report(node, this.state.topology.ancestry, over);
    return this.positions(flushed, replicas);
  }

  announce(...items: AnnouncedItem[]): readonly Effect[] {
    return this.send({ kind: "announced", items });
  }

  intent(n: number, epoch: number): readonly Effect[] {
    return this.announce({ kind: "intent", id: txnId(n), epoch: epochId(epoch) });
  }

  position(n: number, epoch: number, offset: number): readonly Effect[] {
    return this.announce({ kind: "position", id: txnId(n), epoch: epochId(epoch), offset: off(offset) });
  }

  present(
    n: number,
    epoch: number,
    offset: number,
    kind: TokenKind = "write",
    says: { readonly owner?: bigint; readonly parent?: EpochId; readonly mayEnter?: boolean } = {},
  ): readonly Effect[] {
    const position = { epoch: epochId(epoch), offset: off(offset) };
    const attempt = epochId(epoch);
    return this.send({
      kind: "token_presented",
      id: txnId(n),
      owner: 0n,
      attempt,
      tokenKind: kind,
      position,
      ...says,
    });
  }

  /** Answers the oldest open look-up; ids that are not named are found settled by a tombstone of the kind asked for. */
  answer(asOf: number, facts: Record<number, ReceiptFact> = {}): readonly Effect[] {
    const [read] = this.reads.splice(0, 1);
    if (read === undefined) throw new Error("no look-up is open");
    const answers = new Map(Object.entries(facts).map(([n, fact]) => [txnId(Number(n)), fact]));
    return this.send({
      kind: "receipts_read",
      request: read.request,
      epoch: read.epoch,
      asOf: off(asOf),
      receipts: new Map(
        read.of.map((of) => [
          ownedName(of),
          answers.get(of.id) ?? { kind: read.tombstone, epoch: read.epoch },
        ]),
      ),
    });
  }

  judge(
    n: number,
    epoch: number,
    offset: number,
    level: string,
    kind: TokenKind = "write",
    owner = 0n,
  ): Judgement {
    const position = { epoch: epochId(epoch), offset: off(offset) };
    return judge(this.state, { id: txnId(n), owner, attempt: epochId(epoch), kind, position }, level);
  }

  verdict(
    n: number,
    epoch: number,
    offset: number,
    level: string,
    kind: TokenKind = "write",
    owner = 0n,
  ): string {
    return this.judge(n, epoch, offset, level, kind, owner).verdict;
  }

  stateOf(n: number, epoch: number, owner = 0n): string | undefined {
    const of = { id: txnId(n), owner };
    const { backlog, entries } = this.state.ledger;
    if (backlog.epoch === epochId(epoch) && backlog.has(of)) return "pending";
    return entries.get(entryKey(of, epochId(epoch)))?.state.kind;
  }
}

export const count = (effects: readonly Effect[], kind: Effect["kind"]): number =>
  effects.filter((effect) => effect.kind === kind).length;
