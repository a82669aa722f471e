// Counts what is at risk now: announced, committed and not yet durable at the exposure level, by
// owner and by gateway. Counts as transactions change state, so that a report costs nothing per
// transaction.
import {
  type EpochId,
  type ExposureReport,
  formatAmount,
  type Offset,
  parseAtRisk,
  type ValueAtRisk,
  valueOf,
} from "@highwater/protocol";
import {
  type Counted,
  type ExposureTotals,
  type OwnerAccount,
  type Source,
  type UnitSums,
} from "./accounts.ts";
import { levelBit } from "./levels.ts";
import { markIn } from "./marks.ts";
import { currentEpoch } from "./topology.ts";
import { type LedgerEntry, type Own, type TrackerState } from "./types.ts";

/** What is at risk at the exposure level. Shape: ExposureReport of the protocol. */
export interface Exposure {
  readonly epoch: EpochId | null;
  readonly level: string;
  readonly transactions: number;
  /**
   * Bytes of log between the level's mark and the newest of them; 0 if offsets do not count bytes.
   */
  readonly bytes: Offset;
  readonly oldestMs: number | null;
  readonly byRegion: Readonly<Record<string, number>>;
  readonly byGateway: Readonly<Record<string, number>>;
  /** Only the owners with the most transactions. */
  readonly byOwner: Readonly<Record<string, number>>;
  /** Sums of `atRisk`, by unit; absent where there are none. */
  readonly values?: NonNullable<ExposureReport["values"]>;
}

type OwnedEntry = Pick<Own<LedgerEntry>, "owner" | "source" | "isExposed">;

const own = ({ exposure }: TrackerState): Own<ExposureTotals> => exposure as Own<ExposureTotals>;

/** A gateway that has been silent for this long, and has nothing at risk, counts as stopped. */
const SOURCE_KEPT_MS = 600_000;
const MAX_OWNERS_REPORTED = 1_000;

export function ownerAccount(state: TrackerState, owner: bigint): OwnerAccount {
  const { owners } = own(state);
  let account = owners.get(owner);
  if (account === undefined) owners.set(owner, (account = { owner, count: 0 }));
  return account;
}

/** Returns the gateway's account, with its last report. */
export function sourceOf(state: TrackerState, gateway: string, region: string): Source {
  const { sources } = own(state);
  let source: Own<Source> | undefined = sources.get(gateway);
  if (source === undefined) {
    source = { gateway, region, count: 0, announcedAtMs: state.nowMs };
    sources.set(gateway, source);
  }
  source.announcedAtMs = state.nowMs;
  return source;
}

/** Counts one transaction more, or one less, at risk. */
export function expose(state: TrackerState, by: 1 | -1, { owner, source, atRisk }: Counted): void {
  exposeFor(state, by, owner, source, atRisk);
}

export function exposeFor(
  state: TrackerState,
  by: 1 | -1,
  owner: Own<OwnerAccount>,
  source: Own<Source> | null,
  atRisk: string | null,
): void {
  own(state).total += by;
  owner.count += by;
  if (source !== null) source.count += by;
  const value = atRisk === null ? undefined : parseAtRisk(atRisk);
  if (value !== undefined) exposeValue(state, by, { owner, source, value });
}

interface CountedValue {
  readonly owner: OwnerAccount;
  readonly source: Source | null;
  readonly value: ValueAtRisk;
}

function exposeValue(state: TrackerState, by: 1 | -1, { owner, source, value }: CountedValue): void {
  const { unit, amount } = valueOf(value);
  const values = own(state).values as Map<string, Own<UnitSums>>;
  let sums = values.get(unit);
  if (sums === undefined) values.set(unit, (sums = { amount: 0n, byGateway: new Map(), byOwner: new Map() }));
  const change = BigInt(by) * amount;
  sums.amount += change;
  addTo(sums.byOwner, owner.owner, change);
  if (source !== null) addTo(sums.byGateway, source.gateway, change);
  if (sums.amount === 0n) values.delete(unit);
}

function addTo<K>(sums: Map<K, bigint>, key: K, change: bigint): void {
  const sum = (sums.get(key) ?? 0n) + change;
  if (sum === 0n) sums.delete(key);
  else sums.set(key, sum);
}

/** Updates the counts after a change of an entry. */
export function countEntry(state: TrackerState, entry: LedgerEntry): void {
  const isExposed = isAtRisk(state, entry);
  if (isExposed === entry.isExposed) return;
  const own: OwnedEntry = entry;
  own.isExposed = isExposed;
  if (isExposed) enlist(state, entry);
  expose(state, isExposed ? 1 : -1, entry);
}

/** Sets the gateway that has announced the entry. */
export function attribute(entry: OwnedEntry, source: Source | null): void {
  entry.source = source;
}

function isAtRisk(state: TrackerState, entry: LedgerEntry): boolean {
  if (!entry.announced || entry.kind === "read" || state.ledger.entries.get(entry.key) !== entry)
    return false;
  if ((entry.reached & levelBit(state, state.config.exposureLevel)) !== 0) return false;
  switch (entry.state.kind) {
    case "pending":
    case "unproven":
    case "asked":
    case "absent":
      return true;
    case "intent":
    case "lost":
    case "expired":
    case "unknown":
      return false;
  }
}

