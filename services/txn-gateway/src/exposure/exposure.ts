// Who may commit before what was committed is durable: counts every transaction from its admission,
// slows fast ones down as a limit comes near, and refuses them at it. The account is in account.ts,
// what others have in others.ts.
import {
  type EpochId,
  type EpochRecord,
  type ExposureReport,
  HighwaterError,
  type Offset,
  type ValueAtRisk,
  formatAmount,
  parseAmount,
  parseOffset,
  roughAmount,
  type Value,
  valueOf,
} from "@highwater/protocol";
import { type Clock, sleep } from "@highwater/runtime";
import { type HistogramSeries, type Log } from "@highwater/service";
import { type Metrics } from "../metrics.ts";
import { RETRY_MS } from "../retry.ts";
import { type Ack } from "../txn/request.ts";
import { Account, type Exposed } from "./account.ts";
import { DrainRate } from "./drain-rate.ts";
import { Others, type OthersOptions } from "./others.ts";
import { type ExposureLimit, type ExposureSettings } from "./settings.ts";
import { type ExposedTrace, Tally } from "./tally.ts";

export type { Exposed } from "./account.ts";

export interface ExposureContext {
  readonly clock: Clock;
  readonly log: Pick<Log, "warn">;
  readonly metrics: Pick<Metrics, "exposureDelays" | "exposureRefusals" | "durabilityLag">;
  /**
   * Ids that no tracker has acknowledged, and how many there may be; they have a bound of their
   * own.
   */
  readonly announcements: { readonly pending: () => number; readonly max: number };
}

export interface ExposureOptions extends Pick<OthersOptions, "gateway" | "region" | "isConnected"> {
  readonly settings: ExposureSettings;
  /** Without trackers there are no marks: durability is not known, and nothing is counted. */
  readonly hasTrackers: boolean;
}

export interface Admitted {
  /** Null: it is not counted. */
  readonly exposed: Exposed | null;
  /** What it has to wait before it may begin. */
  readonly slow: Promise<void> | null;
}

/** How near a limit is. */
interface Use {
  readonly limit: Pick<ExposureLimit, "name" | "scope" | "value">;
  readonly used: number;
  /**
   * At it new ones are refused. Lower than the limit's value where this gateway has to keep to its
   * share.
   */
  readonly bound: number;
  readonly tally: Tally;
}

export interface LimitSample {
  readonly name: string;
  /** As it is configured. */
  readonly value: number;
  readonly used: number;
  readonly bound: number;
}

/** From here on fast transactions are slowed, more the nearer the bound is. */
const SLOW_FROM = 0.8;
const SLOW_MS_MAX = 100;
/**
 * Safe transactions wait for their marks anyway, and so cannot pile up as fast; their bound is this
 * many times the other.
 */
const SAFE_FACTOR = 2;
const ANNOUNCEMENTS = "maxPendingAnnouncements";
const RETRY_MS_MIN = 100;
/** A level that stands still may go on at any moment, and then no client should wait for long. */
const RETRY_MS_MAX = 5_000;
/** So much of the limit should be free again before it is worth coming back. */
const ROOM = 0.1;
/** Of a transaction that can lose nothing, or whose durability would not be known. */
export const UNCOUNTED: Admitted = { exposed: null, slow: null };

export class Exposure {
  readonly #parts: ExposureContext;
  readonly #options: ExposureOptions;
  readonly #account = new Account();
  readonly #others: Others;
  readonly #drain = new DrainRate();
  readonly #announcements: Use["limit"];
  readonly #lag: HistogramSeries;
  #isOtherLevel = false;

