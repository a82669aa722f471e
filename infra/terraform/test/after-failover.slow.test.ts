// After a failover Terraform keeps the promoted node as it is, and makes the others anew as its replicas, one region at a time: what
// docs/deploy-aws.md says about that, on a stand-in for AWS. Whether a change would have a node made anew is the provider's own
// answer, which a mocked provider does not give.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it, type TestContext } from "node:test";
import { layOverrides, StandIn, whyNoStandIn } from "./stand-in.ts";
import { type Ran, whyNotFull, Workbench } from "./tools.ts";

const EXAMPLE = "examples/after-failover";
const REGIONS = { east: "us-east-1", west: "us-west-2", europe: "eu-west-1" } as const;
type Alias = keyof typeof REGIONS;

type Standing = { readonly role: "primary" | "promoted" } | { readonly role: "replica"; readonly of: Alias };

const nameOf = (alias: Alias): string => `highwater-${REGIONS[alias]}`;

/** A composition of nothing but the nodes: as in the examples, without what has nothing to do with it. */
function composition(standings: Readonly<Record<Alias, Standing>>): string {
  const regions = Object.entries(REGIONS) as [Alias, string][];
  return [
    `terraform {
  required_version = ">= 1.11.0"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "5.100.0"
    }
  }
}
`,
    ...regions.map(([alias, region], index) => {
      const standing = standings[alias];
      const password =
        standing.role === "primary"
          ? `master_password         = "0123456789abcdef"\n  master_password_version = 1`
          : "";
      const source =
        standing.role === "replica" ? `replicate_source_arn = module.store_${standing.of}.arn` : "";
      return `
provider "aws" {
  alias  = "${alias}"
  region = "${region}"
}

resource "aws_vpc" "${alias}" {
  provider   = aws.${alias}
  cidr_block = "10.${String(index)}.0.0/16"
}

resource "aws_subnet" "${alias}" {
  provider          = aws.${alias}
  for_each          = { a = 0, b = 1 }
  vpc_id            = aws_vpc.${alias}.id
  availability_zone = "${region}\${each.key}"
  cidr_block        = cidrsubnet(aws_vpc.${alias}.cidr_block, 4, each.value)
}

module "store_${alias}" {
  source    = "../../modules/store-rds-postgres"
  providers = { aws = aws.${alias} }

  name             = "${nameOf(alias)}"
  region           = "${region}"
  role             = "${standing.role}"
  ${source}
  ${password}
  vpc_id           = aws_vpc.${alias}.id
  subnet_ids       = values(aws_subnet.${alias})[*].id
  client_cidrs     = { all = "10.0.0.0/18" }
  kms_key_arn      = "arn:aws:kms:${region}:123456789012:key/00000000-0000-4000-8000-000000000000"
  service_sessions = 100
}
`;
    }),
  ].join("");
}

const BEFORE: Readonly<Record<Alias, Standing>> = {
  east: { role: "primary" },
  west: { role: "replica", of: "east" },
  europe: { role: "replica", of: "east" },
};
/** The promoted node first: until then nothing can follow it. The others keep what they have. */
const PROMOTED: Readonly<Record<Alias, Standing>> = { ...BEFORE, west: { role: "promoted" } };
const EUROPE_FOLLOWS: typeof PROMOTED = { ...PROMOTED, europe: { role: "replica", of: "west" } };
const ALL_FOLLOW: typeof PROMOTED = { ...EUROPE_FOLLOWS, east: { role: "replica", of: "west" } };

interface Change {
  readonly address: string;
  readonly change: { readonly actions: readonly string[] };
}

