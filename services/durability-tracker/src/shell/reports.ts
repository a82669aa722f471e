// What the tracker reports to the parts that publish, stream, count and write it down.
import { type BrokenPromiseData, type StallEvent, type UnlistedData } from "@highwater/protocol";
import { type PositionsReport } from "@highwater/store";
import { type BecameDurable, type Published, type TrackerState } from "../core/index.ts";

/** The reports of the tracker. A subscriber implements those that it needs. */
export interface Reports {
  onMarks(state: TrackerState): void;
  onEpochs(state: TrackerState): void;
  /** A transaction is lost or broken. */
  onVerdict(published: Published): void;
  /** Another tracker has published as broken what this one has found in the current history. */
  onPeerVerdictRefused(published: Published): void;
  /** Transactions have become durable. Reported only while `wantDurable` asks for it. */
  onDurable(level: string, items: readonly BecameDurable[]): void;
  onDelayed(published: Published): void;
  /**
   * `count` transactions have become durable at the level. `lagsMs` has the times of some of them,
   * as a sample.
   */
  onLag(level: string, count: number, lagsMs: readonly number[]): void;
  /** The current primary's report. */
  onPositions(nowMs: number, report: PositionsReport, state: TrackerState): void;
  onStall(stall: StallEvent, isStalled: boolean, state: TrackerState): void;
  onBrokenPromise(promise: BrokenPromiseData): void;
  onUnlisted(unlisted: UnlistedData, owner: bigint): void;
  /** A primary's disk held less than before within an epoch. */
  onPrimaryWentBack(): void;
  /** The tracker has ceased to see the primary, or sees it again. */
  onBlind(isBlind: boolean, state: TrackerState): void;
}

export type Subscriber = Partial<Reports>;
