// What the module `topology` renders is what the services read: they accept it, keep the order of the levels, and refuse
// at their start exactly the levels that the module refuses at plan time.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { type LevelRule, topologyFaults } from "@highwater/protocol";
import { parseTopology } from "@highwater/service";
import { whyNoTerraform, Workbench } from "./tools.ts";

interface Site {
  readonly region: string;
  readonly zone: string;
}

interface Case {
  readonly title: string;
  readonly sites: readonly Site[];
  readonly levels: Readonly<Record<string, LevelRule>>;
}

const site = (region: string, zone = "a"): Site => ({ region, zone });
const THREE = [site("us-east-1"), site("us-west-2"), site("eu-west-1")];
const TWO = THREE.slice(0, 2);

const CASES: readonly Case[] = [
  {
    title: "three regions, in an order that is not the alphabet's",
    sites: THREE,
    levels: {
      disk: { primary: true },
      region: { replicas: 1, outside: "region" },
      global: { regions: "all" },
    },
  },
  { title: "two others of three regions", sites: THREE, levels: { two: { replicas: 2, outside: "region" } } },
  {
    title: "three others of three regions",
    sites: THREE,
    levels: { three: { replicas: 3, outside: "region" } },
  },
  { title: "two others of two regions", sites: TWO, levels: { two: { replicas: 2, outside: "region" } } },
  {
    title: "two nodes of one region are one",
    sites: [...TWO, site("us-west-2", "b")],
    levels: { two: { replicas: 2, outside: "region" } },
  },
  {
    title: "zones of one name in two regions are two",
    sites: TWO,
    levels: { zone: { replicas: 1, outside: "zone" } },
  },
  {
    title: "two nodes of one zone are one",
    sites: [site("us-east-1"), site("us-east-1")],
    levels: { zone: { replicas: 1, outside: "zone" } },
  },
  { title: "a level named by digits", sites: TWO, levels: { "7": { primary: true } } },
];

describe("the topology that terraform renders", { skip: whyNoTerraform() }, () => {
  let bench: Workbench;
  before(async () => {
    bench = await Workbench.open();
    assert.equal(await bench.init("modules/topology"), null);
  });
  after(() => bench.close());

  for (const { title, sites, levels } of CASES)
    it(title, async () => {
      const nodes = sites.map(({ region, zone }, index) => ({
        ...{ id: `node-${String(index)}`, region, zone, host: `node-${String(index)}.example.com` },
        ...{ port: 5432, database: "app", ask: true },
      }));
      const faults = topologyFaults({
        nodes: nodes.map(({ id, region, zone, host }) => ({
          ...{ id, region, zone, url: `postgresql://${host}/app`, replication: { ask: true as const } },
        })),
        levels,
      });
      const planned = await plan(bench, {
        nodes,
        levels: Object.entries(levels).map(([name, rule]) => ({ name, ...rule })),
        regions: regionsOf(sites),
      });
      if (faults.length > 0) {
        assert.equal(planned, null, `the services refuse it: ${faults.join("; ")}`);
        return;
      }
      assert.ok(planned !== null, "the services accept it");
      const read = parseTopology(planned);
      assert.deepEqual(Object.entries(read.levels), Object.entries(levels));
      assert.deepEqual(
        read.nodes.map(({ id, region, zone }) => ({ id, region, zone })),
        nodes.map(({ id, region, zone }) => ({ id, region, zone })),
      );
      assert.ok(
        read.nodes.every(({ url }) => new URL(url).password === "" && url.includes("sslmode=verify-full")),
      );
    });
});

/** The JSON for the services; null when the plan fails by the levels. */
async function plan(bench: Workbench, variables: object): Promise<string | null> {
  writeFileSync(join(bench.folder, "modules/topology/case.auto.tfvars.json"), JSON.stringify(variables));
  const planned = await bench.run("modules/topology", "plan", "-no-color", "-input=false", "-out=case.plan");
  if (planned.code !== 0) {
    assert.match(planned.output, /Invalid value for variable[\s\S]*var\.levels/, planned.output);
    return null;
  }
  const shown = await bench.run("modules/topology", "show", "-json", "case.plan");
  const { planned_values } = JSON.parse(shown.text) as {
    planned_values: { outputs: { topology_json: { value: string } } };
  };
  return planned_values.outputs.topology_json.value;
}

function regionsOf(sites: readonly Site[]): object {
  const names = [...new Set(sites.map(({ region }) => region))];
  return Object.fromEntries(
    names.map((name) => [
      name,
      {
        nearest: names.filter((other) => other !== name),
        gateways: { base: 1, burst: 0 },
        trackers: { base: 2, burst: 0 },
      },
    ]),
  );
}
