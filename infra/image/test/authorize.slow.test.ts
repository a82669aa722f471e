// Goal: the failover as its tasks do it (preview, fence, promotion, the operator's command, verification) ends with commits going
// on and true verdicts. And the command is written for no other node, not before the fence, not on a replica, and not twice.
// Method: three regions on real PostgreSQL, authority `operator`; commits that no replica has, and the loss of the primary's
// region, which stands for the fence; the programs run as processes, as in their tasks, and ask services over TLS. `pg_promote()`
// stands for RDS.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { fileURLToPath } from "node:url";
import { makeAuthority } from "@highwater/lab-tools/process/certificate";
import { System } from "@highwater/lab-system";
import {
  assertTruth,
  commit,
  commitKeys,
  createTable,
  eventually,
  marksOf,
  put,
  starve,
} from "@highwater/lab-system/testing";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
const RUN = "11111111-2222-4333-8444-555555555555";
const LATE = 3;
const LIMIT_MS = 120_000;
const AUTHORITY = makeAuthority("the deployment of this test");
const SHOWN = AUTHORITY.issue("127.0.0.1");

interface Ran {
  readonly code: number;
  readonly output: string;
}

function run(program: string, env: Readonly<Record<string, string>>): Promise<Ran> {
  const path = fileURLToPath(new URL(`../src/${program}.ts`, import.meta.url));
  return new Promise((resolve, reject) => {
    execFile(
      process.execPath,
      [path],
      { env: { ...process.env, ...env }, timeout: LIMIT_MS },
      (error, stdout, stderr) => {
        const code = error === null ? 0 : error.code;
        if (typeof code === "number") resolve({ code, output: `${stdout}${stderr}` });
        else reject(new Error(`${program} did not end by itself: ${stderr}`, { cause: error }));
      },
    );
  });
}

const lineOf = ({ output }: Ran, word: string): string =>
  output.split("\n").find((line) => line.startsWith(`highwater-${word} `)) ?? "";

