// Builders that the tests share: epochs, marks, tokens, and a clock that does not move.
import { testToken } from "@highwater/service/testing";
import { newTransactionId } from "../src/index.ts";
import { type EpochRecord, type Marks, type TokenVerdict, type Verdict } from "../src/wire.ts";

export const uuid = (n: number): string => `00000000-0000-4000-8000-${n.toString(16).padStart(12, "0")}`;

/** Ids of the epochs that the tests use. */
export const [E1, E2, E3, FORK] = [uuid(1), uuid(2), uuid(3), uuid(4)] as const;

export const moment = (nowMs = 0): { nowMs: number; random: () => number } => ({ nowMs, random: () => 0.5 });

export function marks(epoch: string, levels: Record<string, number | bigint>): Marks {
  const entries = Object.entries(levels).map(([level, offset]) => [level, offset.toString()] as const);
  return { epoch, seq: Number.parseInt(epoch.slice(-12), 16), levels: Object.fromEntries(entries) };
}

export function epoch(
  id: string,
  options: { previous?: string; fork?: number; start?: number } = {},
): EpochRecord {
  return {
    id,
    seq: Number.parseInt(id.slice(-12), 16),
    previous: options.previous ?? null,
    node: "east",
    cause: options.previous === undefined ? "first" : "promotion",
    startedAt: "2026-01-01T00:00:00Z",
    startOffset: String(options.start ?? 1),
    forkOffset: String(options.fork ?? 0),
    forkLimit: null,
    supersedes: [],
    commanded: false,
    finalMarks: {},
  };
}

/** A token as the service would write it. */
export function token(epochId: string, offset: number | bigint, id = newTransactionId()): string {
  return testToken({ id, epoch: epochId, offset: BigInt(offset) });
}

export function verdictOf(
  about: { id: string; token: string },
  verdict: Verdict,
  options: { epoch?: string; offset?: number | string; level?: string } = {},
): TokenVerdict {
  return {
    ...{ token: about.token, id: about.id, verdict, level: options.level ?? "region", rule: "test" },
    position: { epoch: options.epoch ?? E1, offset: String(options.offset ?? 1) },
  };
}
