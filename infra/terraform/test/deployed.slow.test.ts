// Goal: what Terraform would deploy works. Method: the rendered configuration of the three-region example (infra-test holds it against
// the modules) is started on this machine, task by task, with what `deployed/substitutions.ts` lists in place of AWS and with
// nothing else changed. Then the documented steps of an operator: roles, keys, load, and the loss of the primary's region.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { BlockList } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { promisify } from "node:util";
import { whyNoEnvoy } from "@highwater/lab-tools/envoy";
import { eventually } from "@highwater/lab-tools/process";
import type { CandidateReport } from "@highwater/durability-tracker/failover";
import { Highwater, newTransactionId, sql } from "@highwater/sdk";
import { TEST_DEPLOYMENT } from "@highwater/service/testing";
import { check } from "@highwater/example-ad-exchange/check";
import { Exchange } from "@highwater/example-ad-exchange/exchange";
import { Publishers } from "@highwater/example-ad-exchange/publishers";
import { type Claim, Recorder } from "@highwater/example-ad-exchange/recorder";
import { findK6, whyNoK6 } from "../../../loadtests/k6/find.ts";
import { runScript, TABLES, unfinished } from "../../../loadtests/k6/script.ts";
import { compareReported, type Comparison, type ReportedVerdict } from "../../../loadtests/k6/reported.ts";
import { Deployment, type SecretValues } from "./deployed/deployment.ts";
import { substitutionsTable } from "./deployed/substitutions.ts";
import { readSnapshot, type Rendered, type RenderedTask, type Rules } from "./rendered.ts";
import { onPath, ROOT } from "./tools.ts";

const APP_ROLE = "app_exchange";
const SECRETS = {
  master: "master-0123456789abcdef0123456789abcdef",
  service: {
    PGPASSWORD: "service-0123456789abcdef0123456789abcdef",
    HIGHWATER_INTERNAL_SECRET: "internal-0123456789abcdef0123456789abcdef",
  },
  deployment: JSON.parse(TEST_DEPLOYMENT.HIGHWATER_DEPLOYMENT_KEYS) as unknown[],
  gateways: { [APP_ROLE]: "app-0123456789abcdef0123456789abcdef" },
};
const LOAD = { publishers: 2, pauseMs: 300, bidsPerAuction: 3, pagesMax: 8 };
const KEYS = "services/txn-gateway/src/cli/keys/main.ts";
const CANDIDATE = "services/durability-tracker/src/cli/failover-candidate/main.ts";
const AUTHORIZE = "infra/image/src/authorize.ts";
/** A busy machine starts everything slowly. */
const LIMIT_MS = 300_000;
const WHOLE_LIMIT_MS = 15 * 60_000;
/** Before the failure, and committed where no other node can receive it. */
const SOLD_MIN = 10;
const UNREPORTED_MIN = 5;
/** Of what k6 has to say when something is wrong. */
const LOG_LINES = 20;
/** Besides those that are kept. */
const RIGHT = { missing: 0, returned: 0, unreported: 0 };

function whyNot(): string | false {
  if (process.platform !== "linux") return "needs Linux: every task has a loopback address of its own";
  const missing = ["openssl", "jq"].find((program) => onPath(program) === null);
  return missing === undefined ? whyNoEnvoy() : `needs ${missing}, with which the certificates are made`;
}