  constructor(parts: ExposureContext, options: ExposureOptions) {
    this.#parts = parts;
    this.#options = options;
    this.#lag = parts.metrics.durabilityLag.at(options.settings.level);
    const { level, gateways } = options.settings;
    this.#others = new Others({ ...options, level, gatewaysMin: gateways });
    this.#announcements = { name: ANNOUNCEMENTS, scope: "all", value: parts.announcements.max };
    // At 0 from the start: a series that begins with its first refusals hides them from every rate.
    for (const { name } of [...options.settings.limits, this.#announcements])
      parts.metrics.exposureRefusals.addMany(0, name);
  }

  get level(): string {
    return this.#options.settings.level;
  }

  get pending(): number {
    return this.#account.total.pending;
  }

  get reserved(): number {
    return this.#account.total.reserved;
  }

  get bytes(): bigint {
    return this.#account.bytesOf(this.#account.total);
  }

  get oldestMs(): number | null {
    return this.#ageOf(this.#account.total, this.#parts.clock.monotonicMs());
  }

  /**
   * Counts a write transaction that is about to run; `commit` or `release` must follow.
   * Errors: `exposure_limit`, and it is not counted. A safe one waits for its mark and is not
   * slowed down, and has no value at risk: its client relies on nothing before.
   */
  admit(owner: bigint, ack: Ack, atRisk?: ValueAtRisk): Admitted {
    const value = this.#valueOf(ack, atRisk);
    if (!this.#options.hasTrackers) return UNCOUNTED;
    const delayMs = this.#delayMs(owner, ack, value);
    if (delayMs > 0) this.#parts.metrics.exposureDelays.add();
    const exposed = this.#account.reserve(owner, value);
    return { exposed, slow: delayMs > 0 ? sleep(this.#parts.clock, delayMs) : null };
  }

  /** Admits one that was slowed down before, when it began. Errors: as `admit`. */
  admitBegun(owner: bigint, ack: Ack, atRisk?: ValueAtRisk): Exposed | null {
    const value = this.#valueOf(ack, atRisk);
    if (!this.#options.hasTrackers) return null;
    this.#checkLimits(owner, ack, value);
    return this.#account.reserve(owner, value);
  }

  /** Errors: `invalid_request` for a unit that no limit names. */
  #valueOf(ack: Ack, atRisk: ValueAtRisk | undefined): Value | null {
    if (atRisk === undefined) return null;
    const { units } = this.#options.settings;
    if (!units.includes(atRisk.unit))
      throw invalidValue(
        units.length === 0
          ? "no unit is configured (GATEWAY_EXPOSURE_VALUE)"
          : `the unit ${atRisk.unit} is not configured; use one of ${units.join(", ")}`,
      );
    return ack === "durable" ? null : valueOf(atRisk);
  }

  /**
   * Checks whether such a transaction could be admitted, and counts nothing. Returns for how many
   * milliseconds it would be slowed down. Errors: as `admit`.
   */
  check(owner: bigint, ack: Ack, atRisk?: ValueAtRisk): number {
    const value = this.#valueOf(ack, atRisk);
    return this.#options.hasTrackers ? this.#delayMs(owner, ack, value) : 0;
  }

  #delayMs(owner: bigint, ack: Ack, value: Value | null): number {
    const nearness = this.#checkLimits(owner, ack, value);
    if (ack !== "commit" || nearness <= SLOW_FROM) return 0;
    return (SLOW_MS_MAX * (nearness - SLOW_FROM)) / (1 - SLOW_FROM);
  }

  /** Begins a wait of a fast transaction near the limit, which is counted. Answers what ends it. */
  slow(delayMs: number, callback: () => void): () => void {
    this.#parts.metrics.exposureDelays.add();
    return this.#parts.clock.after(delayMs, callback);
  }

  commit(exposed: Exposed, epoch: EpochId, offset: Offset): void {
    const isDurable = this.#account.commit(exposed, {
      epoch,
      offset,
      nowMs: this.#parts.clock.monotonicMs(),
    });
    // The mark was faster than the answer to the commit.
    if (!isDurable) return;
    this.#lag.observe(0);
    exposed.trace?.settled("durable", this.level);
  }

  /** It has not committed. Of one that has, or whose commit is being looked up: nothing. */
  release(exposed: Exposed): void {
    this.#account.release(exposed);
  }

  /** The level's mark has risen. */
  advance(epoch: string, mark: Offset): void {
    const nowMs = this.#parts.clock.monotonicMs();
    const settled = this.#account.advance(epoch, mark, (exposed) => {
      this.#lag.observe((nowMs - exposed.atMs) / 1_000);
      exposed.trace?.settled("durable", this.level);
    });
    if (settled > 0) this.#drain.note(settled, nowMs);
  }

