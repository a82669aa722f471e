// Goal: a changed file changes the levels, whatever way it was changed, and nothing else in it
// takes effect. Method: real files in a folder of the test, and a clock that only the test moves.
import assert from "node:assert/strict";
import { mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { eventually } from "@highwater/lab-tools/process";
import { DEFAULT_LEVELS, type NodeSpec, type Topology } from "@highwater/protocol";
import { FakeClock } from "@highwater/runtime/testing";
import { type LogFields } from "./log.ts";
import { MetricSet } from "./metrics/index.ts";
import { TopologyFile, topologyPath } from "./topology-file.ts";

const NODES: NodeSpec[] = ["east", "west"].map((id) => ({
  ...{ id, region: id, zone: `${id}-a` },
  url: `postgresql://svc:hunter2@${id}/app`,
}));
const START: Topology = { nodes: NODES, levels: DEFAULT_LEVELS };
const DISK_ONLY: Topology = { nodes: NODES, levels: { disk: { primary: true } } };
const POLL_MS = 2_000;

let folder: string;
let path: string;
let clock: FakeClock;
let metrics: MetricSet;
let logged: { event: string; fields: LogFields }[];
let taken: (readonly string[])[];
let vetoed: string | null;
let file: TopologyFile;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "highwater-topology-"));
  path = join(folder, "topology.json");
  write(START);
  clock = new FakeClock();
  metrics = new MetricSet();
  logged = [];
  taken = [];
  vetoed = null;
  const log = (event: string, fields: LogFields = {}): void => {
    logged.push({ event, fields });
  };
  file = new TopologyFile({ path, current: START, clock, log: { info: log, warn: log, error: log } });
  file.start({
    metrics,
    faultsOf: () => (vetoed === null ? [] : [vetoed]),
    onLevels: (levels) => {
      taken.push(Object.keys(levels));
    },
  });
  // Waits for the first look at the file.
  await eventually("it waits", () => clock.pendingTimers === 1);
});

afterEach(() => {
  file.stop();
  rmSync(folder, { recursive: true });
});

function write(content: Topology | string, to = path): void {
  writeFileSync(to, typeof content === "string" ? content : JSON.stringify(content));
}

/** One complete look at the file. */
async function poll(): Promise<void> {
  await clock.advance(POLL_MS);
  await eventually("it waits again", () => clock.pendingTimers === 1);
}

const gauge = (): string => /^highwater_topology_refused (\d)$/m.exec(metrics.render())?.[1] ?? "";
const refusals = (): unknown[] =>
  logged.filter(({ event }) => event === "topology_refused").map(({ fields }) => fields["faults"]);

test("the content at the start is not reported as a change", async () => {
  await poll();
  write(`\n${JSON.stringify(START, null, 2)}\n`);
  await poll();
  assert.deepEqual([taken, logged, gauge()], [[], [], "0"]);
});

test("levels are read from a file that was rewritten, replaced by rename, or is a link to another", async () => {
  write(DISK_ONLY);
  await poll();
  assert.deepEqual(taken, [["disk"]]);
  write(START, `${path}.new`);
  renameSync(`${path}.new`, path);
  await poll();
  assert.deepEqual(taken.at(-1), ["disk", "region", "global"]);
  // As an orchestrator mounts it: the name is a link, and the link is replaced.
  write(DISK_ONLY, join(folder, "second.json"));
  symlinkSync(join(folder, "second.json"), `${path}.link`);
  renameSync(`${path}.link`, path);
  await poll();
  assert.deepEqual(taken.at(-1), ["disk"]);
  assert.deepEqual(file.current.levels, DISK_ONLY.levels);
  assert.match(metrics.render(), /highwater_topology_reloads_total\{outcome="taken"\} 3/);
});

test("the order of the levels counts", async () => {
  const { disk, region, global } = DEFAULT_LEVELS;
  assert.ok(disk !== undefined && region !== undefined && global !== undefined);
  write({ nodes: NODES, levels: { disk, global, region } });
  await poll();
  assert.deepEqual(taken, [["disk", "global", "region"]]);
});

test("half a file is not refused as long as the other half may still come", async () => {
  const text = JSON.stringify(DISK_ONLY);
  write(text.slice(0, text.length / 2));
  await poll();
  assert.deepEqual([taken, logged], [[], []]);
  write(text);
  await poll();
  assert.deepEqual([taken, refusals()], [[["disk"]], []]);
});

test("what stays wrong is refused once, loudly and without its text, and is forgotten when it is right", async () => {
  write('{"hunter2"');
  for (let times = 0; times < 4; times++) await poll();
  assert.deepEqual([taken, refusals(), gauge()], [[], [["is not JSON"]], "1"]);
  write({ nodes: NODES, levels: { far: { replicas: 2, outside: "region" } } });
  await poll();
  await poll();
  assert.equal(refusals().length, 2);
  assert.match(String(refusals()[1]), /level far can never be reached/);
  assert.match(metrics.render(), /highwater_topology_reloads_total\{outcome="refused"\} 2/);
  assert.doesNotMatch(JSON.stringify(logged), /hunter2/);
  assert.deepEqual(file.current, START);
  write(START);
  await poll();
  assert.deepEqual([taken, gauge()], [[], "0"]);
  write(DISK_ONLY);
  await poll();
  assert.deepEqual(taken, [["disk"]]);
});

test("a file that is gone changes nothing, and is read again when it is back", async () => {
  rmSync(path);
  await poll();
  await poll();
  await poll();
  assert.deepEqual([taken, refusals(), gauge()], [[], [["the file is unreadable: ENOENT"]], "1"]);
  write(DISK_ONLY);
  await poll();
  assert.deepEqual([taken, gauge()], [[["disk"]], "0"]);
});

test("nodes do not change, nor do the levels that come with other nodes; their order is no change", async () => {
  const moved = NODES.map((node) => ({ ...node, url: node.url.replace("hunter2", "hunter3") }));
  write({ nodes: moved, levels: DISK_ONLY.levels });
  await poll();
  await poll();
  assert.deepEqual([taken, refusals()], [[], [["restart to change nodes: east, west"]]]);
  const third = { id: "south", region: "south", zone: "s", url: "postgresql://south/app" };
  write({ nodes: [...NODES, third], levels: DISK_ONLY.levels });
  await poll();
  await poll();
  assert.deepEqual([taken, refusals().at(-1)], [[], ["restart to change nodes: south"]]);
  assert.doesNotMatch(JSON.stringify(logged), /hunter/);
  write({ nodes: [...NODES].reverse(), levels: DISK_ONLY.levels });
  await poll();
  assert.deepEqual(taken, [["disk"]]);
});

test("the service has a say in it", async () => {
  vetoed = "the level region is needed";
  write(DISK_ONLY);
  await poll();
  await poll();
  assert.deepEqual([taken, refusals()], [[], [["the level region is needed"]]]);
});

test("on request it reads at once, and reports the fault again", async () => {
  write("{");
  await file.reload();
  await file.reload();
  assert.deepEqual(refusals(), [["is not JSON"], ["is not JSON"]]);
  write(DISK_ONLY);
  await file.reload();
  assert.deepEqual(taken, [["disk"]]);
  await file.reload();
  assert.deepEqual(taken, [["disk"]]);
});

test("only a variable that names a file has one", () => {
  assert.equal(topologyPath({ HIGHWATER_TOPOLOGY: "@/etc/topology.json" }), "/etc/topology.json");
  assert.equal(topologyPath({ HIGHWATER_TOPOLOGY: "{}" }), null);
  assert.equal(topologyPath({}), null);
});
