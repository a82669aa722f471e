// Read-only transactions leave no receipt: only forks and marks can show what became of what they saw.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type EpochRecord } from "@highwater/protocol";
import { Driven, epochId, record } from "../../test/support/core.ts";
import { Disk } from "../../test/support/disk.ts";
import { restore } from "./index.ts";

const first = record(1);

/** A read of the first epoch at 80, which was durable on the primary's disk or not, judged after a fork. */
function after(successor: EpochRecord, flushed: number, waitMs = 2_000): Driven {
  const it = Driven.following(first);
  it.positions(flushed);
  it.follow(first, successor);
  it.present(1, 1, 80, "read");
  it.positions(200);
  it.sleep(waitMs);
  return it;
}

const verdict = (it: Driven, level: string): string => it.verdict(1, 1, 80, level, "read");

test("a read-only token is carried over across a clean switchover", () => {
  const it = after(record(2, { node: "b", cause: "promotion", fork: 80, start: 90, limit: 85 }), 0);
  assert.equal(verdict(it, "disk"), "durable");
  assert.equal(it.judge(1, 1, 80, "disk", "read").rule, "R3 carried over");
  assert.equal(it.reads.length, 0);
});

test("a read-only token beyond the fork is lost", () => {
  const it = after(record(2, { node: "b", fork: 79, start: 90, limit: 100 }), 0);
  assert.equal(verdict(it, "disk"), "lost");
  assert.equal(it.reads.length, 0, "there is no receipt to look for, and no id to settle");
});

test("a read that may have been kept is lost only when no other tracker says that it had been durable", () => {
  const fork = { fork: 40, start: 90, limit: 100 };
  const it = after(record(2, fork), 0, 1);
  assert.equal(verdict(it, "disk"), "pending");
  it.follow(first, record(2, { ...fork, finalMarks: { disk: "80" } }));
  assert.equal(verdict(it, "disk"), "durable");
  assert.equal(it.judge(1, 1, 80, "disk", "read").rule, "R3 carried over");
  const silent = after(record(2, fork), 0);
  assert.equal(verdict(silent, "disk"), "lost");
});

test("a read that was durable, and below the place where its log ended, is carried over beyond a cautious fork", () => {
  const it = after(record(2, { fork: 40, start: 90, limit: 85 }), 80);
  assert.equal(verdict(it, "disk"), "durable");
  assert.equal(verdict(it, "region"), "pending");
  it.confirm(200, { b: ["s1", 95] });
  assert.equal(verdict(it, "region"), "durable");
  assert.equal(verdict(it, "global"), "pending");
  assert.equal(verdict(it, "region"), "durable", "and it stays so when it is asked again");
});

test("a durable read above the limit of its log is broken on its own node, and lost where it was not durable", () => {
  const it = after(record(2, { fork: 40, start: 90, limit: 79 }), 80);
  assert.equal(verdict(it, "disk"), "broken");
  assert.equal(verdict(it, "region"), "lost");
});

test("a lost read is judged by the step that lost it, also when it is first asked about while another node is the primary", () => {
  const lostBy = record(2, { fork: 40, start: 90, limit: 79 });
  const it = after(lostBy, 80);
  assert.equal(verdict(it, "disk"), "broken");
  it.follow(first, lostBy, record(3, { node: "b", fork: 95, start: 99, limit: 95 }));
  it.present(2, 1, 80, "read");
  it.positions(200);
  it.sleep(2_000);
  assert.equal(it.verdict(2, 1, 80, "disk", "read"), "broken");
  const moved = record(2, { node: "b", fork: 40, start: 90, limit: 79 });
  const elsewhere = after(moved, 80);
  assert.equal(verdict(elsewhere, "disk"), "durable", "the level promised nothing about another node");
});

/** What the holder of the read's token is answered, who asks until it is judged. */
function ask(it: Driven, level: string): string {
  if (it.judge(1, 1, 80, level, "read").needsProof) it.present(1, 1, 80, "read");
  it.positions(200);
  it.sleep(2_000);
  return verdict(it, level);
}

/** Until the verdict has left the ledger. */
function forget(it: Driven): void {
  it.sleep(it.state.config.keepVerdictMs);
  it.sleep(1);
  assert.equal(it.state.ledger.entries.size, 0);
}

const LOST_BY = { node: "b", fork: 40, start: 90, limit: 79 } as const;

