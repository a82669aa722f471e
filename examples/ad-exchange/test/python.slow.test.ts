// Goal: the ad exchange in Python, as its README starts it, keeps every promise through a real failover, and its check would
// notice if one were not kept. Method: the program on the real system, whose primary's region is lost; then its check on
// claims that are wrong.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { eventually } from "@highwater/lab-tools/process";
import { System } from "@highwater/lab-system";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
/** Where the publishers are: in none of the regions, so that they outlive each. */
const HERE = "publishers";
const LIMIT_MS = 240_000;
const path = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));
const PYTHON = path("../../../.venv/bin/python");
const ENVIRONMENT = {
  ...process.env,
  PYTHONPATH: path("../../../sdk/python/src"),
  PYTHONDONTWRITEBYTECODE: "1",
};

interface Summary {
  readonly durable: number;
  readonly lost: number;
  readonly pending: number;
  readonly wrong: number;
}

/** The program, and the lines that it has printed. */
function start(context: TestContext, env: NodeJS.ProcessEnv) {
  const child = spawn(PYTHON, [path("../python/main.py")], {
    env: { ...ENVIRONMENT, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  context.after(() => child.kill("SIGKILL"));
  const lines: string[] = [];
  for (const input of [child.stdout, child.stderr])
    createInterface(input).on("line", (line) => lines.push(line));
  return { child, lines, closed: once(child, "close") };
}

test("the ad exchange in Python, through a failover", async (context) => {
  await using system = await System.start();
  const { cluster } = system;
  const endpoints = await system.endpoints(HERE);
  const databases = await Promise.all([EAST, WEST, EUROPE].map((node) => cluster.connectionString(node)));
  const { child, lines, closed } = start(context, {
    SECONDS: "600",
    GATEWAYS: endpoints.map(({ gateway }) => gateway).join(","),
    TRACKERS: endpoints.map(({ tracker }) => tracker).join(","),
    DATABASES: databases.join(","),
  });
  const reported = (kind: string): number =>
    Number(
      new RegExp(`(\\d+) ${kind}`).exec(lines.findLast((line) => line.includes(" durable,")) ?? "")?.[1] ?? 0,
    );
  /** Rejects with what the program has written last: in time when it has ended, else after the limit. */
  const until = async (what: string, condition: () => boolean | Promise<boolean>): Promise<void> => {
    const said = (): string => `${what}; the program's last lines:\n${lines.slice(-20).join("\n")}`;
    const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null;
    const found = await eventually(
      said,
      async () => (hasEnded() ? "ended" : (await condition()) && "so"),
      LIMIT_MS,
    );
    assert.equal(found, "so", said());
  };
  await until("auctions become durable", () => reported("durable") >= 30);
  await Promise.all([WEST, EUROPE].map((region) => cluster.link(EAST, region).cut()));
  await until("nothing becomes durable any more", () => reported("pending") >= 20);
  await system.killRegion(EAST);
  const primary = await cluster.mostAdvancedReplica();
  await cluster.promote(primary);
  await until("what was pending is lost", () => reported("lost") >= 20);
  const durable = reported("durable");
  await until("the auctions go on", () => reported("durable") >= durable + 20);
  child.kill("SIGTERM");
  const [code] = (await closed) as [number | null];
  assert.equal(code, 0, lines.slice(-10).join("\n"));
  const summary = JSON.parse(lines.findLast((line) => line.startsWith("{")) ?? "") as Summary;
  context.diagnostic(JSON.stringify(summary));
  assert.equal(summary.wrong, 0);
  assert.equal(summary.pending, 0);
  assert.ok(summary.lost >= 20);
  const rows = await cluster.query(primary, "SELECT count(*)::int AS bids FROM bid");
  assert.ok(Number(rows[0]?.["bids"]) > 0);
});

test("its check finds claims that are wrong", async () => {
  const program = `
from check import Fate, faults_of
from recorder import Claim

def claim(reported=None, **given):
    return Claim("a", "bid", False, answer="committed", token="t", reported=reported, **given)

there, twice, gone = {"a": 1}, {"a": 2}, {}
assert faults_of(claim("durable", wrote=True), Fate("durable"), there) == []
assert faults_of(claim("lost", wrote=True), Fate("lost"), gone) == []
assert faults_of(claim("lost"), Fate("lost", is_retried=True), there) == []
for wrong, fate, rows in [
    (claim("durable", wrote=True), Fate("durable"), gone),
    (claim("durable", wrote=True), Fate("durable"), twice),
    (claim("durable", wrote=True), Fate("lost"), gone),
    (claim("lost"), Fate("lost"), there),
    (claim(None), Fate("pending"), there),
    (claim("broken"), Fate("broken"), gone),
    (Claim("a", "bid", False, answer="aborted"), Fate("aborted"), there),
    (Claim("r", "look", True, answer="committed", reported="durable", seen=frozenset("b")), Fate("durable"), there),
]:
    assert len(faults_of(wrong, fate, rows)) >= 1, (wrong, fate, rows)
print("found")
`;
  const PYTHONPATH = `${ENVIRONMENT.PYTHONPATH}:${path("../python")}`;
  const run = await promisify(execFile)(PYTHON, ["-c", program], { env: { ...ENVIRONMENT, PYTHONPATH } });
  assert.equal(run.stdout.trim(), "found");
});
