import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type EpochId, EpochGraph, type EpochRecord } from "@highwater/protocol";
import { epochRecord } from "@highwater/protocol/testing";
import { type Authority, decideAuthority } from "./ancestry.ts";
import { type NodeReport } from "./nodes.ts";
import { decideByOperator } from "./operator.ts";
import { nodeReport } from "../test/builders.ts";

/** Epochs get readable names, such as "e1". */
const id = (name: string): EpochId => name as EpochId;

const epoch = (name: string, previous: string | null, more: Partial<EpochRecord> = {}): EpochRecord =>
  epochRecord(name, {
    seq: Number(/\d+$/.exec(name)?.[0] ?? 1),
    previous,
    node: "east",
    startOffset: "100",
    forkOffset: "90",
    forkLimit: "90",
    ...more,
  });

const command = (name: string, ...overrules: string[]): Pick<NodeReport, "command"> => ({
  command: { id: name, overrules: overrules.map(id) },
});

const unminted = { current: null };
const replica = { role: "replica", current: null } as const;
const blank = { prepared: false, current: null };

const e1 = epoch("e1", null);
const crashed2 = epoch("a2", "e1", { cause: "crash_recovery" });
const promoted2 = epoch("b2", "e1");
const commanded3 = epoch("b3", "b2", { commanded: true, supersedes: ["a2"] });

interface Case {
  readonly title: string;
  readonly reports: readonly NodeReport[];
  readonly known?: string | null;
  /** Epoch records from nodes that do not answer now. */
  readonly seen?: readonly EpochRecord[];
  readonly expected:
    | Authority
    | { readonly kind: "none" }
    | { readonly kind: "split"; readonly nodes: readonly string[] };
}

const primary = (node: string, epochName: string): Authority => ({
  kind: "primary",
  node,
  epoch: id(epochName),
});
const mint = (
  node: string,
  command: string | null = null,
  supersedes: readonly string[] = [],
): Authority => ({
  kind: "mint",
  node,
  command,
  supersedes: supersedes.map(id),
});
const split = (...nodes: string[]): { kind: "split"; nodes: string[] } => ({ kind: "split", nodes });
const none = { kind: "none" } as const;

