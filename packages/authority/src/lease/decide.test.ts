import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type EpochId, EpochGraph, type EpochRecord } from "@highwater/protocol";
import { epochRecord } from "@highwater/protocol/testing";
import { type Authority } from "../ancestry.ts";
import { type NodeReport } from "../nodes.ts";
import { nodeReport } from "../../test/builders.ts";
import { decideByLease, type LeaseEvidence } from "./decide.ts";

const NOW_MS = 1_000;

const epoch = (id: string, previous: string | null, more: Partial<EpochRecord> = {}): EpochRecord =>
  epochRecord(id, { seq: 1, previous, node: "east", cause: "first", forkLimit: "0", ...more });

const held = (node: string, more: { validUntilMs?: number; failure?: string } = {}): LeaseEvidence => ({
  view: {
    kind: "held",
    term: { node, revision: "7" },
    askedAtMs: 0,
    validUntilMs: more.validUntilMs ?? NOW_MS + 1,
  },
  failure: more.failure ?? null,
  nowMs: NOW_MS,
});

const e1 = epoch("e1", null);
const b2 = epoch("b2", "e1", { cause: "promotion" });
const a2 = epoch("a2", "e1", { cause: "crash_recovery" });
const unminted = { current: null };
const replica = { role: "replica", current: null } as const;
const blank = { prepared: false, current: null };
const mint = (node: string, ...supersedes: string[]): Authority => ({
  kind: "mint",
  node,
  command: null,
  supersedes: supersedes as EpochId[],
});

interface Case {
  readonly title: string;
  readonly lease: LeaseEvidence;
  readonly reports: readonly NodeReport[];
  readonly known?: string;
  readonly seen?: readonly EpochRecord[];
  readonly expected: Authority | RegExp;
}

const both = [nodeReport("east", [e1]), nodeReport("west", [e1, b2])];

const cases: readonly Case[] = [
  {
    title: "the holder in its epoch",
    lease: held("east"),
    reports: [nodeReport("east", [e1])],
    expected: { kind: "primary", node: "east", epoch: "e1" as EpochId },
  },
  {
    title: "a writable node that the lease does not name is nothing, whatever its history",
    lease: held("west"),
    reports: [nodeReport("east", [e1, a2]), nodeReport("west", [e1, b2])],
    known: "b2",
    expected: { kind: "primary", node: "west", epoch: "b2" as EpochId },
  },
  {
    title: "the promoted holder begins its epoch beside the old primary",
    lease: held("west"),
    reports: [nodeReport("east", [e1]), nodeReport("west", [e1], unminted)],
    known: "e1",
    expected: mint("west"),
  },
  {
    title: "the promoted holder ends what the old primary has begun since",
    lease: held("west"),
    reports: [nodeReport("east", [e1, a2]), nodeReport("west", [e1], unminted)],
    known: "a2",
    expected: mint("west", "a2"),
  },
  {
    title: "a holder in an epoch that is not the known one's successor begins another over it",
    lease: held("east"),
    reports: both,
    known: "b2",
    expected: mint("east", "b2"),
  },
  {
    title: "and is the primary in that",
    lease: held("east"),
    reports: [
      nodeReport("east", [e1, epoch("a3", "e1", { supersedes: ["b2"] })]),
      nodeReport("west", [e1, b2]),
    ],
    known: "b2",
    expected: { kind: "primary", node: "east", epoch: "a3" as EpochId },
  },
  {
    title: "a stray epoch that never reigned here is ended with the next one, not by a new one",
    lease: held("west"),
    reports: [nodeReport("east", [e1, a2]), nodeReport("west", [e1, b2])],
    known: "b2",
    expected: { kind: "primary", node: "west", epoch: "b2" as EpochId },
  },
  {
    title: "an operator's command does not count",
    lease: held("west"),
    reports: [
      nodeReport("east", [e1], { command: { id: "c", overrules: ["b2" as EpochId] } }),
      ...both.slice(1),
    ],
    known: "b2",
    expected: { kind: "primary", node: "west", epoch: "b2" as EpochId },
  },
  {
    title: "an empty database is prepared, then begins",
    lease: held("east"),
    reports: [nodeReport("east", [], blank)],
    expected: { kind: "prepare", node: "east" },
  },
  {
    title: "an empty, prepared database begins",
    lease: held("east"),
    reports: [nodeReport("east", [], unminted), nodeReport("west", [], blank)],
    expected: mint("east"),
  },
  {
    title: "an empty holder beside a history",
    lease: held("east"),
    reports: [nodeReport("east", [], blank), nodeReport("west", [e1], replica)],
    expected: /no Highwater history/,
  },
  {
    title: "an empty holder in the place of a known history",
    lease: held("east"),
    reports: [nodeReport("east", [], unminted)],
    known: "e1",
    expected: /no Highwater history/,
  },
  {
    title: "an empty holder that an operator adopts over what reigned",
    lease: held("east"),
    reports: [nodeReport("east", [], { ...unminted, command: { id: "c1", overrules: ["e1" as EpochId] } })],
    known: "e1",
    expected: { kind: "mint", node: "east", command: "c1", supersedes: ["e1" as EpochId] },
  },
  {
    title: "the holder does not answer",
    lease: held("west"),
    reports: [nodeReport("east", [e1])],
    expected: /does not answer/,
  },
  {
    title: "the holder is not promoted yet",
    lease: held("west"),
    reports: [nodeReport("east", [e1]), nodeReport("west", [e1], replica)],
    expected: /not writable/,
  },
  {
    title: "the lease is over, to the millisecond",
    lease: held("east", { validUntilMs: NOW_MS }),
    reports: [nodeReport("east", [e1])],
    expected: /expired/,
  },
  {
    title: "the lease is over, and nobody can be asked",
    lease: held("east", { validUntilMs: NOW_MS, failure: "refused" }),
    reports: [nodeReport("east", [e1])],
    expected: /cannot be read: refused/,
  },
  {
    title: "nobody can be asked, and the last answer is still good",
    lease: held("east", { failure: "refused" }),
    reports: [nodeReport("east", [e1])],
    expected: { kind: "primary", node: "east", epoch: "e1" as EpochId },
  },
  {
    title: "nobody holds it",
    lease: { view: { kind: "free", askedAtMs: 0 }, failure: null, nowMs: NOW_MS },
    reports: [nodeReport("east", [e1])],
    expected: /no node holds/,
  },
  {
    title: "it was never read",
    lease: { view: { kind: "unread" }, failure: null, nowMs: NOW_MS },
    reports: [nodeReport("east", [e1])],
    expected: /not been read/,
  },
];

describe("who is the primary under a lease", () => {
  for (const { title, lease, reports, known = null, seen = [], expected } of cases)
    it(title, () => {
      for (const order of [reports, [...reports].reverse()]) {
        const graph = new EpochGraph();
        graph.add(seen);
        for (const each of order) graph.add(each.epochs);
        const authority = decideByLease(lease, order, known as EpochId | null, graph);
        if (!(expected instanceof RegExp)) assert.deepEqual(authority, expected);
        else
          assert.ok(authority.kind === "none" && expected.test(authority.reason), JSON.stringify(authority));
      }
    });
});