test("a failover by the programs of its tasks", { timeout: 5 * LIMIT_MS }, async () => {
  setDefaultCACertificates([...getCACertificates("default"), AUTHORITY.certificate]);
  await using system = await System.start({
    env: {
      HIGHWATER_AUTHORITY: "operator",
      HIGHWATER_TLS_CERTIFICATE: SHOWN.certificate,
      HIGHWATER_TLS_KEY: SHOWN.key,
      HIGHWATER_TLS_CA: AUTHORITY.certificate,
      TRACKER_PUBLISH_PATIENCE_MS: "300",
    },
  });
  const { cluster } = system;
  await createTable(system, EAST);
  const early = await commitKeys(system.gateway(EAST).url, "early", 4);
  await assertTruth(system, { tracker: system.tracker(WEST).url, node: EUROPE, level: "global" }, early);
  // In this order: what is written between the two must not make the other one the candidate.
  await starve(system, EUROPE, EAST);
  await starve(system, WEST, EAST);
  const late = await commitKeys(system.gateway(EAST).url, "late", LATE);
  await untilReported(
    system,
    late.map(({ body }) => body.id),
  );

  const endpoints = await system.endpoints(WEST);
  const shared = {
    HIGHWATER_AUTHORITY: "operator",
    HIGHWATER_TLS_CA: AUTHORITY.certificate,
    HIGHWATER_TOPOLOGY: `@${system.topologyFile(WEST)}`,
    HIGHWATER_TRACKERS: endpoints.map(({ tracker }) => tracker).join(","),
    FAILOVER_RUN: RUN,
    FAILOVER_NODE: WEST,
    FAILOVER_REGION: WEST,
    FAILOVER_FROM: EAST,
    FAILOVER_ACCEPT_LOSS: "no",
    FAILOVER_WAIT_S: "10",
    AUTHORIZE_NODE: WEST,
    AUTHORIZE_WAIT_S: "1",
    VERIFY_GATEWAYS: system.gateway(WEST).url,
    VERIFY_WAIT_S: "60",
  };
  const answered = await run("failover-preview", { ...shared, FAILOVER_STAGE: "preview" });
  assert.equal(answered.code, 3, answered.output);
  assert.match(lineOf(answered, "end"), / preview 3$/);

  await system.killRegion(EAST);
  const preview = await eventually("nobody looks fed any more", async () => {
    const ran = await run("failover-preview", { ...shared, FAILOVER_STAGE: "preview" });
    if (ran.code === 0) return ran;
    throw new Error(ran.output);
  });
  assert.match(lineOf(preview, "summary"), /us-west can be promoted. would lose 3 transactions/);
  assert.match(preview.output, /^PROMOTE us-west /);

  // The old primary is not fenced, and no node is promoted.
  const early1 = await run("authorize", { ...shared, AUTHORIZE_REPORT: lineOf(preview, "report") });
  assert.equal(early1.code, 3, early1.output);
  assert.match(early1.output, /before the old primary was fenced/);

  const fenced = await run("failover-preview", {
    ...shared,
    FAILOVER_STAGE: "fenced",
    FAILOVER_APPROVED: lineOf(preview, "report"),
  });
  assert.equal(fenced.code, 0, fenced.output);
  const report = lineOf(fenced, "report");
  const authorize = (env: Readonly<Record<string, string>> = {}): Promise<Ran> =>
    run("authorize", { ...shared, AUTHORIZE_REPORT: report, ...env });

  const replica = await authorize();
  assert.equal(replica.code, 4, replica.output);
  assert.match(replica.output, /us-west is still a replica/);
  const another = await authorize({ AUTHORIZE_NODE: EUROPE });
  assert.equal(another.code, 3, another.output);
  assert.match(another.output, /names us-west, and not eu-west/);
  const unknown = await authorize({ AUTHORIZE_NODE: "moon" });
  assert.equal(unknown.code, 2, unknown.output);
  const garbage = await authorize({ AUTHORIZE_REPORT: "yes, please" });
  assert.equal(garbage.code, 2, garbage.output);

  await cluster.promote(WEST, { command: false });
  const codes = new Set<number | null>();
  await eventually("the gateway sees that the node is writable, and no command", async () => {
    const notYet = await run("failover-verify", { ...shared, VERIFY_WAIT_S: "1" });
    codes.add(notYet.code);
    return /writable without an operator's command/.test(notYet.output);
  });
  assert.deepEqual([...codes], [4]);

  // A report of an epoch that the node never had, as of a system that was restored.
  const json = await candidateJson(shared);
  const strange = { ...json, candidate: WEST, refusal: null, exitCode: 0, fenced: true };
  const foreign = await authorize({
    AUTHORIZE_REPORT: JSON.stringify({
      ...strange,
      epoch: { ...json.epoch, id: "e0000000-0000-4000-8000-00000000dead" },
    }),
  });
  assert.equal(foreign.code, 3, foreign.output);
  assert.match(foreign.output, /of another history/);
  assert.equal((await commandsOn(system, WEST)).length, 0, "what was refused is not written");

  const done = await authorize();
  assert.equal(done.code, 0, done.output);
  assert.match(lineOf(done, "summary"), /command [0-9a-f-]+ for us-west is written/);
  const stranger = { HIGHWATER_TLS_CA: makeAuthority("another deployment").certificate };
  const refused = await run("failover-verify", { ...shared, ...stranger, VERIFY_WAIT_S: "0" });
  assert.equal(refused.code, 4, refused.output);
  assert.match(refused.output, /is not signed by a trusted authority.*HIGHWATER_TLS_CA/);
  const verified = await run("failover-verify", shared);
  assert.equal(verified.code, 0, verified.output);
  assert.match(
    lineOf(verified, "summary"),
    /commits go on at us-west: 3 transactions are lost, 3 of them reported, 0 are broken/,
  );
  const { marks } = await marksOf(system.tracker(WEST).url);

  const again = await authorize();
  assert.equal(again.code, 0, again.output);
  assert.match(again.output, /was there already/);
  assert.equal((await commandsOn(system, WEST)).length, 1);

  const after = await commit(system.gateway(WEST).url, [put("after")], { ack: "durable" });
  assert.equal(after.state, "durable");
  const judged = await assertTruth(system, { tracker: system.tracker(WEST).url, node: WEST }, [
    ...early,
    ...late,
  ]);
  const lost = [...judged].filter(([, { verdict }]) => verdict === "lost").map(([key]) => key);
  assert.deepEqual(lost.sort(), late.map(({ key }) => key).sort());
  const now = await marksOf(system.tracker(WEST).url);
  assert.equal(now.marks?.epoch, marks?.epoch, "the second call begins no second epoch");
});

/** The tracker that is left knows of all of them. */
async function untilReported(system: System, ids: readonly string[]): Promise<void> {
  const url = system.tracker(WEST).url;
  await eventually("the west's tracker has heard of what no replica has", async () => {
    const { marks } = await marksOf(url);
    const answer = await fetch(`${url}/v1/durability/failover-preview`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ epoch: marks?.epoch, candidates: [{ node: WEST, offset: "0" }], list: 1_000 }),
    });
    const { candidates } = (await answer.json()) as { candidates: { ids: string[] }[] };
    const held = new Set(candidates[0]?.ids);
    return ids.every((id) => held.has(id));
  });
}

async function candidateJson(
  env: Readonly<Record<string, string>>,
): Promise<{ readonly epoch: object | null } & Record<string, unknown>> {
  const command = fileURLToPath(
    new URL("../../../services/durability-tracker/src/cli/failover-candidate/main.ts", import.meta.url),
  );
  const output = await new Promise<string>((resolve) => {
    execFile(
      process.execPath,
      [command, "--json", "--fenced"],
      { env: { ...process.env, ...env }, timeout: LIMIT_MS },
      (_error, stdout) => {
        resolve(stdout);
      },
    );
  });
  return JSON.parse(output) as { epoch: object | null } & Record<string, unknown>;
}

function commandsOn(system: System, node: string): Promise<object[]> {
  return system.cluster.query(node, "SELECT id FROM highwater.authority_command WHERE node = $1", [node]);
}
