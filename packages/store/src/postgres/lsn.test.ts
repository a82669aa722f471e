import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { type Offset } from "@highwater/protocol";
import { endOfLog, formatLsn, parseLsn } from "./lsn.ts";

const SEGMENT = 16n * 1024n * 1024n;
const PAGE = 8192n;
const offset = (value: bigint): Offset => value as Offset;

describe("LSNs as text", () => {
  it("reads and writes what the server writes", () => {
    assert.equal(parseLsn("0/0"), 0n);
    assert.equal(parseLsn("16/B374D848"), 0x16b374d848n);
    assert.equal(formatLsn(offset(0x16b374d848n)), "16/B374D848");
    assert.equal(formatLsn(offset(0x100000028n)), "1/28");
    assert.equal(parseLsn("FFFFFFFF/FFFFFFFF"), 2n ** 64n - 1n);
  });

  it("refuses what is no LSN", () => {
    for (const text of ["", "16", "x/y", "0x10"]) assert.throws(() => parseLsn(text), text);
  });

  it("comes back the same", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), (value) => {
        assert.equal(parseLsn(formatLsn(offset(value))), value);
      }),
    );
  });
});

describe("the end of the log behind an insert position", () => {
  it("is the page's end when the position is right behind the next page's header", () => {
    assert.equal(endOfLog(offset(SEGMENT + 2n * PAGE + 24n), SEGMENT), SEGMENT + 2n * PAGE);
    assert.equal(endOfLog(offset(SEGMENT + PAGE + 24n), SEGMENT), SEGMENT + PAGE);
  });

  it("is the segment's end when the position is right behind the next segment's header", () => {
    assert.equal(endOfLog(offset(5n * SEGMENT + 40n), SEGMENT), 5n * SEGMENT);
  });

  it("is the position itself anywhere else", () => {
    for (const place of [48n, 64n, PAGE, PAGE + 32n, PAGE + 40n, 3n * PAGE - 8n])
      assert.equal(endOfLog(offset(SEGMENT + place), SEGMENT), SEGMENT + place);
    // A first page has the long header, so nothing ever ends behind a short one there.
    assert.equal(endOfLog(offset(SEGMENT + 24n), SEGMENT), SEGMENT + 24n);
  });

  it("is what the server itself calls the end, for every byte of the log and every size of segment", () => {
    // The log's usable bytes, counted without headers, are what the server keeps; xlog.c makes both positions from them.
    const segments = fc.constantFrom(1n, 16n, 64n, 1024n).map((mebibytes) => mebibytes * 1024n * 1024n);
    const around = fc.oneof(fc.bigInt({ min: 0n, max: 2n ** 40n }), fc.bigInt({ min: 0n, max: 4096n }));
    fc.assert(
      fc.property(segments, around, fc.boolean(), (segment, bytes, atPageEnd) => {
        const aligned = bytes - (bytes % 8n);
        const place = atPageEnd ? firstPage + (aligned / 8n) * usableInPage : aligned;
        assert.equal(endOfLog(recordStart(place, segment), segment), recordEnd(place, segment));
      }),
      { numRuns: 2_000 },
    );
  });
});

const usableInPage = PAGE - 24n;
const firstPage = PAGE - 40n;

function split(place: bigint, segment: bigint): { base: bigint; left: bigint } {
  const usable = (segment / PAGE) * usableInPage - 16n;
  return { base: (place / usable) * segment, left: place % usable };
}

/** XLogBytePosToRecPtr. */
function recordStart(place: bigint, segment: bigint): Offset {
  const { base, left } = split(place, segment);
  if (left < firstPage) return offset(base + left + 40n);
  const behind = left - firstPage;
  return offset(base + PAGE + (behind / usableInPage) * PAGE + (behind % usableInPage) + 24n);
}

/** XLogBytePosToEndRecPtr. */
function recordEnd(place: bigint, segment: bigint): Offset {
  const { base, left } = split(place, segment);
  if (left < firstPage) return offset(left === 0n ? base : base + left + 40n);
  const behind = left - firstPage;
  const inPage = behind % usableInPage;
  return offset(base + PAGE + (behind / usableInPage) * PAGE + (inPage === 0n ? 0n : inPage + 24n));
}
