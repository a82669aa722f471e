// The tracker's metrics. A scrape reads the core's state; events are counted as they happen.
import { type EpochId, type EpochRecord, type Offset } from "@highwater/protocol";
import { type HistogramSeries, MetricSet, registerProcess, TRACKER } from "@highwater/service";
import { type PositionsReport } from "@highwater/store";
import {
  asksForCandidates,
  currentEpoch,
  currentRecord,
  exposure,
  heldCount,
  inDoubt,
  levelNames,
  pendingAt,
  type TrackerState,
  waitingLosses,
} from "../core/index.ts";
import { type Contents } from "../contents/contents.ts";
import { type DurabilityEvents } from "../events/durability-events.ts";
import { FlushHistory } from "./flush-history.ts";
import { type GatewayLimits } from "./gateway-limits.ts";
import { type Subscriber } from "./reports.ts";
import { type VerdictLog } from "./verdict-log.ts";

export interface TrackerMetricsContext {
  readonly state: () => TrackerState;
  readonly nowMs: () => number;
  readonly alarms: Pick<VerdictLog, "lost" | "broken" | "delayed" | "stalled">;
  readonly events: Pick<DurabilityEvents, "counts" | "streams">;
  readonly contents: Pick<Contents, "totals">;
  readonly limits: Pick<GatewayLimits, "list">;
  readonly streams: () => number;
  readonly isBlind: () => boolean;
  readonly identity: { readonly name: string; readonly region: string };
  readonly certificate: string | null;
}

export class TrackerMetrics extends MetricSet implements Subscriber {
  readonly refusals = this.counter(TRACKER.refusals);
  readonly contentsNotKept = this.counter(TRACKER.contentsNotKept);
  readonly lockFloods = this.counter(TRACKER.lockFloods);
  /** By node, how much is taken. */
  readonly notificationQueues = new Map<string, number>();
  readonly #primaryWentBack = this.counter(TRACKER.primaryWentBack);
  readonly brokenPromises = this.counter(TRACKER.brokenPromises);
  readonly verdicts = this.counter(TRACKER.verdicts);
  readonly #lag = this.histogram(TRACKER.durabilityLag);
  readonly #epochsBegun = this.counter(TRACKER.epochsBegun);
  readonly #flushed = new FlushHistory();
  #epoch: string | null = null;

  /** `count` transactions have become durable. The times of some of them stand for all. */
  onLag(level: string, count: number, lagsMs: readonly number[]): void {
    const series: HistogramSeries = this.#lag.at(level);
    for (const lagMs of lagsMs) series.observe(lagMs / 1_000, count / lagsMs.length);
  }

  /** The epoch that was current when the tracker was started had begun before. */
  onEpochs(state: TrackerState): void {
    const record = currentRecord(state);
    if (record === undefined || record.id === this.#epoch) return;
    if (this.#epoch !== null) this.#epochsBegun.add(record.cause);
    this.#epoch = record.id;
  }

  onPositions(nowMs: number, { epoch, flushed }: PositionsReport, state: TrackerState): void {
    if (flushed !== null) this.#flushed.note(epoch, { atMs: nowMs, offset: flushed }, slowestOf(state));
  }

  onPrimaryWentBack(): void {
    this.#primaryWentBack.add();
  }

  register(parts: TrackerMetricsContext): void {
    const { identity, certificate } = parts;
    registerProcess(this, { identity: { service: "durability-tracker", ...identity }, certificate });
    for (const level of levelNames(parts.state())) this.brokenPromises.addMany(0, level);
    this.#registerMarks(parts);
    this.#registerExposure(parts);
    this.#registerNodes(parts);
    this.#registerEpochs(parts);
    this.#registerVerdicts(parts);
    const { events, streams, isBlind, contents, limits } = parts;
    this.read(TRACKER.blind, () => (isBlind() ? 1 : 0));
    this.read(TRACKER.streamClients, streams);
    this.read(TRACKER.reportedCommit, () =>
      limits
        .list()
        .gateways.flatMap(({ gateway, region, commitMs }) =>
          commitMs == null ? [] : [{ labels: { gateway, region }, value: commitMs / 1_000 }],
        ),
    );
    this.read(TRACKER.eventStreamClients, () => events.streams);
    this.read(TRACKER.contentsTransactions, () => contents.totals.transactions);
    this.read(TRACKER.contentsBytes, () => contents.totals.bytes);
    this.read(TRACKER.eventsKept, () => events.counts.kept);
    this.read(TRACKER.eventsSetAside, () => events.counts.setAside);
    this.read(TRACKER.eventsRecorded, () => events.counts.recorded);
  }

  #registerMarks({ state, alarms }: TrackerMetricsContext): void {
    const perLevel = (value: (level: string) => number) => () =>
      levelNames(state()).map((level) => ({ labels: { level }, value: value(level) }));
    const marks = (): [string, bigint][] => [
      ...(state().topology.marks.get(currentEpoch(state()) ?? ("" as EpochId)) ?? []),
    ];
    this.read(TRACKER.mark, () =>
      marks().map(([level, offset]) => ({ labels: { level }, value: Number(offset) })),
    );
    this.read(TRACKER.markLag, () => {
      const { primaryFlushed } = state().topology;
      if (primaryFlushed === null || !state().config.countsBytes) return [];
      return marks().map(([level, offset]) => ({
        labels: { level },
        value: bytesBetween(offset, primaryFlushed),
      }));
    });
    this.read(
      TRACKER.pending,
      perLevel((level) => pendingAt(state(), level)),
    );
    this.read(
      TRACKER.levelStalled,
      perLevel((level) => (alarms.stalled.has(level) ? 1 : 0)),
    );
    this.read(TRACKER.synchronousStandbys, () => {
      const { synchronous } = state().topology;
      if (!asksForCandidates(state())) return null;
      return synchronous.kind === "known" ? synchronous.count : 0;
    });
  }

  #registerExposure({ state }: TrackerMetricsContext): void {
    const labels = (): { level: string } => ({ level: state().config.exposureLevel });
    this.read(TRACKER.exposedValue, () =>
      Object.entries(exposure(state()).values ?? {}).map(([unit, { amount }]) => ({
        labels: { unit },
        value: Number(amount),
      })),
    );
    this.read(TRACKER.exposed, () => [{ labels: labels(), value: exposure(state()).transactions }]);
    this.read(TRACKER.exposedByRegion, () =>
      Object.entries(exposure(state()).byRegion).map(([region, value]) => ({ labels: { region }, value })),
    );
    this.read(TRACKER.exposedBytes, () =>
      state().config.countsBytes ? [{ labels: labels(), value: Number(exposure(state()).bytes) }] : [],
    );
    this.read(TRACKER.exposedOldest, () => [
      { labels: labels(), value: (exposure(state()).oldestMs ?? 0) / 1_000 },
    ]);
    this.read(TRACKER.ledgerEntries, () => heldCount(state()));
  }