describe("what Terraform would deploy", () => {
  const rendered = readSnapshot();

  it("lets every task reach what its configuration names", () => {
    assert.deepEqual(unreachable(rendered), []);
  });

  it("is documented with everything that stands in for something else here", () => {
    assert.ok(readFileSync(join(ROOT, "../../docs/deploy-aws.md"), "utf8").includes(substitutionsTable()));
  });

  describe("on one machine", { skip: whyNot(), timeout: WHOLE_LIMIT_MS }, () => {
    let system: Deployment;
    let client: Highwater | undefined;
    let apiKey: string;
    /** What k6 received, by transaction. */
    let reported: readonly ReportedVerdict[] = [];
    /** What the services read at their start. */
    const secrets: { -readonly [name in keyof SecretValues]: SecretValues[name] } = { ...SECRETS, tls: {} };
    /** Where the authority is. */
    let folder: string;
    before(async () => {
      folder = await mkdtemp(join(tmpdir(), "hw-authority-"));
      secrets.tls = await makeCertificate(folder, rendered);
      system = await Deployment.prepare(rendered, secrets);
    });
    after(async () => {
      await client?.close();
      await (system as Deployment | undefined)?.[Symbol.asyncDispose]();
      await rm(folder, { recursive: true, force: true });
    });

    const connected = (): Highwater => client ?? assert.fail("there is no key");

    const readiness = async (): Promise<number[]> =>
      Promise.all(system.services().map(async (task) => (await task.ask("/readyz")).status));

    it("starts every task as it is defined, and no service is ready before the roles exist", async (context) => {
      context.diagnostic(`in place of AWS:\n${substitutionsTable()}`);
      const [first] = system.services();
      assert.notEqual((await first?.checkHealth())?.code, 0, "a health check fails where nothing runs");
      await Promise.all(system.services().map((task) => task.start()));
      for (const task of system.services())
        await eventually(
          () => `an answer of ${task.lastLines()}`,
          async () => (await task.ask("/healthz")).status === 200,
          LIMIT_MS,
        );
      const checks = await Promise.all(
        system.services().map(async (task) => [task.name, await task.checkHealth()] as const),
      );
      for (const [name, checked] of checks)
        assert.equal(checked?.code, 0, `${name}: ${checked?.output ?? "no health check"}`);
      assert.deepEqual(new Set(await readiness()), new Set([503]));
      // As the modules have it: when the services run.
      await Promise.all(system.edges().map((task) => task.start()));
    });

    it("is ready once the task of the set-up has run, behind every edge", async () => {
      const ran = await system.setup.runOnce();
      assert.equal(ran.code, 0, ran.output);
      for (const task of system.services())
        await eventually(
          () => `ready: ${task.lastLines()}`,
          async () => (await task.ask("/readyz")).status === 200,
          LIMIT_MS,
        );
      for (const region of system.regions)
        await eventually(`the edge of ${region} is a target`, () => system.isTargetHealthy(region), LIMIT_MS);
      const slots = Object.values(rendered.regions).flatMap(({ tasks }) => Object.entries(tasks));
      for (const [service, { name, count }] of slots)
        if (count === 0)
          assert.ok(
            [...system.names.asked].some((asked) => asked.startsWith(addressOf(service))),
            `${service} ${String(name)}`,
          );
    });

    it("gives a key to an application, as the documentation says", async () => {
      const command =
        system.rendered.regions[system.databases.home]?.tasks["setup"]?.containers[0]?.command ?? [];
      const granted = `GRANT CREATE ON SCHEMA public TO ${APP_ROLE}`;
      const ran = await system.setup.runProgram(command, { env: { DATABASE_ROLES_SQL: granted } });
      assert.equal(ran.code, 0, ran.output);
      apiKey = await createKey(system, "exchange", "read,write");
      const endpoints = nearestFirst(system).map((region) => ({
        gateway: system.edgeUrl(region),
        tracker: system.edgeUrl(region),
      }));
      client = new Highwater({ endpoints, apiKey, level: "region" });
    });

    it("makes transactions durable at every level, through its edges", async () => {
      const { levels } = JSON.parse(rendered.topology) as { levels: object };
      const client = connected();
      await client.transaction([sql`CREATE TABLE note (level text PRIMARY KEY)`]);
      for (const level of Object.keys(levels)) {
        const transaction = await client.transaction([sql`INSERT INTO note VALUES (${level})`]);
        await transaction.durable({ level, timeoutMs: LIMIT_MS });
      }
      const open = await client.begin({ isolation: "serializable" });
      const found = await open.query(sql`SELECT level FROM note`);
      assert.equal(found.rows.length, Object.keys(levels).length);
      await open.query(sql`INSERT INTO note VALUES ('interactive')`);
      await open.commit();
      await open.durable({ timeoutMs: LIMIT_MS });
    });

    it("sends nothing between its services unencrypted", () => {
      for (const task of system.services()) {
        assert.match(task.log(), /"event":"listening".*"hasTls":true/, task.name);
        assert.doesNotMatch(task.log(), /traffic_unencrypted|certificate|does not speak TLS/i, task.name);
      }
      assert.deepEqual(
        Object.values(rendered.regions).map(({ protocol }) => protocol),
        system.regions.map(() => "HTTPS"),
      );
    });

    it("keeps committing while its services restart one after the other with a renewed certificate", async () => {
      secrets.tls = await makeCertificate(folder, rendered);
      for (const kind of ["tracker", "gateway"] as const) {
        const task = system.slot(system.databases.home, kind);
        const { certificate } = await task.ask("/healthz");
        assert.equal(await task.stop(), 0);
        await task.start();
        const ready = await eventually(
          () => `ready again: ${task.lastLines()}`,
          async () => {
            const answer = await task.ask("/readyz");
            return answer.status === 200 && answer;
          },
          LIMIT_MS,
        );
        assert.notEqual(ready.certificate, certificate);
        const transaction = await connected().transaction([
          sql`INSERT INTO note VALUES (${`renewed ${kind}`})`,
        ]);
        await transaction.durable({ timeoutMs: LIMIT_MS });
      }
    });

    it("carries the smoke load, from outside", { skip: whyNoK6() ?? false }, async (context) => {
      const { home } = system.databases;
      await connected().transaction(TABLES.map((statement) => ({ sql: statement })));
      const edges = nearestFirst(system).map((region) => system.edgeUrl(region));
      const ended = await runScript({
        ...{ k6: findK6() ?? "", name: "smoke" },
        settings: {
          ...{ GATEWAYS: edges.join(","), TRACKERS: edges.join(","), API_KEY: apiKey, REPORT: "1" },
          // Fifteen tasks on a machine with other work: all must be right, however long it takes.
          ...{ COMMIT_P95_MS: "none", DURABLE_P95_MS: "none", PATIENCE_S: String(LIMIT_MS / 1_000) },
        },
      });
      const { code, summary } = ended;
      context.diagnostic(JSON.stringify({ ...summary.counts, latencies: summary.pairs }));
      assert.equal(code, 0, [ended.output, ...ended.log.slice(0, LOG_LINES)].join("\n"));
      assert.equal(unfinished(summary), 0, "k6 went on until all had their verdicts");
      reported = ended.reported;
      assert.equal(reported.length, summary.counts["committed"]);
      assert.deepEqual(await compared(system, home, reported), { ...RIGHT, kept: reported.length });
    });

    it("loses a region, and every verdict is right", async (context) => {
      const client = connected();
      const { cluster, home } = system.databases;
      const recorder = new Recorder(client);
      await new Exchange(client).createTables();
      const publishers = new Publishers(new Exchange(recorder), LOAD);
      const isUnreported = ({ answer, reported, readOnly }: Claim): boolean =>
        answer === "committed" && reported === undefined && !readOnly;
      await eventually("auctions end", async () => publishers.tally.sold >= SOLD_MIN, LIMIT_MS);

      await cluster.isolate(home);
      const cutMs = performance.now();
      const since = (): Claim[] =>
        recorder.claims.filter((claim) => claim.answeredMs > cutMs && isUnreported(claim));
      await eventually(
        "the region commits what nobody else hears of",
        async () => since().length >= UNREPORTED_MIN,
        LIMIT_MS,
      );
      await system.killRegion(home);

      const survivors = nearestFirst(system).slice(1);
      for (const region of survivors) {
        // What it should not do ends the wait as well.
        const { status, text } = await eventually(
          `${region} says that there is no primary`,
          async () => {
            const answer = await commitOnce(system.edgeUrl(region), apiKey);
            return (answer.status === 200 || answer.text.includes('"primary_unavailable"')) && answer;
          },
          LIMIT_MS,
        );
        assert.equal(status, 503, text);
      }
      const next = await failOver(system, survivors[0] ?? "");
      for (const task of survivors.flatMap((region) => system.services(region)))
        await eventually(
          () => `ready again: ${task.lastLines()}`,
          async () => (await task.ask("/readyz")).status === 200,
          LIMIT_MS,
        );
      await client.transaction([sql`INSERT INTO note VALUES ('after')`], { timeoutMs: LIMIT_MS });

      // The replica that is left follows no node any more: it is made anew from the promoted node.
      const other = survivors.find((region) => region !== next) ?? "";
      await cluster.rejoin(other, { upstream: next });
      await system.databases.secure(other);
      await cluster.waitForStreaming([other]);
      await publishers.stop();
      await Promise.all(recorder.claims.map(({ settled }) => settled));
      const { claims } = recorder;
      const findings = await check({ client, cluster, primary: next, claims });
      const counts = { ...findings, faults: undefined, promoted: next, errors: [...publishers.errors] };
      context.diagnostic(JSON.stringify(counts));
      assert.deepEqual(findings.faults, []);
      assert.equal(findings.pending, 0);
      assert.ok(findings.lost > 0 && findings.durable > 0, JSON.stringify(counts));
      if (reported.length > 0)
        assert.deepEqual(await compared(system, next, reported), { ...RIGHT, kept: reported.length });
    });

    it("ends at a signal, each task in its time", async () => {
      await connected().close();
      const running = system.services().filter((task) => task.running);
      const codes = await Promise.all(running.map(async (task) => [task.name, await task.stop()] as const));
      assert.deepEqual(
        codes,
        running.map(({ name }) => [name, 0]),
      );
    });
  });
});

