// Builders for the tests of an election: three regions, epoch records, and what nodes say of themselves.
import { type NodeReport } from "@highwater/authority";
import { type EpochRecord, type Offset } from "@highwater/protocol";
import { nodeReport } from "@highwater/authority/testing";
import { type StoreNode } from "@highwater/store";
import { epochId, record } from "./core.ts";
import { type Situation, type Wishes } from "../../src/failover/candidate.ts";

export const FIRST = record(1, { node: "east" });
export const NODES: readonly StoreNode[] = [
  { id: "east", region: "east", zone: "a" },
  { id: "west", region: "west", zone: "a" },
  { id: "north", region: "north", zone: "a" },
];
const LEVELS: Situation["levels"] = [
  { name: "disk", rule: { primary: true } },
  { name: "region", rule: { replicas: 1, outside: "region" } },
  { name: "global", rule: { regions: "all" } },
];
export const NO_WISHES: Wishes = {
  region: null,
  zone: null,
  excluded: new Set(),
  ignored: new Set(),
  isSwitchover: false,
  isFenced: false,
  acceptsLoss: false,
};

export function replica(node: string, flushed: number, over: Partial<NodeReport> = {}): NodeReport {
  const offset = BigInt(flushed) as Offset;
  return nodeReport(node, [FIRST], {
    role: "replica",
    current: null,
    flushed: offset,
    applied: offset,
    ...over,
  });
}

export function primary(node: string, flushed: number, epochs: readonly EpochRecord[]): NodeReport {
  const newest = epochs.at(-1);
  return replica(node, flushed, {
    role: "primary",
    epochs,
    current: newest === undefined ? null : epochId(newest.seq),
  });
}

export function situation(
  reports: readonly NodeReport[],
  over: Partial<Omit<Situation, "wishes">> & { wishes?: Partial<Wishes> } = {},
): Situation {
  return {
    nodes: NODES,
    levels: LEVELS,
    reports: new Map(reports.map((report) => [report.node, report])),
    witnesses: new Map(reports.map(({ node }) => [node, null])),
    failures: new Map(),
    trackers: [],
    isLease: false,
    moving: new Set(),
    ...over,
    wishes: { ...NO_WISHES, ...over.wishes },
  };
}
