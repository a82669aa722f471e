// The process as an operator sees it: its one line, its log, its exit codes. No database is needed for that.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { TEST_DEPLOYMENT } from "@highwater/service/testing";

const MAIN = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const TRACKER_MAIN = fileURLToPath(new URL("../../../durability-tracker/src/main.ts", import.meta.url));
const TOPOLOGY = JSON.stringify({
  nodes: [{ id: "a", region: "r", zone: "z", url: "postgresql://svc:hunter2@127.0.0.1:1/app" }],
  levels: { disk: { primary: true } },
});
const ENV = { ...TEST_DEPLOYMENT, GATEWAY_REGION: "r", HIGHWATER_TOPOLOGY: TOPOLOGY };

interface Run {
  readonly child: ChildProcess;
  readonly exited: Promise<number | null>;
  stdout: string;
  stderr: string;
}

function start(env: Record<string, string>, main = MAIN): Run {
  const { PATH = "" } = process.env;
  const child = spawn(process.execPath, [main], { env: { PATH, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  // All that it has written has come by then; at its "exit" the rest may be on its way.
  const exited = once(child, "close").then(([code]) => code as number | null);
  const run: Run = { child, exited, stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => (run.stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (run.stderr += text));
  return run;
}

test("says where it listens in one line, and ends with 0 on a signal", async () => {
  const run = start({ ...ENV, GATEWAY_NAME: "g1" });
  while (!run.stdout.includes("\n")) await once(run.child.stdout ?? run.child, "data");
  const said = JSON.parse(run.stdout) as { service: string; url: string };
  assert.equal(said.service, "txn-gateway");
  assert.match(said.url, /^http:\/\/127\.0\.0\.1:[0-9]+$/);
  assert.equal((await fetch(`${said.url}/healthz`)).status, 200);
  assert.equal((await fetch(`${said.url}/readyz`)).status, 503);
  run.child.kill("SIGTERM");
  assert.equal(await run.exited, 0);
  assert.equal(run.stdout.split("\n").length, 2);
  for (const line of run.stderr.trim().split("\n")) assert.ok("event" in (JSON.parse(line) as object), line);
  assert.doesNotMatch(run.stderr, /hunter2/);
});

test("a wrong configuration ends it with 2, and every fault is logged", async () => {
  const run = start({
    ...TEST_DEPLOYMENT,
    ...{ GATEWAY_NAME: "g1", GATEWAY_PORT: "x", HIGHWATER_TOPOLOGY: TOPOLOGY.slice(1) },
  });
  assert.equal(await run.exited, 2);
  const line = JSON.parse(run.stderr) as { event: string; faults: string[] };
  assert.equal(line.event, "configuration_refused");
  assert.equal(line.faults.length, 3);
  assert.equal(run.stdout, "");
  assert.doesNotMatch(run.stderr, /hunter2/);
});

test("without keys of its deployment it does not start, and says what is missing", async () => {
  for (const main of [MAIN, TRACKER_MAIN]) {
    const both = { TRACKER_NAME: "t", TRACKER_REGION: "r", TRACKER_LEDGER: "/nowhere/ledger.sqlite" };
    const run = start(
      { GATEWAY_NAME: "g1", GATEWAY_REGION: "r", HIGHWATER_TOPOLOGY: TOPOLOGY, ...both },
      main,
    );
    assert.equal(await run.exited, 2);
    const { faults } = JSON.parse(run.stderr) as { faults: string[] };
    assert.deepEqual(
      faults.map((fault) => fault.split(" ").slice(0, 3).join(" ")),
      ["HIGHWATER_DEPLOYMENT is required", "HIGHWATER_DEPLOYMENT_KEYS is required:"],
    );
  }
});

test("no log shows a secret of the deployment", async () => {
  const run = start({ ...ENV, GATEWAY_NAME: "g1" });
  while (!run.stdout.includes("\n")) await once(run.child.stdout ?? run.child, "data");
  run.child.kill("SIGTERM");
  assert.equal(await run.exited, 0);
  const [{ secret }] = JSON.parse(TEST_DEPLOYMENT.HIGHWATER_DEPLOYMENT_KEYS) as [{ secret: string }];
  assert.ok(!run.stderr.includes(secret));
  assert.match(run.stderr, /"deploymentKeys":\[\{"kid":1,"validFrom":"1970-01-01T00:00:00.000Z"\}\]/);
});

test("a port that is taken ends it with 1", async () => {
  const first = start({ ...ENV, GATEWAY_NAME: "g1" });
  while (!first.stdout.includes("\n")) await once(first.child.stdout ?? first.child, "data");
  const { port } = new URL((JSON.parse(first.stdout) as { url: string }).url);
  const second = start({ ...ENV, GATEWAY_NAME: "g2", GATEWAY_PORT: port });
  assert.equal(await second.exited, 1);
  first.child.kill("SIGINT");
  assert.equal(await first.exited, 0);
});