function nearestFirst(system: Deployment): string[] {
  const { home } = system.databases;
  return [
    home,
    ...system.regions
      .filter((region) => region !== home)
      .sort()
      .reverse(),
  ];
}

/** `us-east-1-gateway-3` is found as `gateway-3.us-east-1.…`. */
function addressOf(service: string): string {
  const [, region = "", slot = ""] = /^(.*)-((?:gateway|tracker)-[0-9]+)$/.exec(service) ?? [];
  return `${slot}.${region}.`;
}

/** As an operator makes it, for the services of all regions. */
async function makeCertificate(folder: string, { regions }: Rendered): Promise<SecretValues["tls"]> {
  const script = join(ROOT, "service-certificate.sh");
  const { stdout } = await promisify(execFile)(script, [folder, ...Object.keys(regions)]);
  return JSON.parse(stdout) as SecretValues["tls"];
}

async function createKey(system: Deployment, name: string, scopes: string): Promise<string> {
  const gateway = system.slot(system.databases.home, "gateway");
  const command = ["node", KEYS, "create", "--json", "--name", name, "--role", APP_ROLE, "--scopes", scopes];
  const made = await gateway.runProgram(command, { env: { HIGHWATER_TOPOLOGY: system.rendered.topology } });
  assert.equal(made.code, 0, made.output);
  return (JSON.parse(made.output) as { key: string }).key;
}

