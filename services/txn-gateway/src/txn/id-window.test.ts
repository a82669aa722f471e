import assert from "node:assert/strict";
import { test } from "node:test";
import { HighwaterError } from "@highwater/protocol";
import { newId } from "../../test/support/fakes.ts";
import { checkIdWindow, type IdWindow } from "./id-window.ts";

const NOW = 1_800_000_000_000;
const WINDOW = { nowMs: NOW, retentionMs: 3_600_000, futureMs: 300_000 };

const codeOf = (offsetMs: number, window: IdWindow = WINDOW): string => {
  try {
    checkIdWindow(newId(NOW + offsetMs), window);
    return "accepted";
  } catch (error) {
    assert.ok(error instanceof HighwaterError);
    return error.code;
  }
};

test("both ends of the window belong to it", () => {
  assert.equal(codeOf(0), "accepted");
  assert.equal(codeOf(-3_600_000), "accepted");
  assert.equal(codeOf(-3_600_001), "id_expired");
  assert.equal(codeOf(300_000), "accepted");
  assert.equal(codeOf(300_001), "id_out_of_window");
  assert.equal(codeOf(7_200_000), "id_out_of_window");
});

test("while the primary's clock is not known the store decides", () => {
  for (const offsetMs of [-86_400_000, 0, 86_400_000])
    assert.equal(codeOf(offsetMs, { ...WINDOW, nowMs: null }), "accepted");
});