describe("terraform after a failover", { skip: whyNotFull() || whyNoStandIn() }, () => {
  let bench: Workbench;
  let aws: StandIn;
  let why: string | null;
  before(async () => {
    bench = await Workbench.open();
    aws = await StandIn.start();
    bench.addEnv(aws.env);
    layOverrides(bench.folder);
    mkdirSync(join(bench.folder, EXAMPLE));
    compose(BEFORE);
    why = await bench.init(EXAMPLE);
  });
  after(async () => {
    await bench.close();
    await aws.stop();
  });

  const compose = (standings: Readonly<Record<Alias, Standing>>): void => {
    writeFileSync(join(bench.folder, EXAMPLE, "main.tf"), composition(standings));
  };
  const apply = (): Promise<Ran> => bench.run(EXAMPLE, "apply", "-no-color", "-input=false", "-auto-approve");
  /** By node, what would be done with its instance. */
  const planned = async (): Promise<Record<Alias, string>> => {
    const ran = await bench.run(EXAMPLE, "plan", "-no-color", "-input=false", "-out=case.plan");
    assert.equal(ran.code, 0, ran.output.slice(-4_000));
    const shown = await bench.run(EXAMPLE, "show", "-json", "case.plan");
    const { resource_changes } = JSON.parse(shown.text) as { resource_changes: readonly Change[] };
    const actionOf = (alias: Alias): string =>
      resource_changes
        .find(({ address }) => address === `module.store_${alias}.aws_db_instance.this`)
        ?.change.actions.join(" ") ?? "nothing";
    return { east: actionOf("east"), west: actionOf("west"), europe: actionOf("europe") };
  };
  /** The promoted node is the same instance afterwards. */
  const assertStays = (plan: Readonly<Record<Alias, string>>): void => {
    assert.ok(["no-op", "update"].includes(plan.west), JSON.stringify(plan));
  };
  const deleteByHand = async (alias: Alias): Promise<void> => {
    const identifier = { DBInstanceIdentifier: nameOf(alias) };
    await aws.callRds(REGIONS[alias], "ModifyDBInstance", {
      ...identifier,
      DeletionProtection: "false",
      ApplyImmediately: "true",
    });
    const remove = (): Promise<string> =>
      aws.callRds(REGIONS[alias], "DeleteDBInstance", { ...identifier, SkipFinalSnapshot: "true" });
    // moto deletes it, then looks for it among its source's replicas by a name of another form, and answers 500.
    await remove().catch(() => undefined);
    await assert.rejects(remove(), /DBInstanceNotFound/);
  };

  // One after the other, on what the one before has left. The provider waits for over a minute for each node that it makes or
  // changes, whatever moto says: together they take longer than one test may.
  const isSkipped = (context: TestContext): boolean => {
    if (why !== null) context.skip(why);
    return why !== null;
  };

  it("makes a primary and two replicas before it", async (context) => {
    if (isSkipped(context)) return;
    const applied = await apply();
    assert.equal(applied.code, 0, applied.output.slice(-4_000));
  });

  it("keeps the promoted node", async (context) => {
    if (isSkipped(context)) return;
    await aws.callRds(REGIONS.west, "PromoteReadReplica", {
      DBInstanceIdentifier: nameOf("west"),
      BackupRetentionPeriod: "14",
      PreferredBackupWindow: "01:00-02:00",
    });
    compose(PROMOTED);
    const kept = await planned();
    assertStays(kept);
    assert.deepEqual([kept.east, kept.europe], ["no-op", "no-op"]);
  });

  // RDS gives a replica no other primary, and the provider says so only when it is applied.
  it("cannot give a replica another primary", async (context) => {
    if (isSkipped(context)) return;
    compose(EUROPE_FOLLOWS);
    assert.equal((await planned()).europe, "update");
    const refused = await apply();
    assert.equal(refused.code, 1);
    assert.match(refused.output, /cannot elect new source database for replication/);
  });

  it("makes a replica anew while the others stay", async (context) => {
    if (isSkipped(context)) return;
    await deleteByHand("europe");
    const anew = await planned();
    assert.equal(anew.europe, "create");
    assertStays(anew);
    const made = await apply();
    assert.equal(made.code, 0, made.output.slice(-4_000));

    const shown = await bench.run(EXAMPLE, "show", "-json");
    assert.match(
      shown.text,
      new RegExp(`"identifier":"${nameOf("europe")}".*"replicate_source_db":"arn:[^"]*${nameOf("west")}"`),
    );
  });

  // In the same way, for which the provider would wait for minutes again.
  it("plans the last replica anew", async (context) => {
    if (isSkipped(context)) return;
    await deleteByHand("east");
    compose(ALL_FOLLOW);
    const last = await planned();
    assertStays(last);
    assert.deepEqual([last.east, last.europe], ["create", "no-op"]);
  });
});
