// Goal: the command names the node whose promotion loses the least, reports when too few nodes have
// answered, and predicts the losses correctly. Method: three regions on real PostgreSQL, replicas
// that lag by known numbers of commits, and the loss of the primary's region. The command runs as a
// process, and its numbers are compared with the verdicts after the promotion.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { System } from "../src/index.ts";
import {
  assertTruth,
  commit,
  commitKeys,
  createTable,
  epochAfter,
  eventually,
  marksOf,
  put,
  verdicts,
} from "../src/testing.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
const COMMAND = fileURLToPath(
  new URL("../../../services/durability-tracker/src/cli/failover-candidate/main.ts", import.meta.url),
);
const MID = 7;
const LATE = 4;

interface Report {
  readonly candidate: string | null;
  readonly refusal: string | null;
  readonly reasons: readonly string[];
  readonly warnings: readonly string[];
  readonly epoch: { readonly id: string; readonly seq: number; readonly primary: string } | null;
  readonly nodes: readonly {
    readonly node: string;
    readonly standing: string;
    readonly loss: {
      readonly bytes: string;
      readonly transactions: number | null;
      readonly complete: boolean;
      readonly promises: readonly { readonly level: string }[];
      readonly ids: readonly string[];
    } | null;
  }[];
  readonly levels: readonly { readonly level: string; readonly promise: string }[];
  readonly trackers: readonly { readonly answers: boolean }[];
  readonly nextSteps: readonly string[];
}

type Written = Awaited<ReturnType<typeof commitKeys>>;

/** Runs the command as an operator in the region would, through that region's links. */
async function run(
  system: System,
  from: string,
  args: readonly string[] = [],
): Promise<{ code: number; output: string }> {
  const endpoints = await system.endpoints(from);
  const env = {
    ...process.env,
    HIGHWATER_TOPOLOGY: `@${join(system.cluster.dir, "services", `topology-${from}.json`)}`,
    HIGHWATER_TRACKERS: endpoints.map(({ tracker }) => tracker).join(","),
  };
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [COMMAND, ...args], { env }, (error, stdout, stderr) => {
      const code = error === null ? 0 : error.code;
      if (typeof code === "number") resolve({ code, output: stdout });
      else reject(new Error(`the command did not end by itself: ${stderr}`, { cause: error }));
    });
  });
}

async function ask(
  system: System,
  from: string,
  args: readonly string[] = [],
): Promise<{ code: number; report: Report }> {
  const { code, output } = await run(system, from, ["--json", ...args]);
  return { code, report: JSON.parse(output) as Report };
}

/**
 * Repeats the command until it ends with the code and its report is as expected. A dead server's
 * streams take a while to disappear, and on a busy machine a node or tracker may answer too late.
 */
function askUntil(
  system: System,
  from: string,
  code: number,
  args: readonly string[] = [],
  isFound: (report: Report) => boolean = () => true,
): Promise<Report> {
  return eventually(`exit code ${String(code)}`, async () => {
    const found = await ask(system, from, args);
    if (found.code === code && isFound(found.report)) return found.report;
    throw new Error(JSON.stringify(found));
  });
}

/** The trackers of the west and of Europe, while the east is lost. */
const bothTrackersAnswer = ({ trackers }: Report): boolean =>
  trackers.filter(({ answers }) => answers).length === 2;
const promisesOf = ({ levels }: Report): Record<string, string> =>
  Object.fromEntries(levels.map(({ level, promise }) => [level, promise]));
const lossOf = ({ nodes }: Report, node: string): NonNullable<Report["nodes"][number]["loss"]> => {
  const loss = nodes.find((one) => one.node === node)?.loss;
  assert.ok(loss !== undefined && loss !== null, `${node}: ${JSON.stringify(nodes)}`);
  return loss;
};

/**
 * Makes Europe lack `mid` and `late`, and the west lack `late`. Then the primary's region is lost,
 * with the west's node still down.
 */