/** Counts everything anew after a change of the levels. */
export function countAnew(state: TrackerState): void {
  const totals = own(state);
  totals.total = 0;
  totals.values.clear();
  const accounts: Own<OwnerAccount | Source>[] = [...totals.owners.values(), ...totals.sources.values()];
  for (const account of accounts) account.count = 0;
  state.ledger.backlog.replaceAccounts(
    ({ owner }) => ownerAccount(state, owner),
    (source) => listed(state, source),
  );
  for (const item of state.ledger.backlog)
    if (!state.ledger.backlog.hasReached(item, state.config.exposureLevel)) expose(state, 1, item);
  for (const entry of state.ledger.entries.values()) {
    const own: OwnedEntry = entry;
    own.isExposed = false;
    countEntry(state, entry);
  }
}

/** Registers the accounts of an entry again. An entry that is not at risk may outlive them. */
function enlist(state: TrackerState, entry: OwnedEntry): void {
  entry.owner = ownerAccount(state, entry.owner.owner);
  if (entry.source !== null) entry.source = listed(state, entry.source);
}

/** Returns the gateway's account, or this one if there is none any more. */
export function listed(state: TrackerState, source: Source): Source {
  const { sources } = own(state);
  const known = sources.get(source.gateway);
  if (known === undefined) sources.set(source.gateway, source);
  return known ?? source;
}

/** Removes owners and gateways without any entry. */
export function dropIdleSources(state: TrackerState): void {
  const { owners, sources } = own(state);
  // An entry that is not at risk may still hold an account that is removed; see enlist().
  for (const [owner, { count }] of owners) if (count === 0) owners.delete(owner);
  for (const [gateway, { count, announcedAtMs }] of sources)
    if (count === 0 && state.nowMs - announcedAtMs > SOURCE_KEPT_MS) sources.delete(gateway);
}

export function exposure(state: TrackerState): Exposure {
  const level = state.config.exposureLevel;
  const current = currentEpoch(state);
  const { total, owners, sources } = state.exposure;
  const byRegion: Record<string, number> = {};
  for (const { region, count } of sources.values()) byRegion[region] = (byRegion[region] ?? 0) + count;
  const most = [...owners.values()].filter(({ count }) => count > 0).sort((a, b) => b.count - a.count);
  return {
    epoch: current,
    level,
    transactions: total,
    bytes: bytesAtRisk(state, current, level),
    oldestMs: oldestAtRisk(state, level),
    byRegion,
    byGateway: Object.fromEntries([...sources.values()].map(({ gateway, count }) => [gateway, count])),
    byOwner: Object.fromEntries(
      most.slice(0, MAX_OWNERS_REPORTED).map(({ owner, count }) => [owner.toString(), count]),
    ),
    ...(state.exposure.values.size > 0 && { values: valuesAtRisk(state) }),
  };
}

function valuesAtRisk({ exposure: { values } }: TrackerState): NonNullable<Exposure["values"]> {
  const report = [...values].map(([unit, { amount, byGateway, byOwner }]) => {
    const most = [...byOwner]
      .sort(([, a], [, b]) => (a < b ? 1 : a > b ? -1 : 0))
      .slice(0, MAX_OWNERS_REPORTED);
    const sums = {
      amount: formatAmount(amount),
      byGateway: Object.fromEntries([...byGateway].map(([gateway, sum]) => [gateway, formatAmount(sum)])),
      byOwner: Object.fromEntries(most.map(([owner, sum]) => [owner.toString(), formatAmount(sum)])),
    };
    return [unit, sums] as const;
  });
  return Object.fromEntries(report);
}

function bytesAtRisk(state: TrackerState, epoch: EpochId | null, level: string): Offset {
  if (epoch === null || state.exposure.total === 0 || !state.config.countsBytes) return 0n as Offset;
  const mark = markIn(state, epoch, level) ?? BigInt(state.topology.epochs.get(epoch)?.startOffset ?? "0");
  return (state.ledger.highestPending > mark ? state.ledger.highestPending - mark : 0n) as Offset;
}

function oldestAtRisk(state: TrackerState, level: string): number | null {
  if (state.exposure.total === 0) return null;
  const oldest: number[] = [];
  const first = state.ledger.backlog.firstAt(level);
  if (first !== undefined) oldest.push(first.atMs);
  const inDoubt = [
    state.proofs.unproven,
    state.proofs.held.keys(),
    state.ledger.absent,
    state.ledger.unplaced,
  ].flatMap((keys) => {
    for (const key of keys) return [state.ledger.entries.get(key)];
    return [];
  });
  const asked = state.proofs.asked.values().next().value?.keys[0];
  const others = [
    ...inDoubt,
    state.ledger.waiting.get(level)?.peek()?.value,
    state.ledger.entries.get(asked ?? ""),
  ];
  for (const entry of others) if (entry?.isExposed === true) oldest.push(entry.atMs);
  return oldest.length === 0 ? 0 : Math.max(0, Math.round(state.nowMs - Math.min(...oldest)));
}
