// Which keys a view shows, and what it says of a key's and a gateway's limits. Pure.
import type { DescribedKey, ExposureLimits, ReportedLimit } from "@highwater/protocol";
import { formatBytes, formatCount, formatMs } from "./format.ts";

export const KEY_STATES = [
  "active",
  "expired",
  "revoked",
] as const satisfies readonly DescribedKey["state"][];

const SOON_MS = 7 * 86_400_000;
const DAY_MS = 86_400_000;

export interface KeyFilter {
  /** Empty: every state. */
  readonly state: DescribedKey["state"] | "";
  /** Every word is a part of the key's id, name, owner, role or scopes. */
  readonly search: string;
}

export function filterKeys(keys: readonly DescribedKey[], { state, search }: KeyFilter): DescribedKey[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return keys.filter((key) => {
    if (state !== "" && key.state !== state) return false;
    const text = [key.id, key.name, key.owner, key.role, ...key.scopes].join("\n").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

/** Of a key that will expire within a week: when. Null: not so soon. */
export function expiresSoon({ state, expiresAt }: DescribedKey, nowMs: number): string | null {
  if (state !== "active" || expiresAt === null) return null;
  const leftMs = Date.parse(expiresAt) - nowMs;
  if (leftMs > SOON_MS) return null;
  if (leftMs < DAY_MS) return "within a day";
  const days = Math.floor(leftMs / DAY_MS);
  return days === 1 ? "in 1 day" : `in ${String(days)} days`;
}

/** The key's own limits, under the names that the database and the command have. */
export function ownLimitsText({ limits, minLevel, onLost }: DescribedKey): string {
  return Object.entries({
    ...limits,
    ...(minLevel !== undefined && { minLevel }),
    ...(onLost !== undefined && { onLost }),
  })
    .map(([name, value]) => `${name}: ${String(value)}`)
    .join(", ");
}

/** What counts toward the limit, of all limits that a gateway has. */
const COUNTED: Readonly<Record<string, string>> = {
  exposureTransactions: "transactions of all gateways",
  exposureBytes: "log of all gateways",
  exposureAgeMs: "age of the oldest transaction of all gateways",
  exposureRegionTransactions: "transactions of the region's gateways",
  exposureRegionBytes: "log of this gateway",
  exposureRegionAgeMs: "age of the oldest transaction of this gateway",
  exposureKeyTransactions: "transactions of one owner",
  exposureKeyBytes: "log of one owner on this gateway",
  exposureKeyAgeMs: "age of the oldest transaction of one owner on this gateway",
  maxPendingAnnouncements: "transactions that no tracker has acknowledged",
};

/** Limits on values have their unit at the end of the name. */
const VALUE = /^exposure(Key)?Value([A-Za-z]+)$/;

export function countedText({ name }: Pick<ReportedLimit, "name">): string {
  const [, key, unit] = VALUE.exec(name) ?? [];
  if (unit === undefined) return COUNTED[name] ?? name;
  return `${unit} at risk of ${key === undefined ? "all gateways" : "one owner"}`;
}

/** Numbers of a limit have the unit in which its name ends. */
export function amountText(name: string, amount: number): string {
  if (name.endsWith("Bytes")) return formatBytes(amount);
  if (name.endsWith("Ms")) return formatMs(amount);
  return VALUE.test(name) ? String(amount) : formatCount(Math.round(amount));
}

/** From 80% on, gateways slow fast transactions down; at the bound they refuse them. */
export function limitTone({ used, bound }: ReportedLimit): "good" | "waiting" | "bad" {
  const share = bound === 0 ? 1 : used / bound;
  if (share >= 1) return "bad";
  return share > 0.8 ? "waiting" : "good";
}

/** Gateways that the tracker knows by their transactions, and that have not reported limits. */
export function silentGateways(
  { gateways }: ExposureLimits,
  byGateway: Readonly<Record<string, number>>,
): string[] {
  const reported = new Set(gateways.map(({ gateway }) => gateway));
  return Object.keys(byGateway)
    .filter((gateway) => !reported.has(gateway))
    .sort();
}
