// Both examples against a stand-in for AWS, planned whole: with everything that can be asked of them, and with the least.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { Examples, SOMETHING_TO_DO } from "./examples.ts";
import { whyNoStandIn } from "./stand-in.ts";
import { TRIED_EXAMPLES, whyNotFull } from "./tools.ts";

describe(
  "terraform examples, planned on a stand-in for AWS",
  { skip: whyNotFull() || whyNoStandIn() },
  () => {
    let examples: Examples;
    before(async () => {
      examples = await Examples.open();
    });
    after(() => examples[Symbol.asyncDispose]());

    for (const example of TRIED_EXAMPLES)
      describe(example, () => {
        const directory = join("examples", example);
        let why: string | null;
        before(async () => {
          why = await examples.bench.init(directory);
        });

        it("is valid, and can be planned whole", async (context) => {
          if (why !== null) {
            context.skip(why);
            return;
          }
          const validated = await examples.bench.run(directory, "validate", "-no-color");
          assert.equal(validated.code, 0, validated.output);
          await examples.setVariables(directory, { postgres_domain_name: "postgres.example.com" });
          const plan = await planOf(directory);
          checkRules(plan);
          const kinds = plan.resource_changes
            .filter(({ type }) => type === "aws_lb")
            .map(({ change }) => change.after.load_balancer_type);
          assert.ok(kinds.includes("application") && kinds.includes("network"), kinds.join(" "));
          const listeners = plan.resource_changes.filter(({ type }) => type === "aws_lb_listener");
          const ports = new Set(listeners.map(({ change }) => change.after.port));
          assert.deepEqual(ports, new Set([443, 5432, 5433]));
        });

        it("can be planned with the least that has to be said", async (context) => {
          if (why !== null) {
            context.skip(why);
            return;
          }
          await examples.setLeastVariables(directory);
          const { resource_changes } = await planOf(directory);
          const types = new Set(resource_changes.map(({ type }) => type));
          assert.ok(types.has("aws_db_instance") && types.has("aws_ecs_service"));
          for (const type of ["aws_prometheus_workspace", "aws_ssm_document", "aws_sns_topic_subscription"])
            assert.ok(!types.has(type), type);
        });

        it("fails its plan when its regions cannot reach a level", async (context) => {
          if (why !== null) {
            context.skip(why);
            return;
          }
          const levels = [{ name: "region", replicas: 3, outside: "region" }];
          await examples.setVariables(directory, { levels });
          const planned = await examples.plan(directory);
          assert.equal(planned.code, 1);
          assert.match(planned.output, /A level can never be reached/);
        });
      });

    const planOf = async (directory: string): Promise<Plan> => {
      const planned = await examples.plan(directory);
      assert.equal(planned.code, SOMETHING_TO_DO, planned.output.slice(-4_000));
      assert.match(planned.output, /Plan: \d{3} to add, 0 to change, 0 to destroy/);
      return JSON.parse((await examples.showPlan(directory)).text) as Plan;
    };
  },
);

interface Plan {
  readonly resource_changes: readonly {
    readonly address: string;
    readonly type: string;
    readonly change: {
      readonly after: {
        readonly name?: string;
        readonly data?: string;
        readonly load_balancer_type?: string;
        readonly port?: number;
      };
    };
  }[];
}

/** Each workspace gets the repository's rule files, byte for byte, and every one of them. */
function checkRules({ resource_changes }: Plan): void {
  const of = (type: string): Plan["resource_changes"] => resource_changes.filter((one) => one.type === type);
  const namespaces = of("aws_prometheus_rule_group_namespace");
  const workspaces = of("aws_prometheus_workspace");
  assert.equal(workspaces.length, 2);
  const folder = new URL("../../../dashboards/prometheus/", import.meta.url);
  const files = readdirSync(folder).sort();
  assert.equal(namespaces.length, workspaces.length * files.length);
  for (const { address, change } of namespaces)
    assert.ok(
      change.after.data === readFileSync(new URL(`${change.after.name ?? ""}.yml`, folder), "utf8"),
      address,
    );
}