  #registerNodes({ state, nowMs }: TrackerMetricsContext): void {
    const nodes = () => [...state().topology.nodes.values()];
    this.read(TRACKER.nodeAlive, () =>
      nodes().map(({ site: { id, region, zone }, alive }) => ({
        labels: { node: id, region, zone },
        value: alive ? 1 : 0,
      })),
    );
    this.read(TRACKER.notificationQueue, () =>
      nodes().map(({ site: { id, region } }) => ({
        labels: { node: id, region },
        value: this.notificationQueues.get(id) ?? 0,
      })),
    );
    this.read(TRACKER.nodePrimary, () => {
      const { standing } = state().topology;
      return nodes().map(({ site: { id, region } }) => ({
        labels: { node: id, region },
        value: standing.kind === "following" && standing.node === id ? 1 : 0,
      }));
    });
    const positioned = (value: (position: Offset) => number) => () =>
      nodes().flatMap(({ site: { id, region }, position }) =>
        position === null ? [] : [{ labels: { node: id, region }, value: value(position) }],
      );
    this.read(TRACKER.nodePosition, positioned(Number));
    const lagBytes = positioned((position) =>
      bytesBetween(position, state().topology.primaryFlushed ?? position),
    );
    this.read(TRACKER.replicationLagBytes, () => (state().config.countsBytes ? lagBytes() : []));
    this.read(
      TRACKER.replicationLag,
      positioned(
        (position) =>
          this.#flushed.lagMs(currentEpoch(state()) ?? ("" as EpochId), position, nowMs()) / 1_000,
      ),
    );
  }

  #registerEpochs({ state, nowMs }: TrackerMetricsContext): void {
    const current = (): EpochRecord | undefined => currentRecord(state());
    this.read(TRACKER.epoch, () => current()?.seq ?? 0);
    this.read(TRACKER.epochInfo, () => {
      const record = current();
      if (record === undefined) return [];
      return [{ labels: { epoch: record.id, node: record.node, cause: record.cause }, value: 1 }];
    });
    this.read(TRACKER.epochAge, () =>
      current() === undefined ? null : Math.max(0, nowMs() - state().topology.epochSinceMs) / 1_000,
    );
    this.read(TRACKER.authoritySettled, () => (state().topology.standing.kind === "following" ? 1 : 0));
    this.read(TRACKER.splitBrain, () => {
      const { standing } = state().topology;
      return standing.kind === "unsettled" && standing.split ? 1 : 0;
    });
  }

  #registerVerdicts({ state, alarms }: TrackerMetricsContext): void {
    this.read(TRACKER.lost, () => alarms.lost);
    this.read(TRACKER.broken, () => alarms.broken);
    this.read(TRACKER.delayed, () => alarms.delayed);
    this.read(TRACKER.inDoubt, () =>
      Object.entries(inDoubt(state())).map(([name, value]) => ({ labels: { state: name }, value })),
    );
    const labels = (): { level: string } => ({ level: state().config.exposureLevel });
    this.read(TRACKER.waitingLosses, () => [{ labels: labels(), value: waitingLosses(state()).count }]);
    this.read(TRACKER.waitingLossesOldest, () => [
      { labels: labels(), value: waitingLosses(state()).oldestMs / 1_000 },
    ]);
  }
}

function bytesBetween(lower: bigint, upper: bigint): number {
  return upper > lower ? Number(upper - lower) : 0;
}

/** Of the nodes whose position is known; null when there is none. */
function slowestOf(state: TrackerState): Offset | null {
  let slowest: Offset | null = null;
  for (const { position } of state.topology.nodes.values())
    if (position !== null && (slowest === null || position < slowest)) slowest = position;
  return slowest;
}
