import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import fc from "fast-check";
import { makeUuidV7, txnTimestampMs } from "@highwater/protocol";
import { MIGRATION_FILES, uuidFloor } from "./prepare.ts";

test("no two migrations have the same number", () => {
  const numbers = MIGRATION_FILES.map((file) => file.slice(0, 4));
  assert.ok(numbers.length > 20, "the folder of the migrations is read");
  for (const number of numbers) assert.match(number, /^[0-9]{4}$/);
  assert.deepEqual([...new Set(numbers)], numbers);
});

describe("the lowest UUID of a millisecond", () => {
  it("carries the millisecond in its first 48 bits", () => {
    assert.equal(uuidFloor(0), "00000000-0000-0000-0000-000000000000");
    assert.equal(uuidFloor(1), "00000000-0001-0000-0000-000000000000");
    assert.equal(uuidFloor(0x0192f3a4b5c6), "0192f3a4-b5c6-0000-0000-000000000000");
    assert.equal(uuidFloor(2 ** 48 - 1), "ffffffff-ffff-0000-0000-000000000000");
    assert.equal(uuidFloor(-5), uuidFloor(0), "there is no time before 1970");
    assert.equal(uuidFloor(7.9), uuidFloor(7));
  });

  it("divides ids by their time, whatever their random bytes", () => {
    const time = fc.integer({ min: 1, max: 2 ** 48 - 2 });
    const random = fc.uint8Array({ minLength: 10, maxLength: 10 });
    fc.assert(
      fc.property(time, time, random, (idMs, boundaryMs, bytes) => {
        const id = makeUuidV7(idMs, bytes);
        assert.equal(txnTimestampMs(id), idMs);
        // UUIDs sort by their bytes, on the server as here.
        assert.equal(id < uuidFloor(boundaryMs), idMs < boundaryMs);
      }),
    );
  });
});
