// Goal: the account is what a definition by brute force says, whatever commits, marks and epochs come in whatever order.
// Method: the model keeps every transaction in a list and counts anew each time; the account keeps its sums.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type EpochId, type Offset } from "@highwater/protocol";
import { Account, type Exposed } from "./account.ts";

const EPOCHS = ["e0", "e1", "e2", "e3", "e4"] as EpochId[];
const OWNERS = [0n, 7n, -3n];

interface Known {
  readonly exposed: Exposed;
  readonly owner: bigint;
  state: "reserved" | "released" | "committed";
  epoch: number;
  offset: bigint;
  atMs: number;
}

/** Every transaction, and for every epoch its start and the highest mark received while it was current. */
class Model {
  readonly known: Known[] = [];
  readonly starts: bigint[] = [0n];
  readonly marks: (bigint | undefined)[] = [undefined];
  epoch = 0;

  /** In its own epoch its offset decides; after that, for good, the start of each later epoch in which it was pending. */
  isPending({ state, epoch, offset }: Known): boolean {
    if (state !== "committed") return false;
    for (let at = epoch; at <= this.epoch; at++) {
      const mark = this.marks[at];
      const reached = at === epoch ? offset : (this.starts[at] ?? 0n);
      if (mark !== undefined && mark >= reached) return false;
    }
    return true;
  }

  pending(owner: bigint | null): Known[] {
    return this.known.filter((one) => (owner === null || one.owner === owner) && this.isPending(one));
  }

  reserved(owner: bigint | null): number {
    return this.known.filter((one) => (owner === null || one.owner === owner) && one.state === "reserved")
      .length;
  }
}

const small = (max: number): fc.Arbitrary<number> => fc.integer({ min: 0, max });
const command = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("reserve" as const), owner: small(2) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("release" as const), which: small(50) }) },
  {
    weight: 8,
    arbitrary: fc.record({
      ...{ kind: fc.constant("commit" as const), which: small(50), offset: small(60), late: small(2) },
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant("mark" as const), offset: small(70), late: small(3) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      ...{ kind: fc.constant("begin" as const), start: small(60), mark: fc.option(small(70)) },
    }),
  },
);

test("the account counts what a list of all transactions counts", () => {
  fc.assert(
    fc.property(fc.array(command, { maxLength: 200 }), (commands) => {
      const account = new Account();
      const model = new Model();
      account.begin({ epoch: EPOCHS[0] ?? fail(), startOffset: 0n as Offset, mark: undefined });
      let nowMs = 0;
      for (const one of commands) {
        nowMs++;
        const open = model.known.filter(({ state }) => state === "reserved");
        switch (one.kind) {
          case "reserve": {
            const owner = OWNERS[one.owner] ?? 0n;
            const exposed = account.reserve(owner);
            model.known.push({ exposed, owner, state: "reserved", epoch: 0, offset: 0n, atMs: 0 });
            break;
          }
          case "release": {
            const chosen = open[one.which % open.length];
            if (chosen === undefined) break;
            account.release(chosen.exposed);
            chosen.state = "released";
            break;
          }
          case "commit": {
            const chosen = open[one.which % open.length];
            if (chosen === undefined) break;
            // The answer to a commit of an epoch that is over by then.
            const epoch = Math.max(0, model.epoch - one.late);
            const offset = BigInt(one.offset);
            const known = { epoch: EPOCHS[epoch] ?? fail(), offset: offset as Offset, nowMs };
            // A late one was never in the account of its own epoch: it counts as of now.
            const isLate = epoch !== model.epoch;
            Object.assign(chosen, {
              ...{ state: "committed", epoch: model.epoch, atMs: nowMs },
              offset: isLate ? (model.starts[model.epoch] ?? 0n) : offset,
            });
            account.commit(chosen.exposed, known);
            // Marks are monotone; what they have passed is over at once, and a second word on it changes nothing.
            account.release(chosen.exposed);
            account.commit(chosen.exposed, known);
            break;
          }
          case "mark": {
            const epoch = Math.max(0, model.epoch - (one.late === 3 ? 1 : 0));
            const mark = BigInt(one.offset);
            const before = model.pending(null).length;
            if (epoch === model.epoch) {
              const previous = model.marks[epoch];
              if (previous === undefined || previous < mark) model.marks[epoch] = mark;
            }
            const settled = account.advance(EPOCHS[epoch] ?? fail(), mark as Offset);
            assert.equal(settled, before - model.pending(null).length);
            break;
          }
          case "begin": {
            const next = EPOCHS[model.epoch + 1];
            if (next === undefined) break;
            model.epoch++;
            model.starts.push(BigInt(one.start));
            model.marks.push(one.mark === null ? undefined : BigInt(one.mark));
            const mark = model.marks.at(-1) as Offset | undefined;
            account.begin({ epoch: next, startOffset: BigInt(one.start) as Offset, mark });
            // An epoch that has ended does not become current again.
            account.begin({ epoch: EPOCHS[0] ?? fail(), startOffset: 0n as Offset, mark: 1_000n as Offset });
            break;
          }
        }
        compare(account, model);
      }
    }),
    { numRuns: 400 },
  );
});

function compare(account: Account, model: Model): void {
  for (const owner of [null, ...OWNERS]) {
    const pending = model.pending(owner);
    const reserved = model.reserved(owner);
    const tally = owner === null ? account.total : account.owners.get(owner);
    assert.deepEqual([tally?.pending ?? 0, tally?.reserved ?? 0], [pending.length, reserved]);
    assert.equal(tally?.oldestAtMs ?? null, pending.length === 0 ? null : Math.min(...pending.map(atOf)));
    if (tally === undefined || pending.length === 0) {
      if (tally !== undefined) assert.equal(account.bytesOf(tally), 0n);
      continue;
    }
    // Of what is pending in the current epoch, everything above the mark can be lost.
    const mark = model.marks[model.epoch];
    const here = pending.filter(({ epoch }) => epoch === model.epoch).map(({ offset }) => offset);
    const newest = here.reduce((most, offset) => (offset > most ? offset : most), 0n);
    if (mark !== undefined && newest > mark) assert.ok(account.bytesOf(tally) >= newest - mark);
  }
  assert.deepEqual(
    [...account.owners.keys()].sort(),
    OWNERS.filter((owner) => model.pending(owner).length + model.reserved(owner) > 0).sort(),
    "nothing is kept of owners who have nothing",
  );
}

const atOf = ({ atMs }: Known): number => atMs;

function fail(): never {
  throw new Error("there is no such epoch");
}
