// Goal: the nemesis uses every kind of fault in a run, and records a promise as kept only if its
// election makes that certain. Method: decks of faults and elections without a system;
// slice.slow.test.ts runs the nemesis on the real one.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, test } from "node:test";
import { type System } from "@highwater/lab-system";
import { FaultFile } from "../src/fault-log.ts";
import { Deck } from "../src/nemesis/deck.ts";
import { type Candidate, type Election, keptLevels, type LevelRule } from "../src/nemesis/kept.ts";
import { LANES } from "../src/nemesis/nemesis.ts";
import { Random } from "../src/nemesis/random.ts";
import { Turns } from "../src/nemesis/turn.ts";
import { World } from "../src/nemesis/world.ts";
import { readRecorded } from "../src/workload/recorded.ts";

const LEVELS: Readonly<Record<string, LevelRule>> = {
  disk: { primary: true },
  zone: { replicas: 1, outside: "zone" },
  region: { replicas: 1, outside: "region" },
  two: { replicas: 2, outside: "region" },
  global: { regions: "all" },
};

function candidate(node: string, position: number | null, region = node): Candidate {
  return { node, region, zone: "a", position: position === null ? null : BigInt(position) };
}

function kept(promoted: string, others: readonly Candidate[], more: Partial<Election> = {}): string[] {
  const primary = { node: "east", region: "east", zone: "a" };
  return keptLevels(LEVELS, { primary, others, promoted, isComplete: false, ...more });
}

describe("what a promotion keeps", () => {
  const cases: readonly { title: string; found: string[]; expected: string[] }[] = [
    {
      title: "the best of all: everything but the old primary's own disk",
      found: kept("west", [candidate("west", 9), candidate("europe", 7)]),
      expected: ["zone", "region", "two", "global"],
    },
    {
      title: "a laggard: what two regions have, and what all have",
      found: kept("europe", [candidate("west", 9), candidate("europe", 7)]),
      expected: ["two", "global"],
    },
    {
      title: "one of two that are equal",
      found: kept("europe", [candidate("west", 9), candidate("europe", 9)]),
      expected: ["zone", "region", "two", "global"],
    },
    {
      title: "the only one that is heard",
      found: kept("europe", [candidate("west", null), candidate("europe", 7)]),
      expected: ["two", "global"],
    },
    {
      title: "one that was not heard, or whose log is not to be trusted",
      found: kept("west", [candidate("west", null), candidate("europe", 7)]),
      expected: [],
    },
    {
      title: "a clean hand-over that is known to have everything",
      found: kept("west", [candidate("west", 9), candidate("europe", null)], { isComplete: true }),
      expected: Object.keys(LEVELS),
    },
    {
      title: "a region counts as heard when all its nodes are",
      found: kept("europe", [
        candidate("west", 5),
        candidate("west-2", null, "west"),
        candidate("europe", 7),
      ]),
      expected: ["two", "global"],
    },
    {
      title: "within a region only its most advanced node has what all regions have had",
      found: kept("west", [candidate("west", 5), candidate("west-2", 6, "west"), candidate("europe", null)]),
      expected: [],
    },
    {
      title: "a node beside the old primary counts for no other region",
      found: kept("east-2", [
        candidate("east-2", 9, "east"),
        candidate("west", null),
        candidate("europe", 8),
      ]),
      expected: ["two", "global"],
    },
  ];
  for (const { title, found, expected } of cases)
    it(title, () => {
      assert.deepEqual(found, expected);
    });
});

describe("the deck", () => {
  const cards = ["a", "b", "c", "d"].map((kind) => ({ kind, oneIn: 1 }));
  const rare = { kind: "rare", oneIn: 3 };
  const drawn = (seed: string, count: number): string[] => {
    const deck = new Deck([...cards, rare], new Random(seed));
    return Array.from({ length: count }, () => deck.draw().kind);
  };

  it("has every card in every round, and a rare one in one of so many", () => {
    for (let seed = 0; seed < 200; seed++) {
      const kinds = drawn(String(seed), 3 * cards.length + 1);
      assert.equal(kinds.filter((kind) => kind === "rare").length, 1);
      const others = kinds.filter((kind) => kind !== "rare");
      for (let round = 0; round < 3; round++)
        assert.deepEqual(others.slice(4 * round, 4 * round + 4).sort(), ["a", "b", "c", "d"]);
    }
  });

  it("is the same for the same seed, and for few others", () => {
    assert.deepEqual(drawn("7", 100), drawn("7", 100));
    const orders = new Set(Array.from({ length: 100 }, (_, seed) => drawn(String(seed), 40).join()));
    assert.ok(orders.size > 95);
  });

  it("goes on if all that there is is rare", () => {
    const deck = new Deck([rare], new Random("1"));
    assert.deepEqual([deck.draw(), deck.draw()], [rare, rare]);
  });

  it("has no two scenarios of one name", () => {
    const kinds = LANES.flatMap(({ scenarios }) => scenarios.map(({ kind }) => kind));
    assert.equal(new Set(kinds).size, kinds.length);
  });
});

describe("turns", () => {
  it("give what one scenario has taken to the next only when it has ended, also with an error", async () => {
    const turns = new Turns();
    const log: string[] = [];
    const step = (
      name: string,
      resources: readonly ("network" | "services")[],
      fails = false,
    ): Promise<void> =>
      turns.with(resources, async () => {
        log.push(`${name} begins`);
        for (let i = 0; i < 20; i++) await Promise.resolve();
        log.push(`${name} ends`);
        if (fails) throw new Error(name);
      });
    const results = await Promise.allSettled([
      step("first", ["network", "services"], true),
      step("second", ["services", "network"]),
      step("third", ["network"]),
    ]);
    assert.deepEqual(
      results.map(({ status }) => status),
      ["rejected", "fulfilled", "fulfilled"],
    );
    assert.deepEqual(
      log,
      ["first", "second", "third"].flatMap((name) => [`${name} begins`, `${name} ends`]),
    );
  });

  it("let those that need nothing of each other go on side by side", async () => {
    const turns = new Turns();
    let release = (): void => undefined;
    const held = turns.with(["network"], () => new Promise<void>((resolve) => (release = resolve)));
    await turns.with(["services"], async () => undefined);
    await turns.with([], async () => undefined);
    release();
    await held;
  });
});

test("the epochs of a node whose history is given up are recorded, if it answers", async () => {
  const dir = await mkdtemp(join(tmpdir(), "highwater-nemesis-"));
  const log = new FaultFile(dir, "nemesis");
  const first = { id: "e1", seq: 1, previous: null, node: "east" };
  const second = { id: "e2", seq: 2, previous: "e1", node: "west" };
  const data = JSON.stringify([first, { ...second, commanded: false }]);
  const nodes = ["east", "west", "europe"].map((id) => ({ id, region: id, zone: "a" }));
  const query = (node: string): Promise<unknown> =>
    node === "west" ? Promise.resolve([{ data }]) : Promise.reject(new Error("it is down"));
  const system = { cluster: { nodes, query } } as unknown as System;
  try {
    const say = (): void => undefined;
    const world = new World({
      system,
      rules: LEVELS,
      primary: "east",
      log,
      say,
      apiKey: undefined,
      replays: false,
    });
    await world.settled("europe");
    assert.deepEqual((await readRecorded(dir)).epochs, []);
    await world.settled("west");
    const notes = [first, second].map((epoch) => ({ kind: "epoch", ...epoch }));
    assert.deepEqual((await readRecorded(dir)).epochs, notes);
  } finally {
    log.close();
    await rm(dir, { recursive: true });
  }
});
