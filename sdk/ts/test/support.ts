// Builders that the tests share: epochs, marks and verdicts as they are on the wire.
import { epochId } from "@highwater/conformance/fake";
import { type EpochRecord, type Marks, type TokenVerdict, type Verdict } from "../src/wire.ts";

/** Ids of the epochs that the tests use. */
export const [E1, E2, E3, FORK] = [epochId(1), epochId(2), epochId(3), epochId(4)] as const;

export function marks(epoch: string, levels: Record<string, number | bigint>): Marks {
  const entries = Object.entries(levels).map(([level, offset]) => [level, offset.toString()] as const);
  return { epoch, seq: Number.parseInt(epoch.slice(-12), 16), levels: Object.fromEntries(entries) };
}

export function epoch(
  id: string,
  options: { previous?: string; fork?: number; start?: number } = {},
): EpochRecord {
  return {
    ...{ id, seq: Number.parseInt(id.slice(-12), 16), previous: options.previous ?? null, node: "east" },
    cause: options.previous === undefined ? "first" : "promotion",
    startedAt: "2026-01-01T00:00:00Z",
    startOffset: String(options.start ?? 1),
    forkOffset: String(options.fork ?? 0),
    ...{ forkLimit: null, supersedes: [], commanded: false, finalMarks: {} },
  };
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