const cases: readonly Case[] = [
  { title: "nobody answers", reports: [], expected: none },
  { title: "only replicas answer", reports: [nodeReport("west", [e1], replica)], expected: none },
  {
    title: "the primary in its epoch",
    reports: [nodeReport("east", [e1])],
    known: "e1",
    expected: primary("east", "e1"),
  },
  {
    title: "the primary after its restart",
    reports: [nodeReport("east", [e1], unminted)],
    known: "e1",
    expected: mint("east"),
  },
  {
    title: "the primary, to a process that knows nothing",
    reports: [nodeReport("east", [e1])],
    expected: primary("east", "e1"),
  },

  {
    title: "first contact",
    reports: [nodeReport("east", [], blank)],
    expected: { kind: "prepare", node: "east" },
  },
  { title: "first contact, prepared", reports: [nodeReport("east", [], unminted)], expected: mint("east") },
  {
    title: "first contact with several writable nodes",
    reports: [nodeReport("east", [], blank), nodeReport("west", [], blank)],
    expected: split("east", "west"),
  },
  {
    title: "an empty node in the place of a known history",
    reports: [nodeReport("east", [], blank)],
    known: "e1",
    expected: none,
  },
  {
    title: "an empty node beside a replica that has a history",
    reports: [nodeReport("east", [], blank), nodeReport("west", [e1], replica)],
    expected: none,
  },
  {
    title: "an empty node beside the primary",
    reports: [nodeReport("west", [], blank), nodeReport("east", [e1])],
    expected: primary("east", "e1"),
  },

  {
    title: "a zombie: its epoch is an ancestor of the other's",
    reports: [nodeReport("east", [e1]), nodeReport("west", [e1, promoted2])],
    known: "b2",
    expected: primary("west", "b2"),
  },
  {
    title: "a zombie, to a process that has slept through the failover",
    reports: [nodeReport("east", [e1]), nodeReport("west", [e1, promoted2])],
    known: "e1",
    expected: primary("west", "b2"),
  },
  {
    title: "a zombie, to a process that knows nothing",
    reports: [nodeReport("east", [e1]), nodeReport("west", [e1, promoted2])],
    expected: primary("west", "b2"),
  },
  {
    title: "a zombie alone",
    reports: [nodeReport("east", [e1])],
    known: "b2",
    seen: [e1, promoted2],
    expected: none,
  },
  {
    title: "a zombie alone, after its restart",
    reports: [nodeReport("east", [e1], unminted)],
    known: "b2",
    seen: [e1, promoted2],
    expected: none,
  },
  {
    title: "a zombie after its restart, beside the primary after its own",
    reports: [nodeReport("east", [e1], unminted), nodeReport("west", [e1, promoted2], unminted)],
    known: "b2",
    expected: mint("west"),
  },
  {
    title: "an unminted promoted node beside the live old primary",
    reports: [nodeReport("east", [e1]), nodeReport("west", [e1], unminted)],
    known: "e1",
    expected: mint("west"),
  },
  {
    title: "an unminted copy of an old node beside the primary of a later epoch",
    reports: [nodeReport("west", [e1], unminted), nodeReport("east", [e1, crashed2])],
    known: null,
    expected: primary("east", "a2"),
  },

  {
    title: "two between epochs: the old primary after its crash, and the promoted node",
    reports: [nodeReport("east", [e1], unminted), nodeReport("west", [e1], unminted)],
    known: "e1",
    expected: split("east", "west"),
  },
  {
    title: "split brain: two epochs of which neither history contains the other's",
    reports: [nodeReport("east", [e1, crashed2]), nodeReport("west", [e1, promoted2])],
    known: "e1",
    expected: split("east", "west"),
  },
  {
    title: "split brain, to a process that has lived in one of the epochs",
    reports: [nodeReport("east", [e1, crashed2]), nodeReport("west", [e1, promoted2])],
    known: "a2",
    expected: split("east", "west"),
  },
  {
    title: "split brain, while one of the two is between epochs",
    reports: [nodeReport("east", [e1, crashed2], unminted), nodeReport("west", [e1, promoted2])],
    known: "a2",
    expected: split("east", "west"),
  },
  {
    title: "split brain beside a mere zombie",
    reports: [
      nodeReport("north", [e1]),
      nodeReport("east", [e1, crashed2]),
      nodeReport("west", [e1, promoted2]),
    ],
    known: "e1",
    expected: split("east", "west"),
  },
  {
    title: "two histories without a common epoch",
    reports: [nodeReport("east", [e1]), nodeReport("west", [epoch("other1", null)])],
    expected: split("east", "west"),
  },

  {
    title: "a command settles a split brain",
    reports: [nodeReport("east", [e1, crashed2]), nodeReport("west", [e1, promoted2], command("c1", "a2"))],
    known: "a2",
    expected: mint("west", "c1", ["a2"]),
  },
  {
    title: "a command on the node that reigns anyway",
    reports: [nodeReport("east", [e1], command("c1"))],
    known: "e1",
    expected: mint("east", "c1"),
  },
  {
    title: "a command brings a zombie back",
    reports: [nodeReport("east", [e1], command("c1", "b2")), nodeReport("west", [e1, promoted2])],
    known: "b2",
    expected: mint("east", "c1", ["b2"]),
  },
  {
    title: "a command names an epoch that whoever carries it out has never heard of",
    reports: [nodeReport("east", [e1], command("c1", "b2"))],
    known: "e1",
    expected: mint("east", "c1", ["b2"]),
  },
  {
    title: "commands on two nodes",
    reports: [
      nodeReport("east", [e1], command("c1", "b2")),
      nodeReport("west", [e1, promoted2], command("c2")),
    ],
    known: "e1",
    expected: split("east", "west"),
  },
  {
    title: "a command that was given before somebody else began an epoch",
    reports: [nodeReport("east", [e1], command("c1")), nodeReport("west", [e1, promoted2])],
    known: "e1",
    expected: primary("west", "b2"),
  },
  {
    title: "a command that was given before another was carried out",
    reports: [
      nodeReport("east", [e1, crashed2], command("c1", "b2")),
      nodeReport("west", [e1, promoted2, commanded3]),
    ],
    known: "b3",
    expected: primary("west", "b3"),
  },
  {
    title: "a command that was given before another one, which has outlived its node on a replica",
    reports: [
      nodeReport("east", [e1, crashed2], command("c1", "b2")),
      nodeReport("west", [e1, promoted2, commanded3], replica),
    ],
    known: "b3",
    seen: [promoted2, commanded3],
    expected: none,
  },
  {
    title: "a command that does not name an epoch which only this process remembers",
    reports: [nodeReport("east", [e1], command("c1"))],
    known: "b2",
    seen: [e1, promoted2],
    expected: none,
  },
  {
    title: "a command over an epoch includes what followed it by itself",
    reports: [
      nodeReport("east", [e1, crashed2], command("c1", "b2")),
      nodeReport("west", [e1, promoted2, epoch("b3", "b2"), epoch("b4", "b3")]),
    ],
    known: "b4",
    expected: mint("east", "c1", ["b2", "b3", "b4"]),
  },
  {
    title: "two commands of which the later one knew more",
    reports: [
      nodeReport("east", [e1, crashed2], command("c1")),
      nodeReport("west", [e1, promoted2], command("c2", "a2")),
    ],
    known: "e1",
    expected: mint("west", "c2", ["a2"]),
  },
  {
    title: "a command that was carried out beats none, for those who knew the loser",
    reports: [nodeReport("east", [e1, crashed2]), nodeReport("west", [e1, promoted2, commanded3])],
    known: "a2",
    expected: primary("west", "b3"),
  },
  {
    title: "a command beats an epoch that nobody had seen when it was carried out",
    reports: [
      nodeReport("east", [e1, epoch("a9", "e1", { cause: "crash_recovery" })]),
      nodeReport("west", [e1, promoted2, commanded3]),
    ],
    known: "a9",
    expected: primary("west", "b3"),
  },
  {
    title: "more epochs and a higher number do not bring the loser of a command back",
    reports: [
      nodeReport("east", [e1, crashed2, epoch("a8", "a2"), epoch("a9", "a8")]),
      nodeReport("west", [e1, promoted2, commanded3]),
    ],
    known: "b3",
    expected: primary("west", "b3"),
  },
  {
    title: "nor does its restart",
    reports: [
      nodeReport("east", [e1, crashed2, epoch("a9", "a2")], unminted),
      nodeReport("west", [e1, promoted2, commanded3]),
    ],
    known: "b3",
    expected: primary("west", "b3"),
  },
  {
    title: "nor does the winner's own restart, while the loser lives",
    reports: [
      nodeReport("east", [e1, crashed2, epoch("a9", "a2")]),
      nodeReport("west", [e1, promoted2, commanded3], unminted),
    ],
    known: "b3",
    expected: mint("west"),
  },
  {
    title: "two commands that were carried out on two sides",
    reports: [
      nodeReport("east", [e1, epoch("a4", "e1", { commanded: true })]),
      nodeReport("west", [e1, promoted2, commanded3]),
    ],
    known: "e1",
    expected: split("east", "west"),
  },
  {
    title: "a reinstated primary beside the one it was reinstated over",
    reports: [
      nodeReport("east", [
        e1,
        epoch("a3", "e1", { cause: "reinstated", commanded: true, supersedes: ["b2"] }),
      ]),
      nodeReport("west", [e1, promoted2]),
    ],
    known: "b2",
    expected: primary("east", "a3"),
  },
  {
    title: "a successor of a commanded epoch inherits its rank",
    reports: [
      nodeReport("east", [e1, crashed2]),
      nodeReport("west", [e1, promoted2, commanded3, epoch("b4", "b3", { cause: "crash_recovery" })]),
    ],
    known: "a2",
    expected: primary("west", "b4"),
  },
];

