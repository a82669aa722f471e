// The example of three regions on a stand-in for AWS: it is applied, is then what it should be (an empty plan), is changed, and
// destroyed. The configurations of services and edges are read by their own readers, and the values of its
// secrets are looked for in plan and state.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, it, type TestContext } from "node:test";
import { makeAuthority } from "@highwater/lab-tools/process/certificate";
import { TEST_DEPLOYMENT } from "@highwater/service/testing";
import { readSource } from "@highwater/edge";
import { loadConfig as loadTrackerConfig } from "@highwater/durability-tracker/config";
import { loadConfig as loadGatewayConfig } from "@highwater/txn-gateway/config";
import { errorsOf, Examples, NOTHING_TO_DO, SOMETHING_TO_DO, THREE } from "./examples.ts";
import { readSnapshot } from "./rendered.ts";
import { layOverrides, type StandIn, whyNoStandIn } from "./stand-in.ts";
import { type Ran, whyNotFull } from "./tools.ts";

const SECRET = "0123456789abcdef0123456789abcdef";
const AUTHORITY = makeAuthority("the deployment");
const SHOWN = AUTHORITY.issue("*.us-east-1.highwater.internal");
/** By variable, where any text will not do. */
const VALUES: Readonly<Record<string, string>> = {
  GATEWAY_ROLE_PASSWORDS: "{}",
  HIGHWATER_DEPLOYMENT_KEYS: TEST_DEPLOYMENT.HIGHWATER_DEPLOYMENT_KEYS,
  HIGHWATER_TLS_CA: AUTHORITY.certificate,
  HIGHWATER_TLS_CERTIFICATE: SHOWN.certificate,
  HIGHWATER_TLS_KEY: SHOWN.key,
};

interface Outputs {
  readonly environments: {
    readonly value: Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, string>>>>>>;
  };
  readonly collectors: { readonly value: Readonly<Record<string, Readonly<Record<string, string>>>> };
  readonly secret_variables: { readonly value: Readonly<Record<"gateway" | "tracker", readonly string[]>> };
  readonly edge_sources: { readonly value: Readonly<Record<string, unknown>> };
}

describe(
  "terraform example of three regions on a stand-in for AWS",
  { skip: whyNotFull() || whyNoStandIn() },
  () => {
    let examples: Examples;
    let why: string | null;
    before(async () => {
      examples = await Examples.open();
      why = await examples.bench.init(THREE);
      layOverrides(examples.bench.folder);
    });
    after(() => examples[Symbol.asyncDispose]());

    // One after the other, on what the one before has left. The provider waits for over a minute for each node that it makes,
    // changes or destroys, whatever moto says: together they take longer than one test may.
    const isSkipped = (context: TestContext): boolean => {
      if (why !== null) context.skip(why);
      return why !== null;
    };

    it("is applied, and has nothing to do then", async (context) => {
      if (isSkipped(context)) return;
      await examples.setVariables(THREE);
      const applied = await examples.apply(THREE);
      assert.equal(applied.code, 0, errorsOf(applied));
      const again = await examples.plan(THREE);
      assert.equal(again.code, NOTHING_TO_DO, changesOf(again));
    });

    it("renders what the services read, and no secret is in plan or state", async (context) => {
      if (isSkipped(context)) return;
      const { bench, aws } = examples;
      const shown = await bench.run(THREE, "output", "-json");
      checkRendered(JSON.parse(shown.text) as Outputs);
      assert.deepEqual(
        await examples.render(THREE),
        readSnapshot(),
        "the system is started from another configuration on one machine: make infra-rendered",
      );
      await checkSecrets(aws, [
        readFileSync(examples.stateFile(THREE), "utf8"),
        (await examples.showPlan(THREE)).text,
      ]);
    });

    it("is changed, and no node is made anew", async (context) => {
      if (isSkipped(context)) return;
      await examples.setVariables(THREE, {
        gateways: { base: 3, burst: 1 },
        levels: [
          { name: "disk", primary: true },
          { name: "region", replicas: 1, outside: "region" },
          { name: "two", replicas: 2, outside: "region" },
        ],
      });
      const changes = await examples.plan(THREE);
      assert.equal(changes.code, SOMETHING_TO_DO, changes.output.slice(-8_000));
      assert.doesNotMatch(
        changes.output,
        /aws_db_instance\.this.* must be replaced|aws_db_instance\.this.* will be destroyed/,
      );
      const changed = await examples.applyPlan(THREE);
      assert.equal(changed.code, 0, errorsOf(changed));
      const settled = await examples.plan(THREE);
      assert.equal(settled.code, NOTHING_TO_DO, changesOf(settled));
    });

    it("is destroyed", async (context) => {
      if (isSkipped(context)) return;
      const { bench } = examples;
      const destroyed = await bench.run(THREE, "destroy", "-no-color", "-input=false", "-auto-approve");
      assert.equal(destroyed.code, 0, errorsOf(destroyed));
      const left = await bench.run(THREE, "state", "list");
      assert.equal(left.text.trim(), "");
    });
  },
);