async function commitOnce(
  edge: string,
  apiKey: string,
): Promise<{ readonly status: number; readonly text: string }> {
  const answer = await fetch(`${edge}/v1/transactions`, {
    method: "POST",
    headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({
      id: newTransactionId(),
      statements: [{ sql: "INSERT INTO note VALUES ('nobody')" }],
    }),
  });
  return { status: answer.status, text: await answer.text() };
}

/** What k6 received, compared with the table on the node. */
async function compared(
  system: Deployment,
  node: string,
  reported: readonly ReportedVerdict[],
): Promise<Comparison> {
  const rows = await system.databases.cluster.query(node, "SELECT id::text AS id FROM load_entry");
  return compareReported(reported, new Set(rows.map(({ id }) => String(id))));
}

/** By hand, as the documentation says it, in another region; answers who is promoted. The task that would be cut off has ended. */
async function failOver(system: Deployment, operator: string): Promise<string> {
  const preview = await candidate(system, operator, ["--list", "20"]);
  const answer = await candidate(system, operator, ["--json", "--fenced"]);
  const next = (JSON.parse(answer) as CandidateReport).candidate ?? assert.fail(answer);
  assert.ok(preview.startsWith(`PROMOTE ${next} `), `it named another one before:\n${preview}\n${answer}`);
  await system.databases.cluster.promote(next, { repoint: false, command: false });
  const { topology } = system.rendered;
  const authorized = await system.slot(operator, "tracker").runProgram(["node", AUTHORIZE], {
    env: { HIGHWATER_TOPOLOGY: topology, AUTHORIZE_NODE: next, AUTHORIZE_REPORT: "-" },
    input: answer,
  });
  assert.equal(authorized.code, 0, authorized.output);
  assert.match(authorized.output, / is written$/m, "no one has set it before");
  return next;
}

