// Goal: numbers, offsets and times read as they do in PostgreSQL and in the docs.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Offset } from "@highwater/protocol";
import { formatLsn as formatOfTheStore } from "@highwater/store/internals";
import { formatBytes, formatCount, formatLsn, formatMs } from "./format.ts";

test("bytes, counts and durations", () => {
  assert.deepEqual([0, 1_023, 1_536, 20_971_520].map(formatBytes), ["0 B", "1023 B", "1.5 KiB", "20 MiB"]);
  assert.equal(formatBytes(3n * 2n ** 40n), "3.0 TiB");
  assert.deepEqual([0, 999, 1_000, 1_234_567].map(formatCount), ["0", "999", "1,000", "1,234,567"]);
  assert.deepEqual([0, 0.44, 62.5, 1_500, 600_000, 7_200_000].map(formatMs), [
    "0 ms",
    "0.4 ms",
    "63 ms",
    "1.5 s",
    "10 min",
    "2 h",
  ]);
});

test("an offset reads as PostgreSQL prints it, and as the rest of the product does", () => {
  assert.equal(formatLsn("50331976"), "0/3000148");
  assert.equal(formatLsn((1n << 32n) + 255n), "1/FF");
  for (const offset of [0n, 0x16b374d848n, 2n ** 64n - 1n])
    assert.equal(formatLsn(offset), formatOfTheStore(offset as Offset));
});
