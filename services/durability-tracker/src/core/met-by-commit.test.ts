// Goal: where a commit is answered no sooner than its level has it, its position alone proves the level, whatever happens later
// and in whatever order it is learned.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Driven, epochId, record } from "../../test/support/core.ts";
import { markIn } from "./index.ts";

const first = record(1);
const promoted = record(2, { node: "b", fork: 50, start: 60, commanded: true });

function following(commitsDurably = true): Driven {
  const it = new Driven({ commitsDurably });
  it.follow(first);
  return it;
}

test("a commit whose answer has met the level is durable before any position was reported", () => {
  const it = following();
  assert.deepEqual([it.judge(1, 1, 80, "disk").rule, it.verdict(1, 1, 80, "disk")], ["R1 mark", "durable"]);
  assert.equal(it.verdict(1, 1, 80, "zone"), "pending");
  assert.equal(following(false).verdict(1, 1, 80, "disk"), "pending");
  it.position(1, 1, 80);
  assert.equal(markIn(it.state, epochId(1), "disk"), 80n, "others settle by the mark");
  it.position(2, 1, 70);
  assert.equal(markIn(it.state, epochId(1), "disk"), 80n);
});

test("a commit that a failover discards had the level that its answer met, even if it is announced or shown later", () => {
  const learn: Record<string, readonly ["before" | "after", (it: Driven) => unknown]> = {
    "its position, in time": ["before", (it) => it.position(1, 1, 80)],
    "its position, too late": ["after", (it) => it.position(1, 1, 80)],
    "its token alone": ["after", (it) => it.present(1, 1, 80)],
  };
  for (const [what, [when, tell]] of Object.entries(learn))
    for (const commitsDurably of [true, false]) {
      const it = following(commitsDurably);
      if (when === "before") tell(it);
      it.follow(first, promoted);
      if (when === "after") tell(it);
      it.answer(70);
      it.positions(70, {});
      it.sleep(20_000);
      const verdicts = ["disk", "zone"].map((level) => it.verdict(1, 1, 80, level));
      assert.deepEqual(verdicts, [commitsDurably ? "durable" : "lost", "lost"], what);
    }
});

test("a node whose disk cannot be trusted meets no level with its answers", () => {
  const it = following();
  it.report("a", [first], { role: "primary", unfit: true });
  it.position(1, 1, 80);
  assert.equal(it.verdict(1, 1, 80, "disk"), "pending");
  assert.equal(markIn(it.state, epochId(1), "disk"), null);
});
