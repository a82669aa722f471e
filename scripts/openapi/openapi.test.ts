// Goal: what docs/reference hands to makers of clients is OpenAPI 3.1 by the specification's own schema.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { runTool } from "@highwater/lab-tools/process";
import { WEBHOOK_EVENT_TYPES } from "@highwater/protocol";

const pathOf = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const PYTHON = pathOf("../../.venv/bin/python");

for (const name of ["openapi.json", "tracker-openapi.json"])
  test(`docs/reference/${name} is valid OpenAPI 3.1`, async () => {
    const args = [pathOf("validate.py"), pathOf(`../../docs/reference/${name}`)];
    const { code, output } = await runTool(PYTHON, args, { cwd: tmpdir() });
    assert.equal(code, 0, output);
  });

test("the tracker's document has every message that webhooks send, and its headers", () => {
  const path = pathOf("../../docs/reference/tracker-openapi.json");
  const { webhooks } = JSON.parse(readFileSync(path, "utf8")) as {
    readonly webhooks: Readonly<Record<string, { post: { parameters: readonly { name: string }[] } }>>;
  };
  assert.deepEqual(Object.keys(webhooks).sort(), [...WEBHOOK_EVENT_TYPES, "webhook.test"].sort());
  for (const { post } of Object.values(webhooks))
    assert.deepEqual(
      post.parameters.map(({ name }) => name),
      ["webhook-id", "webhook-timestamp", "webhook-signature"],
    );
});
