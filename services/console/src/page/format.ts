// How the console writes numbers, times and offsets.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"] as const;

export function formatBytes(bytes: number | bigint): string {
  let [value, unit] = [Number(bytes), 0];
  while (value >= 1_024 && unit < UNITS.length - 1) [value, unit] = [value / 1_024, unit + 1];
  return `${unit === 0 ? String(value) : value.toFixed(value < 10 ? 1 : 0)} ${UNITS[unit] ?? ""}`;
}

export function formatMs(ms: number): string {
  if (ms > 0 && ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1_000) return `${ms.toFixed(0)} ms`;
  if (ms < 120_000) return `${(ms / 1_000).toFixed(1)} s`;
  const minutes = Math.round(ms / 60_000);
  return minutes < 120 ? `${String(minutes)} min` : `${(minutes / 60).toFixed(0)} h`;
}

export function formatCount(count: number): string {
  return String(count).replaceAll(/\B(?=(\d{3})+$)/g, ",");
}

/** An offset as PostgreSQL prints log sequence numbers; the store's lsn.ts says which versions. */
export function formatLsn(offset: string | number | bigint): string {
  const value = BigInt(offset);
  const hex = (half: bigint): string => half.toString(16).toUpperCase();
  return `${hex(value >> 32n)}/${hex(value & 0xffff_ffffn)}`;
}

const two = (value: number): string => String(value).padStart(2, "0");

/** The time of day in this browser's time zone, with milliseconds. */
export function formatTime(wallMs: number): string {
  const at = new Date(wallMs);
  const ms = String(at.getMilliseconds()).padStart(3, "0");
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${ms}`;
}

export function formatDay(wallMs: number): string {
  const at = new Date(wallMs);
  return `${String(at.getFullYear())}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

/** The first digits of an epoch's id, which tell epochs apart. */
export function shortId(id: string): string {
  return id.slice(0, 8);
}
