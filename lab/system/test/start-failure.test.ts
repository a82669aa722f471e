// Goal: a system that cannot start reports why, keeps the log file that its message names, and
// leaves no process running. Method: a gateway with a setting that it refuses, and a tracker that
// starts.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFile, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { test } from "node:test";
import { processesWith } from "@highwater/lab-tools/process";
import { System } from "../src/index.ts";

const REGION = "us-east";
const REASON = "GATEWAY_AUTH must be";

test("a service that does not start leaves its log", async () => {
  const mark = randomUUID();
  const starting = System.start({
    cluster: { nodes: [{ id: REGION, region: REGION }] },
    levels: { disk: { primary: true } },
    env: { GATEWAY_AUTH: "nonsense", HIGHWATER_TEST_MARK: mark },
  });
  const { message } = await starting.then(
    () => assert.fail("it starts with a setting that is none"),
    (error: unknown) => error as Error,
  );
  assert.match(message, /^gateway-us-east exited while it started, with code 2\. Its log is kept in /);
  assert.ok(message.includes(REASON), message);
  const file = /kept in (.+)\. It wrote last:/.exec(message)?.[1] ?? "";
  const log = await readFile(file, "utf8");
  await rm(dirname(file), { recursive: true });
  assert.ok(log.includes(REASON), log);
  assert.deepEqual(processesWith(mark), []);
});