/** What the command says, once it names somebody. Beside a tracker, which has the services' secret for a key. */
async function candidate(system: Deployment, operator: string, options: readonly string[]): Promise<string> {
  const env = {
    HIGHWATER_TOPOLOGY: system.rendered.topology,
    HIGHWATER_TRACKERS: system.slot(operator, "gateway").environment["GATEWAY_TRACKERS"] ?? "",
  };
  const tracker = system.slot(operator, "tracker");
  let output = "";
  await eventually(
    () => `somebody is named: ${output}`,
    async () => {
      const ran = await tracker.runProgram(["node", CANDIDATE, ...options], { env });
      output = ran.output;
      return ran.code === 0;
    },
    LIMIT_MS,
  );
  return output;
}

/** What a task's environment names, and the rules of the security groups on either side do not let it have. */
function unreachable({ regions }: Rendered): string[] {
  const vantages = Object.entries(regions).flatMap(([region, { database, tasks, subnets }]) => [
    { region, subnets: subnets.data, name: database.host, ports: [database.port], rules: database.rules },
    ...Object.values(tasks).flatMap(({ name, containers, rules }) =>
      name === null ? [] : [{ region, subnets: subnets.service, name, rules, ports: portsOf(containers) }],
    ),
  ]);
  const faults: string[] = [];
  for (const [region, { tasks, subnets }] of Object.entries(regions))
    for (const [service, { containers, rules }] of Object.entries(tasks)) {
      const named = containers.flatMap(({ environment }) => Object.values(environment)).join("\n");
      const from = { region, subnets: subnets.service, rules };
      for (const to of vantages)
        for (const port of named.includes(to.name) ? to.ports : []) {
          if (!allows(rules.egress, from.region, to, port))
            faults.push(`${region} ${service} may not turn to ${to.name}`);
          if (!allows(to.rules.ingress, to.region, from, port))
            faults.push(`${to.name} takes nothing from ${region} ${service}`);
        }
    }
  return faults;
}

interface Side {
  readonly region: string;
  readonly subnets: readonly string[];
  readonly rules: Rules;
}

/** Within a region rules name groups. Between regions they can name ranges only. */
function allows(rules: readonly string[], region: string, other: Side, port: number): boolean {
  if (region === other.region)
    return other.rules.groups.some((group) => rules.includes(`${group} ${String(port)}`));
  const ranges = new BlockList();
  for (const rule of rules) {
    const [, address, bits] = /^([0-9.]+)\/([0-9]+) /.exec(rule) ?? [];
    if (address !== undefined && rule.endsWith(` ${String(port)}`)) ranges.addSubnet(address, Number(bits));
  }
  // Ranges of networks are either within one another or have nothing in common: one address stands for its subnet.
  return other.subnets.every((subnet) => ranges.check(subnet.split("/")[0] ?? ""));
}

function portsOf(containers: RenderedTask["containers"]): number[] {
  return containers.flatMap(({ portMappings = [] }) =>
    portMappings.map(({ containerPort }) => containerPort),
  );
}
