// Builders for the tests of every package.
import type { EpochRecord } from "../src/schemas.ts";

/** The record of a first epoch; with `previous`, of one that a promotion began. */
export function epochRecord(id: string, over: Partial<EpochRecord> = {}): EpochRecord {
  const isFirst = (over.previous ?? null) === null;
  return {
    id,
    seq: isFirst ? 1 : 2,
    previous: null,
    node: "a",
    cause: isFirst ? "first" : "promotion",
    startedAt: "2030-01-01T00:00:00.000000Z",
    startOffset: "1",
    forkOffset: "0",
    forkLimit: null,
    supersedes: [],
    commanded: false,
    finalMarks: {},
    ...over,
  };
}
