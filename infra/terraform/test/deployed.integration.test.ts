// Goal: what Terraform would deploy works. Method: the rendered configuration of the three-region example (infra-test holds it against
// the modules) is started on this machine, task by task, with what `deployed/substitutions.ts` lists in place of AWS and with
// nothing else changed; then the documented steps of an operator: roles, keys, load, and the loss of the primary's region.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { whyNoEnvoy } from "@highwater/dev-envoy";
import { Highwater, newTransactionId, sql } from "@highwater/sdk";
import { check } from "../../../examples/ad-exchange/src/check.ts";
import { Exchange } from "../../../examples/ad-exchange/src/exchange.ts";
import { Publishers } from "../../../examples/ad-exchange/src/publishers.ts";
import { type Claim, Recorder } from "../../../examples/ad-exchange/src/recorder.ts";
import { Deployment, until } from "./deployed/deployment.ts";
import { substitutionsTable } from "./deployed/substitutions.ts";
import { readSnapshot, type Rendered, type RenderedTask } from "./rendered.ts";
import { ROOT } from "./tools.ts";

const APP_ROLE = "app_exchange";
const SECRETS = {
  master: "master-0123456789abcdef0123456789abcdef",
  service: {
    PGPASSWORD: "service-0123456789abcdef0123456789abcdef",
    HIGHWATER_INTERNAL_SECRET: "internal-0123456789abcdef0123456789abcdef",
    GATEWAY_SESSION_SECRET: "session-0123456789abcdef0123456789abcdef",
  },
  gateways: { [APP_ROLE]: "app-0123456789abcdef0123456789abcdef" },
};
const LOAD = { publishers: 2, pauseMs: 300, bidsPerAuction: 3, pagesMax: 8 };
const KEYS = "services/txn-gateway/src/cli/keys/main.ts";
const CANDIDATE = "services/durability-tracker/src/cli/failover-candidate/main.ts";
/** A busy machine starts everything slowly. */
const LIMIT_MS = 120_000;
const WHOLE_LIMIT_MS = 10 * 60_000;
/** Before the failure, and committed where nobody else can hear of it. */
const SOLD_MIN = 10;
const UNHEARD_MIN = 5;

const why =
  process.platform === "linux" ? whyNoEnvoy() : "needs Linux: every task has a loopback address of its own";