async function lagAndLose(system: System): Promise<{ early: Written; mid: Written; late: Written }> {
  const { cluster } = system;
  const gateway = system.gateway(EAST).url;
  const early = await commitKeys(gateway, "early", 5);
  await assertTruth(system, { tracker: system.tracker(WEST).url, node: EUROPE, level: "global" }, early);
  await cluster.link(EAST, EUROPE).cut();
  const mid = await commitKeys(gateway, "mid", MID);
  await assertTruth(system, { tracker: system.tracker(WEST).url, node: WEST }, mid);
  await cluster.stop(WEST);
  const late: Written = await commitKeys(gateway, "late", LATE);
  // A commit's answer shows that some tracker knows its position; here the west's tracker must,
  // because it survives.
  const ids = new Set(late.map(({ body }) => body.id));
  await eventually("the west's tracker knows everything that the west's node lacks", async () => {
    const { marks } = await marksOf(system.tracker(WEST).url);
    const answer = await fetch(`${system.tracker(WEST).url}/v1/durability/failover-preview`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        epoch: marks?.epoch,
        candidates: [{ node: WEST, offset: "0" }],
        list: 1_000,
      }),
    });
    const { candidates } = (await answer.json()) as { candidates: { ids: string[] }[] };
    const held = new Set(candidates[0]?.ids);
    return [...ids].every((id) => held.has(id));
  });
  await system.killRegion(EAST);
  return { early, mid, late };
}

test("the command names the most advanced node, and promoting it loses exactly what was previewed", async () => {
  await using system = await System.start({ env: { TRACKER_PUBLISH_PATIENCE_MS: "300" } });
  const { cluster } = system;
  await createTable(system, EAST);
  const before = await askUntil(system, WEST, 3);
  assert.deepEqual([before.refusal, before.candidate], ["primary_answers", null]);
  const handedOver = await askUntil(system, WEST, 0, ["--switchover"]);
  assert.equal(handedOver.refusal, null);
  assert.ok(handedOver.candidate !== EAST);
  assert.deepEqual(promisesOf(handedOver), { disk: "not_covered", region: "kept", global: "kept" });
  const { early, mid, late } = await lagAndLose(system);

  // The west's node is down, but its tracker knows its positions and the promises due to them.
  const down = await askUntil(
    system,
    WEST,
    6,
    ["--fenced"],
    (report) => promisesOf(report).region === "broken",
  );
  assert.equal(down.candidate, EUROPE);
  assert.equal(promisesOf(down).region, "broken");
  assert.match(down.warnings.join("\n"), /us-west \(silent\) is known to have had [0-9]+ bytes more/);

  // From Europe, cut off from the west, too few nodes answer and no tracker helps.
  await cluster.start(WEST);
  await cluster.link(WEST, EUROPE).cut();
  const few = await askUntil(system, EUROPE, 6, ["--fenced"]);
  assert.equal(few.candidate, EUROPE);
  // Europe's tracker may have received a mark that its node had not reached at the cut: then the
  // promise is broken for certain.
  assert.ok(["at_risk", "broken"].includes(promisesOf(few).region ?? ""), JSON.stringify(few.levels));
  assert.equal(promisesOf(few).global, "kept");
  assert.match(few.reasons.join("\n"), /too few regions answer for level region: 1 of the 2 that must/);
  const accepted = await askUntil(system, EUROPE, 0, ["--fenced", "--accept-loss"]);
  assert.equal(accepted.candidate, EUROPE);

  // With the link healed, the isolated replica turns out to be more advanced.
  await cluster.link(WEST, EUROPE).heal();
  const report = await askUntil(system, WEST, 0, ["--list", "100"], bothTrackersAnswer);
  assert.equal(report.candidate, WEST);
  assert.deepEqual(promisesOf(report), { disk: "not_covered", region: "kept", global: "kept" });
  const [west, europe] = [lossOf(report, WEST), lossOf(report, EUROPE)];
  assert.deepEqual([west.transactions, west.promises], [LATE, []]);
  assert.deepEqual([...west.ids].sort(), late.map(({ body }) => body.id).sort());
  assert.equal(europe.transactions, MID + LATE);
  assert.deepEqual(
    europe.promises.map(({ level }) => level),
    ["region"],
  );
  assert.ok(BigInt(europe.bytes) > BigInt(west.bytes) && BigInt(west.bytes) > 0n);
  await eventually("the text says the same", async () => {
    const { output } = await run(system, WEST, []);
    assert.match(output, /^PROMOTE us-west \(epoch [0-9]+, [0-9a-f-]{36}, began on us-east\)\n/);
    return true;
  });

  const first = report.epoch?.id ?? "";
  await cluster.promote(WEST, { command: false });
  const answered = report.nextSteps.find((step) => step.includes("INSERT INTO highwater.authority_command"));
  await cluster.query(WEST, answered?.match(/INSERT .*;$/)?.[0] ?? "");
  await epochAfter(system.tracker(WEST).url, first);
  const judged = await assertTruth(system, { tracker: system.tracker(WEST).url, node: WEST }, [
    ...early,
    ...mid,
    ...late,
  ]);
  const lost = [...judged].filter(([, { verdict }]) => verdict === "lost").map(([key]) => key);
  assert.deepEqual(lost.sort(), late.map(({ key }) => key).sort());
  assert.equal(lost.length, west.transactions);

  await strangersAreLeftOut(system);
});

