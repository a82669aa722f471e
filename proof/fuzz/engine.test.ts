// Goal: the loop finds planted bugs, and a thread that dies or hangs counts as a finding. Method:
// targets with bugs that random inputs alone would not reach.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fuzz, type LoopOptions } from "./src/loop.ts";
import { mutate } from "./src/mutate.ts";
import { Random } from "./src/random.ts";
import { describeFailure, runTarget } from "./src/runner.ts";
import { pure, type Target } from "./src/target.ts";
import { targetOf } from "./src/targets/index.ts";

const OPTIONS: LoopOptions = { seed: 7, runs: 200_000, seconds: 60, onInput: () => undefined };
const target = (run: (input: Buffer) => void | Promise<void>, seeds: string[]): Target =>
  pure({ ...{ name: "x", about: "", seeds, words: ["ready", "steady"], sliceRuns: 0 }, run });

describe("the loop", () => {
  it("finds a value that only changed JSON has, and makes the input small", async () => {
    const bug = target(
      (input) => {
        const { a } = JSON.parse(input.toString()) as { a?: { b?: unknown } };
        if (a?.b === "steady") throw new RangeError(`found after ${String(input.length)} bytes`);
      },
      [JSON.stringify({ a: { b: 1, c: "x".repeat(100) }, d: [1, 2, 3] })],
    );
    const guarded = { ...bug, open: () => ({ run: ignoreSyntax(await0(bug)) }) };
    const { failure } = await fuzz(guarded, guarded.open(), OPTIONS);
    assert.match(failure?.error ?? "", /^RangeError: found after/);
    assert.ok((failure?.input.length ?? 999) < 40, failure?.input.toString());
  });

  it("the same seed makes the same inputs", async () => {
    const inputsOf = async (seed: number): Promise<string[]> => {
      const inputs: string[] = [];
      const all = target(() => undefined, ["one", "two", '{"a":1}']);
      await fuzz(
        all,
        { run: () => undefined },
        { ...OPTIONS, seed, runs: 500, onInput: (input) => inputs.push(input.toString("hex")) },
      );
      return inputs;
    };
    assert.deepEqual(await inputsOf(3), await inputsOf(3));
    assert.notDeepEqual(await inputsOf(3), await inputsOf(4));
  });

  it("no input is longer than it may be", () => {
    const random = new Random(1);
    let input: Buffer = Buffer.from("[1,2,3]");
    for (let n = 0; n < 2_000; n++) {
      input = mutate(input, { random, words: [], other: input, maxBytes: 100 });
      assert.ok(input.length <= 100);
    }
  });

  it("an answer that does not come is a find", async () => {
    const slow = { ...target(() => undefined, ["x"]), limitMs: 50 };
    const { failure } = await fuzz(slow, { run: () => new Promise(() => undefined) }, OPTIONS);
    assert.match(failure?.error ?? "", /no answer within 50 ms/);
  });
});

describe("a thread", () => {
  for (const [name, says] of [
    ["planted-coverage", /found behind three steps/],
    ["planted-uncaught", /nobody caught: Error: thrown and never caught/],
    ["planted-rejection", /nobody caught: Error: rejected and never caught/],
  ] as const)
    it(`${name}: is found, with the input that does it again`, async () => {
      const planted = await targetOf(name, "planted");
      const job = { seed: 7, runs: 2_000_000, seconds: 300, input: null, services: null };
      const report = await runTarget(planted, job);
      assert.match(report.failure?.error ?? "", says);
      assert.match(describeFailure(planted.target, 7, report), new RegExp(`make fuzz TARGET=${name} INPUT=`));
      const again = await runTarget(planted, { ...job, input: report.failure?.input ?? null });
      assert.match(again.failure?.error ?? "", says);
    });
});

const await0 = (one: Target): ((input: Buffer) => void) => {
  const fuzzed = one.open({ services: null, folder: "" });
  return (input) => {
    if (!(fuzzed instanceof Promise)) void fuzzed.run(input);
  };
};

function ignoreSyntax(run: (input: Buffer) => void) {
  return (input: Buffer): void => {
    try {
      run(input);
    } catch (cause) {
      if (!(cause instanceof SyntaxError || cause instanceof TypeError)) throw cause;
    }
  };
}
