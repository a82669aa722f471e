// A table of keys, as an operator reads it.
import { type DescribedKey } from "@highwater/protocol";

const HEAD = ["id", "state", "name", "owner", "role", "scopes", "limits", "min level", "created", "expires"];

export function keyTable(keys: readonly DescribedKey[]): string {
  const rows = keys.map((key) => [
    ...[key.id, key.state, key.name, key.owner, key.role, key.scopes.join(",")],
    Object.entries({ ...key.limits, ...(key.onLost !== undefined && { onLost: key.onLost }) })
      .map(([limit, value]) => `${limit}=${String(value)}`)
      .join(",") || "-",
    key.minLevel ?? "-",
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
