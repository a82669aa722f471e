// Goal: every side decodes the golden messages, so a change of the wire changes a file that a reviewer sees.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { type TSchema } from "typebox";
import * as protocol from "./index.ts";

const DIR = new URL("../fixtures/", import.meta.url);

interface Fixture {
  readonly schema: string;
  readonly valid: boolean;
  readonly message: unknown;
}

for (const file of readdirSync(DIR).filter((name) => name.endsWith(".json"))) {
  test(`golden message ${file}`, () => {
    const fixture = JSON.parse(readFileSync(new URL(file, DIR), "utf8")) as Fixture;
    const schema = (protocol as unknown as Record<string, TSchema | undefined>)[fixture.schema];
    assert.ok(schema !== undefined, `no schema ${fixture.schema}`);
    const checked = protocol.validate(schema, fixture.message);
    assert.equal(checked.ok, fixture.valid, JSON.stringify(checked));
  });
}

test("there is a golden message for every schema of the wire", () => {
  const named = new Set(
    readdirSync(DIR).map((file) => (JSON.parse(readFileSync(new URL(file, DIR), "utf8")) as Fixture).schema),
  );
  for (const schema of [
    "TransactionRequest",
    "TransactionResponse",
    "TransactionStateResponse",
    "VerdictsRequest",
    "VerdictsResponse",
    "EpochEvent",
    "Marks",
    "AnnouncementBatch",
    "Topology",
  ])
    assert.ok(named.has(schema), schema);
});
