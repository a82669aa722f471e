import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { type EpochId, type Offset } from "@highwater/protocol";
import { forkOf, type ForkFacts, mayLack } from "./fork.ts";

const at = (value: number): Offset => BigInt(value) as Offset;
const PREVIOUS = "00000000-0000-4000-8000-000000000001" as EpochId;

function facts(overrides: Partial<ForkFacts> = {}): ForkFacts {
  return {
    previous: { id: PREVIOUS, startOffset: at(100) },
    unrecovered: false,
    sameServer: false,
    isCopy: false,
    foreignLog: false,
    promoted: false,
    switchedAt: null,
    end: at(500),
    recoveredAt: null,
    witnessed: null,
    streamed: null,
    supersedes: false,
    ...overrides,
  };
}

describe("where the previous epoch's log ends", () => {
  const cases: readonly {
    title: string;
    given: Partial<ForkFacts>;
    cause: string;
    fork: number;
    limit: number | null;
  }[] = [
    { title: "there is none", given: { previous: null }, cause: "first", fork: 0, limit: 0 },
    {
      title: "a clean stop keeps all of it",
      given: { unrecovered: true },
      cause: "clean_restart",
      fork: 500,
      limit: 500,
    },
    {
      title: "while the server runs on there is no end yet",
      given: { unrecovered: true, sameServer: true, supersedes: true },
      cause: "reinstated",
      fork: 500,
      limit: null,
    },
    {
      title: "after a crash its own record proves that much",
      given: {},
      cause: "crash_recovery",
      fork: 100,
      limit: null,
    },
    {
      title: "an operator's command reinstates what a crash has left, if the server says how far that goes",
      given: { recoveredAt: at(400), supersedes: true },
      cause: "reinstated",
      fork: 100,
      limit: 400,
    },
    {
      title: "and otherwise it is a crash like any other",
      given: { supersedes: true },
      cause: "crash_recovery",
      fork: 100,
      limit: null,
    },
    {
      title: "nothing that was written since the recovery is of the previous epoch",
      given: { recoveredAt: at(400) },
      cause: "crash_recovery",
      fork: 100,
      limit: 400,
    },
    {
      title: "after a crash its witness proves more",
      given: { witnessed: at(300) },
      cause: "crash_recovery",
      fork: 300,
      limit: null,
    },
    {
      title: "after a crash a stream proves nothing about the node that sent it",
      given: { witnessed: at(300), streamed: at(400) },
      cause: "crash_recovery",
      fork: 300,
      limit: null,
    },
    {
      title: "a promotion's switch point is a limit and no proof",
      given: { promoted: true, switchedAt: at(450), witnessed: at(300) },
      cause: "promotion",
      fork: 300,
      limit: 450,
    },
    {
      title: "a stream that was watched proves what arrived",
      given: { promoted: true, switchedAt: at(450), witnessed: at(300), streamed: at(400) },
      cause: "promotion",
      fork: 400,
      limit: 450,
    },
    {
      title: "but not what the promotion has cut off",
      given: { promoted: true, switchedAt: at(350), witnessed: at(300), streamed: at(400) },
      cause: "promotion",
      fork: 350,
      limit: 350,
    },
    {
      title: "and nothing when the switch point is unknown, which also is no limit then",
      given: { promoted: true, witnessed: at(300), streamed: at(400) },
      cause: "promotion",
      fork: 300,
      limit: null,
    },
    {
      title: "of a copy only the epoch's record proves anything, whatever else was copied with it",
      given: { unrecovered: true, sameServer: true, isCopy: true, witnessed: at(300), streamed: at(400) },
      cause: "restored",
      fork: 100,
      limit: null,
    },
    {
      title: "a history that is given up for none proves nothing of it",
      given: { previous: null, supersedes: true },
      cause: "restored",
      fork: 0,
      limit: 0,
    },
    {
      title: "another system's log bounds nothing",
      given: { unrecovered: true, foreignLog: true, witnessed: at(900) },
      cause: "crash_recovery",
      fork: 900,
      limit: null,
    },
  ];
  for (const { title, given, cause, fork, limit } of cases)
    it(title, () => {
      const expected = { cause, fork: at(fork), limit: limit === null ? null : at(limit) };
      assert.deepEqual(forkOf(facts(given)), expected);
    });

  it("never moves up when evidence is lost", () => {
    const offset = fc.option(fc.integer({ min: 100, max: 500 }).map(at));
    fc.assert(
      fc.property(
        fc.boolean(),
        fc.boolean(),
        offset,
        offset,
        offset,
        (promoted, supersedes, witnessed, streamed, switchedAt) => {
          const all = forkOf(facts({ promoted, supersedes, witnessed, streamed, switchedAt }));
          const lesser = [{ witnessed: null }, { streamed: null }, { switchedAt: null }];
          for (const lost of lesser) {
            const less = forkOf(facts({ promoted, supersedes, witnessed, streamed, switchedAt, ...lost }));
            assert.ok(less.fork <= all.fork);
            assert.ok(less.limit === null || less.limit === all.limit);
          }
        },
      ),
    );
  });
});

describe("what every level had", () => {
  const fork = { cause: "crash_recovery", fork: at(300), limit: at(400) } as const;

  it("is all there up to where the log was left", () => {
    assert.equal(mayLack(fork, at(400)), false);
    assert.equal(mayLack(fork, at(401)), true);
  });

  it("may be missing above what is proven where it is not known how far the log goes", () => {
    assert.equal(mayLack({ ...fork, limit: null }, at(300)), false);
    assert.equal(mayLack({ ...fork, limit: null }, at(301)), true);
  });

  it("is all there where the server that wrote the log goes on", () => {
    for (const cause of ["clean_restart", "reinstated"] as const)
      assert.equal(mayLack({ ...fork, cause, limit: null }, at(1_000)), false);
  });

  it("may be missing in a copy, whatever its records say", () => {
    assert.equal(mayLack({ ...fork, cause: "restored" }, at(1)), true);
  });
});
