// Goal: the published Python library accepts the tracker's signatures, also with both secrets
// during a rotation, and refuses all others.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { makeSecret, signatureHeaders } from "../../src/webhooks/signature.ts";

const PYTHON =
  process.env["WEBHOOKS_TEST_PYTHON"] ??
  fileURLToPath(new URL("../../../../.venv/bin/python", import.meta.url));
const VERIFY = fileURLToPath(new URL("verify.py", import.meta.url));

const hasLibrary = existsSync(PYTHON) && spawnSync(PYTHON, ["-c", "import standardwebhooks"]).status === 0;

test("verified by standardwebhooks for Python", { skip: hasLibrary ? false : "it is not in .venv" }, () => {
  const [current, before, stranger] = [makeSecret(), makeSecret(), makeSecret()];
  const body = JSON.stringify({
    type: "webhook.test",
    timestamp: new Date().toISOString(),
    data: { text: "grüße 🙂" },
  });
  const nowMs = Date.now();
  const both = { current, previous: { secret: before, untilMs: nowMs + 60_000 } };
  const headers = signatureHeaders(both, { id: "msg_1", body }, nowMs);
  const later = { ...headers, "webhook-timestamp": String(Number(headers["webhook-timestamp"]) + 1) };
  const alone = signatureHeaders({ current, previous: null }, { id: "msg_1", body }, nowMs);
  const cases: readonly (readonly [string, Record<string, string>, string, string])[] = [
    [current, headers, body, "ok"],
    [before, headers, body, "ok"],
    [stranger, headers, body, "refused"],
    [current, headers, `${body} `, "refused"],
    [current, later, body, "refused"],
    [current, { ...headers, "webhook-id": "msg_2" }, body, "refused"],
    [current, alone, body, "ok"],
    [before, alone, body, "refused"],
  ];
  const input = cases
    .map(([secret, sent, text]) => JSON.stringify({ secret, headers: sent, body: text }))
    .join("\n");
  const { stdout, stderr, status } = spawnSync(PYTHON, [VERIFY], { input, encoding: "utf8" });
  assert.equal(status, 0, stderr);
  assert.deepEqual(
    stdout.trim().split("\n"),
    cases.map(([, , , expected]) => expected),
  );
});