test("a read whose loss was published, and then found to break a promise, is expired when that has left the ledger", () => {
  const it = after(record(2, LOST_BY), 0);
  assert.equal(verdict(it, "disk"), "lost");
  it.report("b", [first, record(2, { ...LOST_BY, finalMarks: { disk: "80" } })], { role: "primary" });
  it.present(1, 1, 80, "read");
  assert.equal(verdict(it, "disk"), "broken");
  forget(it);
  assert.equal(
    ask(it, "disk"),
    "expired",
    "by its marks it would be durable: that level promises nothing about another node",
  );
  assert.equal(it.judge(1, 1, 80, "disk", "read").rule, "R9 expired");
});

test("a read is judged, and not called expired, while no verdict about its epoch can have left the ledger", () => {
  const it = Driven.following(first);
  it.positions(80);
  it.sleep(it.state.config.keepVerdictMs);
  it.follow(first, record(2, LOST_BY));
  it.sleep(it.state.config.keepVerdictMs - 10_000);
  assert.equal(ask(it, "region"), "lost");
  it.sleep(20_000);
  assert.equal(verdict(it, "region"), "lost", "what is remembered is said");
});

test("a read of an epoch that is current again is judged by its next end", () => {
  const it = after(record(2, LOST_BY), 0);
  forget(it);
  assert.equal(ask(it, "disk"), "expired");
  it.follow(first);
  assert.equal(ask(it, "disk"), "durable");
  it.follow(first, record(3, { ...LOST_BY, previous: epochId(1) }));
  assert.equal(ask(it, "region"), "lost");
});

test("a read whose verdict has left the ledger is expired after a restart as well, and a younger one is judged", () => {
  const second = record(2, LOST_BY);
  const third = record(3, { node: "c", fork: 95, start: 99, limit: 96 });
  const it = after(second, 0);
  forget(it);
  it.follow(first, second, third);
  const disk = new Disk(it.state);
  for (const effect of it.effects) disk.take(effect, it.state);
  it.state = restore(it.state.config, it.nowMs, disk.read());
  it.follow(first, second, third);
  assert.equal(ask(it, "disk"), "expired");
  it.present(2, 2, 98, "read");
  it.positions(200);
  it.sleep(2_000);
  assert.equal(it.verdict(2, 2, 98, "region", "read"), "lost");
});

test("an epoch that was current at a restart is not old before its own end is", () => {
  const it = Driven.following(first);
  it.positions(80);
  const disk = new Disk(it.state);
  for (const effect of it.effects) disk.take(effect, it.state);
  it.state = restore(it.state.config, it.nowMs, disk.read());
  // Cut off from the primary, it follows nothing.
  it.sleep(it.state.config.keepVerdictMs + 1_000);
  it.follow(first, record(2, LOST_BY));
  it.positions(200);
  it.sleep(1_000);
  assert.equal(ask(it, "region"), "lost");
});

for (const cause of ["clean_restart", "reinstated"] as const)
  test(`a read on a server that goes on is kept above the fork, and durable when the mark passes it: ${cause}`, () => {
    const it = Driven.following(first);
    const second = record(2, { cause, fork: 75, start: 78, limit: null });
    it.follow(first, second);
    it.present(1, 1, 80, "read");
    it.positions(79);
    it.sleep(3_000);
    assert.equal(verdict(it, "disk"), "pending");
    it.positions(80);
    assert.equal(verdict(it, "disk"), "durable");
    assert.equal(it.published.length, 0);
  });

test("a read on a server that went on is lost by the crash after that, unless its place is known to be there", () => {
  const it = Driven.following(first);
  const second = record(2, { cause: "clean_restart", fork: 75, start: 78, limit: null });
  const crash = (limit: number | null): EpochRecord => record(3, { fork: 78, start: 90, limit });
  it.positions(70);
  it.follow(first, second, crash(79));
  it.present(1, 1, 80, "read");
  it.present(2, 1, 77, "read");
  it.positions(200);
  it.sleep(3_000);
  assert.equal(verdict(it, "disk"), "lost");
  assert.equal(it.verdict(2, 1, 77, "disk", "read"), "durable");
});

test("without a limit nothing says that a durable read was kept", () => {
  const it = after(record(2, { fork: 40, start: 90, limit: null }), 80);
  assert.equal(verdict(it, "region"), "lost");
  it.confirm(200, { b: ["s1", 200] });
  assert.equal(verdict(it, "region"), "lost");
});

test("a read that was carried over into a history that is given up goes back to where it came from", () => {
  const it = Driven.following(first);
  it.present(1, 1, 30, "read");
  it.follow(first, record(2, { node: "b", fork: 40, start: 60 }));
  it.follow(
    first,
    record(3, {
      node: "c",
      previous: epochId(1),
      fork: 35,
      start: 50,
      commanded: true,
      supersedes: [epochId(2)],
    }),
  );
  it.positions(60);
  assert.equal(it.verdict(1, 1, 30, "disk", "read"), "durable");
});
