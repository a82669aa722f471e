// Keys as an operator reads them. There is nothing secret in them.
import { type ApiKey } from "@highwater/store";

export interface DescribedKey {
  readonly id: string;
  readonly state: "active" | "expired" | "revoked";
  readonly name: string;
  readonly owner: string;
  readonly role: string;
  readonly scopes: readonly string[];
  /** Those that the key has of its own. */
  readonly limits: Readonly<Record<string, number>>;
  readonly createdAt: string;
  readonly expiresAt: string | null;
  readonly revokedAt: string | null;
}

export function describeKey(key: ApiKey, nowMs: number): DescribedKey {
  const { id, name, owner, role, scopes } = key;
  const limits = Object.entries(key.limits).flatMap(([limit, value]: [string, number | null]) =>
    value === null ? [] : [[limit, value] as const],
  );
  return {
    id,
    state: stateOf(key, nowMs),
    name,
    owner,
    role,
    scopes,
    limits: Object.fromEntries(limits),
    createdAt: timeText(key.createdAtMs),
    expiresAt: key.expiresAtMs === null ? null : timeText(key.expiresAtMs),
    revokedAt: key.revokedAtMs === null ? null : timeText(key.revokedAtMs),
  };
}

function stateOf({ revokedAtMs, expiresAtMs }: ApiKey, nowMs: number): DescribedKey["state"] {
  if (revokedAtMs !== null) return "revoked";
  return expiresAtMs !== null && nowMs >= expiresAtMs ? "expired" : "active";
}

function timeText(atMs: number): string {
  return new Date(atMs).toISOString();
}

const HEAD = ["id", "state", "name", "owner", "role", "scopes", "limits", "created", "expires"];

export function keyTable(keys: readonly DescribedKey[]): string {
  const rows = keys.map((key) => [
    ...[key.id, key.state, key.name, key.owner, key.role, key.scopes.join(",")],
    Object.entries(key.limits)
      .map(([limit, value]) => `${limit}=${String(value)}`)
      .join(",") || "-",
    key.createdAt,
    key.expiresAt ?? "never",
  ]);
  const widths = HEAD.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd();
  return [HEAD, ...rows].map(line).join("\n");
}
