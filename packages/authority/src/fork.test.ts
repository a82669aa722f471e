import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { type EpochId, type Offset } from "@highwater/protocol";
import { forkOf, type ForkFacts } from "./fork.ts";

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
      limit: 500,
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
      limit: 500,
    },
    {
      title: "after a crash a stream proves nothing about the node that sent it",
      given: { witnessed: at(300), streamed: at(400) },
      cause: "crash_recovery",
      fork: 300,
      limit: 500,
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
      title: "and nothing when the switch point is unknown",
      given: { promoted: true, witnessed: at(300), streamed: at(400) },
      cause: "promotion",
      fork: 300,
      limit: 500,
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
            assert.ok(less.limit === null || all.limit === null || less.limit >= all.limit);
          }
        },
      ),
    );
  });
});