/** What the tasks would start with is what the services and edges accept. */
function checkRendered(outputs: Outputs): void {
  const names = new Set<string>();
  const topologies = new Set<string>();
  for (const [region, slots] of Object.entries(outputs.environments.value))
    for (const [slot, environment] of Object.entries(slots)) {
      const kind = "GATEWAY_NAME" in environment ? "gateway" : "tracker";
      const secrets = outputs.secret_variables.value[kind].map((name) => [name, VALUES[name] ?? SECRET]);
      const env = { ...environment, ...(Object.fromEntries(secrets) as Record<string, string>) };
      const loaded =
        kind === "gateway" ? loadGatewayConfig(env, refuseFile) : loadTrackerConfig(env, refuseFile);
      assert.ok(loaded.ok, loaded.ok ? "" : `${slot}: ${loaded.faults.join("; ")}`);
      assert.equal(loaded.config.name, slot);
      assert.equal(loaded.config.region, region);
      names.add(slot);
      topologies.add(JSON.stringify(loaded.config.topology));
    }
  for (const [region, slots] of Object.entries(outputs.environments.value)) {
    const collectors = outputs.collectors.value[region] ?? {};
    for (const [slot, environment] of Object.entries(slots)) {
      const port = environment["GATEWAY_PORT"] ?? environment["TRACKER_PORT"] ?? "";
      assert.ok(collectors[slot]?.includes(`"127.0.0.1:${port}"`), `${slot} is scraped at its port`);
    }
  }
  assert.equal(names.size, 3 * (4 + 2));
  assert.equal(topologies.size, 1, "all services have one topology");
  for (const [region, source] of Object.entries(outputs.edge_sources.value)) {
    const read = readSource(source);
    assert.ok("edge" in read, "faults" in read ? read.faults.join("; ") : "");
    assert.equal(read.edge.region, region);
    const known = [...read.edge.gateways, ...read.edge.trackers].map(({ name }) => name).sort();
    assert.deepEqual(known, [...names].sort(), "every edge knows every gateway and tracker");
  }
}

function refuseFile(path: string): string {
  throw new Error(`the tasks have no file ${path}`);
}

/** No value of a secret is where it does not belong. */
async function checkSecrets(aws: StandIn, texts: readonly string[]): Promise<void> {
  const service = JSON.parse(await aws.readSecret("highwater/service")) as Record<string, string>;
  const [key] = JSON.parse(await aws.readSecret("highwater/deployment")) as [{ secret: string }];
  const values = [await aws.readSecret("highwater/master"), key.secret, ...Object.values(service)];
  assert.deepEqual(Object.keys(service).sort(), ["HIGHWATER_INTERNAL_SECRET", "PGPASSWORD"]);
  assert.equal(new Set(values).size, values.length, "every secret is its own");
  for (const value of values) {
    assert.ok(value.length >= 32);
    for (const text of texts) assert.ok(!text.includes(value), "a secret's value is in a plan or a state");
  }
}

/** Which resources a plan would change, and what of them: the whole text of a plan is too long to be read. */
function changesOf({ output }: Ran): string {
  const lines = output
    .split("\n")
    .filter((line) => /^\s+(?:# .* (?:will|must) be|~ [a-z_]+ +[=:])/.test(line));
  return `${String(lines.length)} lines:\n${lines.join("\n")}\n${output.slice(-500)}`;
}
