import assert from "node:assert/strict";
import { test } from "node:test";
import { LongText } from "./long-text.ts";
import { type Kind } from "./statement.ts";

/** In parts of this size. */
function found(text: string, size: number, kind: Kind = "other"): LongText["found"] {
  const bytes = Buffer.from(text);
  const long = new LongText(kind);
  for (let at = 0; at < bytes.length; at += size) long.see(bytes, at, Math.min(bytes.length, at + size));
  return long.found;
}

const SIZES = Array.from({ length: 60 }, (_, at) => at + 1);

test("a setting in a long text is found wherever the text is split", () => {
  for (const size of SIZES) {
    for (const text of ["SET HighWater.Level = 'x'; INSERT", "SELECT set_config($1, $2, false)"])
      assert.equal(found(text, size)?.changes?.when, "always", text);
    const { namesId, isSeveral } = found("SET highwater.id = 'x'; INSERT", size) ?? {};
    assert.deepEqual([namesId, isSeveral], [true, true]);
  }
});

test("a long text without settings changes none, and neither does a value", () => {
  for (const size of SIZES) {
    for (const text of ["SELECT 'high water'; INSERT", "SELECT set_config('app.tenant', 'x', true)"])
      assert.equal(found(text, size), null, text);
    assert.equal(found("INSERT INTO t VALUES ('highwater.level')", size, "data"), null);
    assert.notEqual(found("INSERT INTO t VALUES (1); SET highwater.level = 'x'", size, "data"), null);
  }
});
