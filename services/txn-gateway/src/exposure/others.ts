// The exposure beyond this gateway's own account, by a tracker's report: on other gateways, and by
// an earlier life of this one. Silence is not taken for news: a report that is not confirmed any
// more does not count, and each gateway keeps to its share instead.
import { type ExposureReport, OwnerText, parseAmount, validate } from "@highwater/protocol";
import { type Account } from "./account.ts";
import { type Scope } from "./settings.ts";

export interface OthersOptions {
  readonly level: string;
  /** This gateway's name, and its region. */
  readonly gateway: string;
  readonly region: string;
  /** There are at least so many gateways, whatever was reported. */
  readonly gatewaysMin: number;
  /** The stream of a tracker is open. */
  readonly isConnected: () => boolean;
}

/** Trackers report four times a second what is pending; this long without a report is silence. */
const SILENCE_MS = 1_000;

interface LatestReport {
  readonly atMs: number;
  readonly all: number;
  readonly region: number;
  /** By owner, of those that the tracker names. */
  readonly owners: ReadonlyMap<bigint, number>;
  readonly epoch: string;
  readonly bytes: number;
  readonly oldestMs: number | null;
  /** By unit, what is beyond this account: of all, and by owner. */
  readonly values: ReadonlyMap<
    string,
    { readonly all: bigint; readonly owners: ReadonlyMap<bigint, bigint> }
  >;
}

const NO_VALUES: LatestReport["values"] = new Map();

export class Others {
  readonly #options: OthersOptions;
  #latest: LatestReport | null = null;
  #gateways = 1;

  constructor(options: OthersOptions) {
    this.#options = options;
  }

  /** Gateways that share the limits while no tracker reports what the others have. */
  get gateways(): number {
    return Math.max(this.#options.gatewaysMin, this.#gateways);
  }

  /**
   * Takes a report in. The stream brings marks first, so the account is up to date: what the report
   * has of this gateway beyond the account, an earlier life has left. The account may be ahead by
   * announcements that have not reached the tracker yet. False: the report is of another level, and
   * says nothing here.
   */
  observe(report: ExposureReport, account: Account, nowMs: number): boolean {
    const { level, gateway, region } = this.#options;
    if (report.level !== level) return false;
    this.#gateways = new Set([gateway, ...Object.keys(report.byGateway)]).size;
    const own = report.byGateway[gateway] ?? 0;
    const left = Math.max(0, own - account.total.pending);
    const owners = new Map<bigint, number>();
    for (const [text, count] of Object.entries(report.byOwner)) {
      // The schema does not look at names.
      if (!validate(OwnerText, text).ok) continue;
      const owner = BigInt(text);
      // The report does not say which of its gateways an owner's are on; no more of them are here
      // than the tracker knows of here.
      const beyond = count - Math.min(own, account.owners.get(owner)?.pending ?? 0);
      if (beyond > 0) owners.set(owner, beyond);
    }
    this.#latest = {
      atMs: nowMs,
      all: Math.max(0, report.transactions - own) + left,
      region: Math.max(0, (report.byRegion[region] ?? 0) - own) + left,
      owners,
      epoch: report.epoch,
      bytes: Number(report.bytes),
      oldestMs: report.oldestMs,
      values: report.values === undefined ? NO_VALUES : this.#valuesBeyond(report.values, account),
    };
    return true;
  }

  /** As transactions are counted in `observe`. */
  #valuesBeyond(values: NonNullable<ExposureReport["values"]>, account: Account): LatestReport["values"] {
    const { gateway } = this.#options;
    const most = (one: bigint, other: bigint): bigint => (one > other ? one : other);
    const least = (one: bigint, other: bigint): bigint => (one < other ? one : other);
    const beyond = Object.entries(values).map(([unit, sums]) => {
      const own = parseAmount(sums.byGateway[gateway] ?? "0");
      const counted = least(own, account.total.sumsOf(unit).pending);
      const owners = new Map<bigint, bigint>();
      for (const [text, amount] of Object.entries(sums.byOwner)) {
        if (!validate(OwnerText, text).ok) continue;
        const owner = BigInt(text);
        const here = account.owners.get(owner)?.sumsOf(unit).pending ?? 0n;
        owners.set(owner, most(0n, parseAmount(amount) - least(own, here)));
      }
      return [unit, { all: most(0n, parseAmount(sums.amount) - counted), owners }] as const;
    });
    return new Map(beyond);
  }

  /** In billionths of the unit. */
  value(scope: Scope, owner: bigint | null, unit: string): bigint {
    const of = this.#latest?.values.get(unit);
    if (of === undefined) return 0n;
    return scope === "key" ? (of.owners.get(owner ?? -1n) ?? 0n) : of.all;
  }

  /**
   * The tracker goes on reporting, or has nothing to report: while nothing of this gateway is
   * pending it may be silent.
   */
  isFresh(account: Account, nowMs: number): boolean {
    const latest = this.#latest;
    if (latest === null || !this.#options.isConnected()) return false;
    const { oldestAtMs } = account.total;
    return nowMs - Math.max(latest.atMs, oldestAtMs ?? nowMs) <= SILENCE_MS;
  }

  /** Exposed transactions beyond the own account, as far as they were reported. */
  transactions(scope: Scope, owner: bigint | null): number {
    const latest = this.#latest;
    if (latest === null) return 0;
    if (scope === "key") return owner === null ? 0 : (latest.owners.get(owner) ?? 0);
    return scope === "all" ? latest.all : latest.region;
  }

  /**
   * Of the whole log in the epoch: another gateway may have committed behind the newest of this
   * one.
   */
  bytes(epoch: string | null): number {
    return this.#latest?.epoch === epoch ? this.#latest.bytes : 0;
  }

  oldestMs(): number {
    return this.#latest?.oldestMs ?? 0;
  }
}