  /** This gateway runs transactions in the epoch from now on. */
  begin(record: EpochRecord, mark: Offset | undefined): void {
    const startOffset = parseOffset(record.startOffset);
    if (startOffset === undefined) throw new Error("an epoch record has no position");
    this.#account.begin({ epoch: record.id as EpochId, startOffset, mark });
  }

  /** Whose epoch has ended before its mark had passed them, and who are traced. */
  get carriedTraces(): ExposedTrace[] {
    return this.#account.carried.flatMap(({ trace }) => (trace === null ? [] : [trace]));
  }

  /**
   * What a tracker counts. At another level than this gateway's it says nothing here, and somebody
   * should know.
   */
  observe(report: ExposureReport): void {
    const isOtherLevel = !this.#others.observe(report, this.#account, this.#parts.clock.monotonicMs());
    if (isOtherLevel && !this.#isOtherLevel)
      this.#parts.log.warn("exposure_level_differs", { own: this.level, trackers: report.level });
    this.#isOtherLevel = isOtherLevel;
  }

  /** Each limit that is on; of the keys' limits, the owner who is nearest. */
  samples(): LimitSample[] {
    const nowMs = this.#parts.clock.monotonicMs();
    const isFresh = this.#others.isFresh(this.#account, nowMs);
    return this.#options.settings.limits.map((limit) => {
      const { name, scope, value } = limit;
      const tallies = scope === "key" ? [...this.#account.owners.values()] : [this.#account.total];
      let nearest = { name, value, used: 0, bound: this.#boundOf(limit, isFresh) };
      for (const tally of tallies) {
        const used = this.#usedOf(limit, tally, { nowMs, isFresh });
        if (used > nearest.used) nearest = { ...nearest, used };
      }
      return nearest;
    });
  }

  /** Everything at which transactions are refused with `exposure_limit`. */
  allSamples(): LimitSample[] {
    if (!this.#options.hasTrackers) return [];
    const { name, value } = this.#announcements;
    const pending = this.#parts.announcements.pending();
    return [...this.samples(), { name, value, used: pending, bound: value }];
  }

  /** Returns how near the nearest bound is, from 0 to 1. Errors: `exposure_limit` at a bound. */
  #checkLimits(owner: bigint, ack: Ack, atRisk: Value | null): number {
    const nowMs = this.#parts.clock.monotonicMs();
    const factor = ack === "commit" ? 1 : SAFE_FACTOR;
    const total = this.#account.total;
    const pending = this.#parts.announcements.pending();
    const { value } = this.#announcements;
    let nearness = pending / value;
    if (nearness >= factor)
      this.#refuse({ limit: this.#announcements, used: pending, bound: value, tally: total }, nowMs);
    const { limits } = this.#options.settings;
    const isFresh = this.#others.isFresh(this.#account, nowMs);
    for (const limit of limits) {
      // The age of the oldest says nothing against one that its client does not rely on before it
      // is durable.
      if (ack === "durable" && limit.measure === "ageMs") continue;
      if (limit.exact !== undefined && limit.exact.unit !== atRisk?.unit) continue;
      const tally = limit.scope === "key" ? (this.#account.owners.get(owner) ?? new Tally(owner)) : total;
      if (limit.exact !== undefined && atRisk !== null)
        this.#checkValue({ limit, exact: limit.exact, tally, value: atRisk }, nowMs, isFresh);
      const bound = this.#boundOf(limit, isFresh);
      const used = this.#usedOf(limit, tally, { nowMs, isFresh });
      if (used >= factor * bound) this.#refuse({ limit, used: Math.round(used), bound, tally }, nowMs);
      nearness = Math.max(nearness, used / bound);
    }
    return nearness;
  }

  /** A value must fit into what is left of its limit. */
  #checkValue(
    of: {
      readonly limit: ExposureLimit;
      readonly exact: ValueAtRisk;
      readonly tally: Tally;
      readonly value: Value;
    },
    nowMs: number,
    isFresh: boolean,
  ): void {
    const { limit, exact, tally, value } = of;
    const most = parseAmount(exact.amount);
    if (value.amount > most)
      throw invalidValue(
        `${formatAmount(value.amount)} ${value.unit} is more than the limit ${limit.name} of ${exact.amount} in all; ask for ack: durable`,
      );
    const used = this.#exactUsed(limit.scope, exact.unit, tally, isFresh);
    const bound = isFresh ? most : most / BigInt(this.#others.gateways);
    if (used + value.amount <= bound) return;
    this.#refuse({ limit, used: roughAmount(used), bound: roughAmount(bound), tally }, nowMs);
  }

  #exactUsed(scope: ExposureLimit["scope"], unit: string, tally: Tally, isFresh: boolean): bigint {
    const { reserved, pending } = tally.sumsOf(unit);
    return reserved + pending + (isFresh ? this.#others.value(scope, tally.owner, unit) : 0n);
  }

  /**
   * While no tracker reports what the others have, each gateway keeps to its share of what all of
   * them may have.
   */
  #boundOf({ measure, value }: ExposureLimit, isFresh: boolean): number {
    if (isFresh) return value;
    if (measure === "value") return value / this.#others.gateways;
    if (measure !== "transactions") return value;
    return Math.max(1, Math.floor(value / this.#others.gateways));
  }

  #usedOf(
    { scope, measure, exact }: ExposureLimit,
    tally: Tally,
    { nowMs, isFresh }: { readonly nowMs: number; readonly isFresh: boolean },
  ): number {
    const isCounted = isFresh && scope === "all";
    switch (measure) {
      case "value":
        return exact === undefined ? 0 : roughAmount(this.#exactUsed(scope, exact.unit, tally, isFresh));
      case "transactions":
        return tally.count + (isFresh ? this.#others.transactions(scope, tally.owner) : 0);
      case "bytes": {
        const own = Number(this.#account.bytesOf(tally));
        return isCounted ? Math.max(own, this.#others.bytes(this.#account.epoch)) : own;
      }
      case "ageMs": {
        const own = this.#ageOf(tally, nowMs) ?? 0;
        return isCounted ? Math.max(own, this.#others.oldestMs()) : own;
      }
    }
  }

  #ageOf(tally: Tally, nowMs: number): number | null {
    return tally.oldestAtMs === null ? null : nowMs - tally.oldestAtMs;
  }

  #refuse(use: Use, nowMs: number): never {
    const { limit, tally } = use;
    this.#parts.metrics.exposureRefusals.add(limit.name);
    const isOfAnnouncements = limit === this.#announcements;
    const isFresh = this.#others.isFresh(this.#account, nowMs);
    const elsewhere = isFresh ? this.#others.transactions(limit.scope, tally.owner) : 0;
    const oldestMs = this.#ageOf(tally, nowMs);
    throw new HighwaterError("exposure_limit", {
      detail: isOfAnnouncements
        ? "No tracker acknowledges announcements, and as many wait as the limit allows; retry later."
        : this.#whyFull(use),
      limit: { name: limit.name, value: limit.value },
      exposure: {
        transactions: tally.pending + elsewhere,
        bytes: String(this.#account.bytesOf(tally)),
        oldestMs: oldestMs === null ? null : Math.round(oldestMs),
      },
      retryAfterMs: isOfAnnouncements ? RETRY_MS.room : this.#retryAfterMs(use, nowMs),
    });
  }

  #whyFull({ limit, used, bound }: Use): string {
    const share =
      bound < limit.value
        ? `; this gateway's share is ${String(bound)} while no tracker reports the other gateways`
        : "";
    const is = `${limit.name} is ${String(used)}, the limit ${String(limit.value)}`;
    return `Too much is committed but not yet durable at level ${this.level}: ${is}${share}.`;
  }

  /**
   * By the observed rate: a mark takes everything below it along, so what is too much of one drains
   * with all the others.
   */
  #retryAfterMs({ used, bound }: Use, nowMs: number): number {
    const { pending } = this.#account.total;
    // Others have it all.
    if (pending === 0) return RETRY_MS.room;
    const excess = Math.max(ROOM, 1 - ((1 - ROOM) * bound) / used);
    const waitMs = (excess * pending) / this.#drain.perMs(nowMs);
    return Math.min(RETRY_MS_MAX, Math.max(RETRY_MS_MIN, Math.ceil(waitMs)));
  }
}

function invalidValue(why: string): HighwaterError {
  const fields = [`/atRisk: ${why}`];
  return new HighwaterError("invalid_request", { detail: fields.join("; "), fields });
}