/** Under this rule only an operator's command makes a node the primary. */
const byOperator: readonly Case[] = [
  {
    title: "first contact",
    reports: [nodeReport("east", [], blank)],
    expected: { kind: "prepare", node: "east" },
  },
  {
    title: "the first epoch needs no command",
    reports: [nodeReport("east", [], unminted)],
    expected: mint("east"),
  },
  {
    title: "the node that began with the store",
    reports: [nodeReport("east", [e1])],
    known: "e1",
    expected: primary("east", "e1"),
  },
  {
    title: "its restart is followed",
    reports: [nodeReport("east", [e1], unminted)],
    known: "e1",
    expected: mint("east"),
  },
  {
    title: "and the epoch that follows from it",
    reports: [nodeReport("east", [e1, crashed2])],
    known: "e1",
    expected: primary("east", "a2"),
  },
  {
    title: "a promotion beside it is not",
    reports: [nodeReport("east", [e1]), nodeReport("west", [e1], unminted)],
    known: "e1",
    expected: primary("east", "e1"),
  },
  {
    title: "nor one that has begun an epoch, by some other rule",
    reports: [nodeReport("east", [e1, crashed2]), nodeReport("west", [e1, { ...promoted2, node: "west" }])],
    known: "a2",
    expected: primary("east", "a2"),
  },
  {
    title: "nor one without a rival",
    reports: [nodeReport("west", [e1], unminted), nodeReport("east", [e1], replica)],
    known: "e1",
    expected: none,
  },
  {
    title: "a command on the promoted node",
    reports: [nodeReport("east", [e1]), nodeReport("west", [e1], { ...unminted, ...command("c1") })],
    known: "e1",
    expected: mint("west", "c1"),
  },
  {
    title: "the node that a command has chosen, through its restarts",
    reports: [
      nodeReport("east", [e1]),
      nodeReport(
        "west",
        [e1, epoch("b2", "e1", { node: "west", commanded: true }), epoch("b3", "b2", { node: "west" })],
        unminted,
      ),
    ],
    known: "b3",
    expected: mint("west"),
  },
  {
    title: "a node that was promoted after the chosen one, without a command",
    reports: [
      nodeReport("east", [
        e1,
        epoch("b2", "e1", { node: "west", commanded: true }),
        epoch("a3", "b2", { node: "east" }),
      ]),
    ],
    known: "b2",
    expected: none,
  },
];

function check(all: readonly Case[], decide: typeof decideAuthority): void {
  for (const { title, reports, known = null, seen = [], expected } of all)
    it(title, () => {
      // The order in which the nodes answered must not change the result.
      for (const order of [reports, [...reports].reverse()]) {
        const graph = new EpochGraph();
        graph.add(seen);
        for (const each of order) graph.add(each.epochs);
        const authority = decide(order, known === null ? null : id(known), graph);
        assert.equal(authority.kind, expected.kind, JSON.stringify(authority));
        if (authority.kind === "split" && expected.kind === "split")
          assert.deepEqual([...authority.nodes].sort(), [...expected.nodes].sort());
        else if (expected.kind !== "none") assert.deepEqual(authority, expected);
      }
    });
}

describe("who is the primary", () => {
  check(cases, decideAuthority);
});

describe("who is the primary where only operators say so", () => {
  check(byOperator, decideByOperator);

  it("says which promotion it does not follow", () => {
    const graph = new EpochGraph();
    graph.add([e1]);
    const authority = decideByOperator([nodeReport("west", [e1], unminted)], id("e1"), graph);
    assert.ok(
      authority.kind === "none" &&
        authority.reason.startsWith("west: writable without an operator's command"),
    );
  });
});