describe("what Terraform would deploy", () => {
  const rendered = readSnapshot();

  it("lets every task reach what its configuration names", () => {
    assert.deepEqual(unreachable(rendered), []);
  });

  it("is documented with everything that stands in for something else here", () => {
    assert.ok(readFileSync(join(ROOT, "../../docs/deploy-aws.md"), "utf8").includes(substitutionsTable()));
  });

  describe("on one machine", { skip: why, timeout: WHOLE_LIMIT_MS }, () => {
    let system: Deployment;
    let client: Highwater | undefined;
    let apiKey: string;
    let adminKey: string;
    before(async () => {
      system = await Deployment.prepare(rendered, SECRETS);
    });
    after(async () => {
      await client?.close();
      await (system as Deployment | undefined)?.[Symbol.asyncDispose]();
    });

    const connected = (): Highwater => client ?? assert.fail("there is no key");

    const readiness = async (): Promise<number[]> =>
      Promise.all(system.services().map(async (task) => (await ask(task.url("/readyz"))).status));

    it("starts every task as it is defined, and nobody is ready before the roles are there", async (context) => {
      context.diagnostic(`in place of AWS:\n${substitutionsTable()}`);
      const [first] = system.services();
      assert.notEqual((await first?.checkHealth())?.code, 0, "a health check fails where nothing runs");
      await Promise.all(system.services().map((task) => task.start()));
      for (const task of system.services())
        await until(
          () => `an answer of ${task.lastWords()}`,
          LIMIT_MS,
          async () => (await ask(task.url("/healthz"))).status === 200,
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
        await until(
          () => `ready: ${task.lastWords()}`,
          LIMIT_MS,
          async () => (await ask(task.url("/readyz"))).status === 200,
        );
      for (const region of system.regions)
        await until(`the edge of ${region} is a target`, LIMIT_MS, () => system.isTargetHealthy(region));
      const slots = Object.values(rendered.regions).flatMap(({ tasks }) => Object.entries(tasks));
      for (const [service, { name, count }] of slots)
        if (count === 0)
          assert.ok(
            [...system.names.asked].some((asked) => asked.startsWith(addressOf(service))),
            `${service} ${String(name)}`,
          );
    });

    it("gives a key to an application, as the documentation says", async () => {
      const master = await system.databases.master(system.databases.home);
      const password = SECRETS.gateways[APP_ROLE] ?? "";
      for (const statement of [
        `CREATE ROLE ${APP_ROLE} LOGIN PASSWORD '${password}' IN ROLE highwater_app`,
        `GRANT CREATE ON SCHEMA public TO ${APP_ROLE}`,
      ])
        await master.query(statement);
      await master.end();
      apiKey = await createKey(system, "exchange", "read,write");
      adminKey = await createKey(system, "operator", "read,admin");
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
        await transaction.durable({ level, timeout: LIMIT_MS });
      }
      const open = await client.begin({ isolation: "serializable" });
      const found = await open.query(sql`SELECT level FROM note`);
      assert.equal(found.rows.length, Object.keys(levels).length);
      await open.query(sql`INSERT INTO note VALUES ('interactive')`);
      await open.commit();
      await open.durable({ timeout: LIMIT_MS });
    });

    it("loses a region, and every verdict is right", async (context) => {
      const client = connected();
      const { cluster, home } = system.databases;
      const recorder = new Recorder(client);
      await new Exchange(client).createTables();
      const publishers = new Publishers(new Exchange(recorder), LOAD);
      const isUnheard = ({ answer, told, readOnly }: Claim): boolean =>
        answer === "committed" && told === undefined && !readOnly;
      await until("auctions end", LIMIT_MS, async () => publishers.tally.sold >= SOLD_MIN);

      await cluster.isolate(home);
      const cutMs = performance.now();
      const since = (): Claim[] =>
        recorder.claims.filter((claim) => claim.answeredMs > cutMs && isUnheard(claim));
      await until(
        "the region commits what nobody else hears of",
        LIMIT_MS,
        async () => since().length >= UNHEARD_MIN,
      );
      await system.killRegion(home);

      const survivors = nearestFirst(system).slice(1);
      for (const region of survivors) {
        await until(`${region} says that there is no primary`, LIMIT_MS, async () => {
          const { status, text } = await commitOnce(system.edgeUrl(region), apiKey);
          assert.notEqual(status, 200, text);
          return status === 503 && text.includes('"primary_unavailable"');
        });
      }
      const report = await candidate(system, survivors[0] ?? "", adminKey);
      const next = report.candidate ?? "";
      assert.ok(survivors.includes(next), JSON.stringify(report));
      await cluster.promote(next, { repoint: false, command: false });
      const told = /as Highwater's service role: (.+)$/.exec(
        report.nextSteps.find((step) => step.includes("authority_command")) ?? "",
      )?.[1];
      const operator = await system.databases.session(
        next,
        serviceRole(rendered),
        SECRETS.service.PGPASSWORD,
      );
      await operator.query(told ?? "");
      await operator.end();
      for (const task of survivors.flatMap((region) => system.services(region)))
        await until(
          () => `ready again: ${task.lastWords()}`,
          LIMIT_MS,
          async () => (await ask(task.url("/readyz"))).status === 200,
        );
      await client.transaction([sql`INSERT INTO note VALUES ('after')`], { timeout: LIMIT_MS });

      // The replica that is left follows nobody any more: it is made anew from the promoted node.
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

function serviceRole({ topology }: Rendered): string {
  const { nodes } = JSON.parse(topology) as { nodes: readonly { url: string }[] };
  return new URL(nodes[0]?.url ?? "").username;
}

async function ask(url: string): Promise<{ readonly status: number }> {
  const answer = await fetch(url).catch(() => null);
  await answer?.arrayBuffer();
  return { status: answer?.status ?? 0 };
}

async function createKey(system: Deployment, name: string, scopes: string): Promise<string> {
  const gateway = system.slot(system.databases.home, "gateway");
  const command = ["node", KEYS, "create", "--json", "--name", name, "--role", APP_ROLE, "--scopes", scopes];
  const made = await gateway.runProgram(command, { HIGHWATER_TOPOLOGY: system.rendered.topology });
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

interface Report {
  readonly candidate: string | null;
  readonly refusal: string | null;
  readonly nextSteps: readonly string[];
}

/** As an operator asks in another region: first, and then with the word that the old primary is off. */
async function candidate(system: Deployment, from: string, apiKey: string): Promise<Report> {
  const tracker = system.slot(from, "tracker");
  const env = {
    HIGHWATER_TOPOLOGY: system.rendered.topology,
    HIGHWATER_TRACKERS: system.slot(from, "gateway").environment["GATEWAY_TRACKERS"] ?? "",
    HIGHWATER_API_KEY: apiKey,
  };
  let last = "";
  let report: Report | undefined;
  await until("somebody is named", LIMIT_MS, async () => {
    const { code, output } = await tracker.runProgram(
      ["node", CANDIDATE, "--json", "--list", "20", "--fenced"],
      env,
    );
    last = output;
    if (code === 0) report = JSON.parse(output) as Report;
    return code === 0;
  }).catch((cause: unknown) => {
    throw new Error(last, { cause });
  });
  return report ?? assert.fail();
}

/** What a task's environment names, and the rules of the security groups on either side do not let it have. */
function unreachable({ regions }: Rendered): string[] {
  const places = Object.entries(regions).flatMap(([region, { database, tasks }]) => [
    { region, name: database.host, ports: [database.port], rules: database.rules },
    ...Object.values(tasks).flatMap(({ name, containers, rules }) =>
      name === null ? [] : [{ region, name, rules, ports: portsOf(containers) }],
    ),
  ]);
  const faults: string[] = [];
  for (const [from, { tasks, cidr }] of Object.entries(regions))
    for (const [service, { containers, rules }] of Object.entries(tasks)) {
      const named = containers.flatMap(({ environment }) => Object.values(environment)).join("\n");
      for (const { region, name, ports, rules: theirs } of places)
        for (const port of named.includes(name) ? ports : []) {
          const to = regions[region]?.cidr ?? "";
          if (!rules.egress.includes(`${to} ${String(port)}`))
            faults.push(`${from} ${service} may not turn to ${name}`);
          if (!theirs.ingress.includes(`${cidr} ${String(port)}`))
            faults.push(`${name} takes nothing from ${from} ${service}`);
        }
    }
  return faults;
}

function portsOf(containers: RenderedTask["containers"]): number[] {
  return containers.flatMap(({ portMappings = [] }) =>
    portMappings.map(({ containerPort }) => containerPort),
  );
}
