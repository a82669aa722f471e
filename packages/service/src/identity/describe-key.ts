// An API key as operators read it. There is nothing secret in it.
import { type DescribedKey } from "@highwater/protocol";
import { type ApiKey } from "@highwater/store";

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
    scopes: [...scopes],
    limits: Object.fromEntries(limits),
    ...(key.minLevel !== undefined && { minLevel: key.minLevel }),
    ...(key.onLost !== undefined && { onLost: key.onLost }),
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