/** The first primary returns with its own, ended history, while the new one dies. */
async function strangersAreLeftOut(system: System): Promise<void> {
  const { cluster } = system;
  await cluster.waitForStreaming([EUROPE]);
  const after = await commit(system.gateway(EUROPE).url, [put("after")], {
    ack: "durable",
    maxWaitMs: 60_000,
  });
  assert.equal(after.state, "durable");
  await cluster.healAll();
  await cluster.start(EAST);
  await cluster.kill(WEST);
  const few = await askUntil(system, EUROPE, 6, ["--fenced"], ({ nodes }) =>
    nodes.some(({ node, standing }) => node === EAST && standing !== "silent"),
  );
  assert.equal(few.candidate, EUROPE);
  assert.equal(few.epoch?.primary, WEST);
  const standings = Object.fromEntries(few.nodes.map(({ node, standing }) => [node, standing]));
  assert.deepEqual(standings, { [EAST]: "other_history", [WEST]: "silent", [EUROPE]: "candidate" });
  assert.equal(promisesOf(few).region, "at_risk");
  // It has never followed the west. By the operator's statement, every node that could have
  // acknowledged has answered.
  const received = await askUntil(system, EUROPE, 0, ["--fenced", "--ignore", EAST]);
  assert.deepEqual([received.candidate, promisesOf(received).region], [EUROPE, "kept"]);
}

test("promoting the less advanced node loses what was previewed, and breaks the promises that were named", async () => {
  await using system = await System.start({ env: { TRACKER_PUBLISH_PATIENCE_MS: "300" } });
  const { cluster } = system;
  await createTable(system, EAST);
  const { early, mid, late } = await lagAndLose(system);
  await cluster.start(WEST);
  const report = await askUntil(system, WEST, 0, [], bothTrackersAnswer);
  const europe = lossOf(report, EUROPE);

  const first = report.epoch?.id ?? "";
  await cluster.promote(EUROPE, { repoint: false });
  const tracker = system.tracker(WEST).url;
  await epochAfter(tracker, first);
  const all = [...early, ...mid, ...late];
  await assertTruth(system, { tracker, node: EUROPE }, all);
  const judged = await verdicts(
    tracker,
    all.map(({ token }) => token),
    { level: "region" },
  );
  const count = (verdict: string): number => judged.filter((one) => one.verdict === verdict).length;
  assert.equal(count("lost") + count("broken"), europe.transactions);
  assert.equal(count("broken"), MID, "what the west had was durable at region, and is not any more");
  assert.deepEqual(
    europe.promises.map(({ level }) => level),
    ["region"],
  );
});
