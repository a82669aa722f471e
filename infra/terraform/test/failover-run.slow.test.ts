// Goal: what the document says, done in its order, is a failover: from a primary that hangs to commits on the node that the
// trackers name. Method: the document as Terraform renders it, carried out by our reading of the reference; its tasks run as
// processes, on a real cluster of three regions. Stand-ins: the loss of the primary's region for the fence, pg_promote() for RDS, a
// function for the approver, what the processes print for CloudWatch.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { internalCredential } from "@highwater/service";
import { System } from "@highwater/lab-system";
import { commit, commitKeys, createTable, eventually, put, starve } from "@highwater/lab-system/testing";
import {
  Automation,
  type AutomationDocument,
  type Json,
  type Outcome,
  renderDocument,
  TASK,
  textOf,
} from "./automation.ts";
import { whyNotFull, Workbench } from "./tools.ts";

const REPOSITORY = fileURLToPath(new URL("../../..", import.meta.url));
const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
const SECRET = "0123456789abcdef0123456789abcdef";
const LATE = 3;
const LIMIT_MS = 300_000;

interface Task {
  exitCode: number | null;
  readonly lines: string[];
}

/** ECS, CloudWatch Logs and RDS, as far as the document calls them. */
class Aws {
  readonly tasks = new Map<string, Task>();
  readonly promoted: string[] = [];
  readonly approvals: string[] = [];
  fenced = 0;
  isApproved = true;
  /** Whatever a program is not to see of the document's settings. */
  overrides: Readonly<Record<string, string>> = {};
  readonly #system: System;
  readonly #environment: Readonly<Record<string, string>>;

  constructor(system: System, environment: Readonly<Record<string, string>>) {
    this.#system = system;
    this.#environment = environment;
  }

  async call(service: string, api: string, inputs: Readonly<Record<string, Json>>): Promise<Json> {
    switch (`${service}:${api}`) {
      case "ecs:RunTask":
        return { tasks: [{ taskArn: this.#start(inputs) }] };
      case "ecs:DescribeTasks": {
        const [name] = inputs["tasks"] as readonly string[];
        const task = this.tasks.get(name ?? "");
        assert.ok(task !== undefined && inputs["cluster"] === TASK.cluster);
        const isOver = task.exitCode !== null;
        return {
          tasks: [
            {
              lastStatus: isOver ? "STOPPED" : "RUNNING",
              containers: [isOver ? { exitCode: task.exitCode } : {}],
            },
          ],
        };
      }
      case "logs:FilterLogEvents": {
        assert.equal(inputs["logGroupName"], TASK.log_group);
        const phrase = /^"(.+)"$/.exec(textOf(inputs["filterPattern"]))?.[1] ?? "";
        const lines = [...this.tasks.values()].flatMap(({ lines: printed }) => printed);
        return {
          events: lines.filter((line) => line.includes(phrase)).map((message) => ({ message })),
        };
      }
      case "rds:DescribeDBInstances":
        return { DBInstances: [{ DBInstanceStatus: "available" }] };
      case "rds:PromoteReadReplica":
        assert.deepEqual(inputs, {
          DBInstanceIdentifier: "highwater-us-west",
          BackupRetentionPeriod: 14,
          PreferredBackupWindow: "01:00-02:00",
        });
        await this.#system.cluster.promote(WEST, { command: false });
        this.promoted.push(WEST);
        return {};
      default:
        throw new Error(`nobody calls ${service}:${api}`);
    }
  }

  #start(inputs: Readonly<Record<string, Json>>): string {
    const { overrides } = inputs as {
      overrides: {
        containerOverrides: readonly [
          { name: string; command: string[]; environment: { name: string; value: string }[] },
        ];
      };
    };
    const [container] = overrides.containerOverrides;
    assert.equal(container.name, TASK.container);
    assert.ok(JSON.stringify(overrides).length < 8_192, "ECS takes no longer overrides");
    const [program = "", ...args] = container.command;
    assert.equal(program, "node");
    const task: Task = { exitCode: null, lines: [] };
    const name = `arn:aws:ecs:us-west-2:111122223333:task/${TASK.cluster}/${randomUUID()}`;
    this.tasks.set(name, task);
    const child = spawn(process.execPath, args, {
      cwd: REPOSITORY,
      env: {
        PATH: process.env["PATH"] ?? "",
        ...this.#environment,
        ...Object.fromEntries(container.environment.map(({ name: key, value }) => [key, value])),
        ...this.overrides,
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let text = "";
    const take = (chunk: Buffer): void => {
      text += chunk.toString("utf8");
    };
    child.stdout.on("data", take);
    child.stderr.on("data", take);
    child.once("close", (code) => {
      task.lines.push(...text.split("\n"));
      task.exitCode = code ?? 137;
    });
    return name;
  }

  get printed(): string {
    return [...this.tasks.values()].flatMap(({ lines }) => lines).join("\n");
  }
}

describe("a failover as the document says", { skip: whyNotFull(), timeout: 3 * LIMIT_MS }, () => {
  let bench: Workbench;
  let system: System;
  let document: AutomationDocument;
  let aws: Aws;
  before(async () => {
    bench = await Workbench.open();
    system = await System.start({
      env: {
        HIGHWATER_AUTHORITY: "operator",
        HIGHWATER_INTERNAL_SECRET: SECRET,
        TRACKER_AUTH: "keys",
        TRACKER_PUBLISH_PATIENCE_MS: "300",
      },
    });
    ({ document } = await renderDocument(bench, { gateway_urls: [system.gateway(WEST).url] }));
    const endpoints = await system.endpoints(WEST);
    aws = new Aws(system, {
      HIGHWATER_AUTHORITY: "operator",
      HIGHWATER_INTERNAL_SECRET: SECRET,
      HIGHWATER_TOPOLOGY: `@${system.topologyFile(WEST)}`,
      HIGHWATER_TRACKERS: endpoints.map(({ tracker }) => tracker).join(","),
    });
  });
  after(async () => {
    await system.close();
    await bench.close();
  });

  const start = (parameters: Readonly<Record<string, string>> = {}): Promise<Outcome> & { run: string } => {
    const run = randomUUID();
    const automation = new Automation(
      document,
      {
        api: (service, api, inputs) => aws.call(service, api, inputs),
        // The processes that commit there are cut off, and so is the server.
        script: async (step, payload) => {
          assert.equal(step.name, "fence");
          assert.equal(payload["node"], EAST);
          aws.fenced += 1;
          if (aws.fenced === 1) await system.killRegion(EAST);
          return { before: "" };
        },
        approve: (_step, message) => {
          aws.approvals.push(message);
          return Promise.resolve(aws.isApproved);
        },
      },
      { run, parameters: { OldPrimary: EAST, ...parameters } },
    );
    return Object.assign(automation.start(), { run });
  };

  it("ends before anything is done while the primary answers", async () => {
    await createTable(system, EAST);
    const outcome = await start();
    assert.equal(outcome.status, "Failed", aws.printed);
    assert.equal(outcome.steps.at(-1), "previewCode");
    assert.match(outcome.failure ?? "", /^previewCode: 3 is none of 0, 7$/);
    assert.deepEqual([aws.approvals.length, aws.fenced, aws.promoted.length], [0, 0, 0]);
  });

  let late: { key: string; token: string }[] = [];
  it("ends before anything is done when it is rejected, or names another primary", async () => {
    await commit(system.gateway(EAST).url, [put("early")], { ack: "durable", level: "global" });
    // In this order: what is written between the two must not make the other one the candidate.
    await starve(system, EUROPE, EAST);
    await starve(system, WEST, EAST);
    late = await commitKeys(system.gateway(EAST).url, "late", LATE);
    await eventually("the west's tracker has heard of them", async () => {
      const { marks } = await ask<{ marks: { epoch: string } | null }>(system, "/v1/durability/marks");
      const { candidates } = await ask<{ candidates: { transactions: number }[] }>(
        system,
        "/v1/durability/failover-preview",
        { epoch: marks?.epoch, candidates: [{ node: WEST, offset: "0" }], list: 0 },
      );
      return (candidates[0]?.transactions ?? 0) >= LATE;
    });
    // It hangs: it answers no request, and its connections stay open.
    await system.cluster.pause(EAST);
    aws.isApproved = false;
    const rejected = await start();
    assert.equal(rejected.steps.at(-1), "approve", aws.printed);
    assert.match(aws.approvals.at(-1) ?? "", /promote us-west, after us-east is fenced \(cut-off\)/);
    assert.match(aws.approvals.at(-1) ?? "", /would lose 3 transactions/);
    aws.isApproved = true;
    const mistaken = await start({ OldPrimary: EUROPE });
    assert.equal(mistaken.steps.at(-1), "previewCode", aws.printed);
    assert.match(mistaken.failure ?? "", /^previewCode: 21 /);
    assert.deepEqual([aws.fenced, aws.promoted.length], [0, 0]);
  });

  it("fences, promotes, breaks off, is gone on with, and commits go on", async () => {
    // The command cannot be written at first.
    aws.overrides = { AUTHORIZE_NODE: "moon" };
    const running = start();
    const broken = await running;
    assert.equal(broken.steps.at(-1), "authorizeCode", `${broken.failure ?? ""}\n${aws.printed}`);
    assert.deepEqual([aws.fenced, aws.promoted], [1, [WEST]]);
    assert.ok(broken.steps.indexOf("approve") < broken.steps.indexOf("fence"));
    assert.ok(broken.steps.indexOf("fencedCode") < broken.steps.indexOf("promote"));

    aws.overrides = {};
    const outcome = await start({ GoOnWith: running.run });
    assert.equal(outcome.status, "Success", `${outcome.failure ?? ""}\n${aws.printed}`);
    assert.deepEqual(outcome.steps.slice(0, 3), ["begin", "goOn", "fencedReportRead"]);
    assert.deepEqual([aws.fenced, aws.promoted], [1, [WEST]], "nothing is done twice");
    assert.match(
      textOf(outcome.outputs.get("verifySummary.Text")),
      /3 transactions are lost, 3 of them reported/,
    );

    const done = await commit(system.gateway(WEST).url, [put("after")], { ack: "durable" });
    assert.equal(done.state, "durable");
    const { verdicts } = await ask<{ verdicts: { verdict: string }[] }>(system, "/v1/durability/verdicts", {
      tokens: late.map(({ token }) => token),
      waitMs: 20_000,
    });
    assert.deepEqual(
      verdicts.map(({ verdict }) => verdict),
      late.map(() => "lost"),
    );
    const rows = await system.cluster.query(WEST, "SELECT reason FROM highwater.authority_command");
    assert.deepEqual(
      rows.map(({ reason }) => reason),
      ["failover from us-east"],
    );
  });
});

/** As a service of the cluster does. */
async function ask<T>(system: System, path: string, body?: object): Promise<T> {
  const response = await fetch(`${system.tracker(WEST).url}${path}`, {
    headers: { authorization: `Bearer ${internalCredential(SECRET)}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
  });
  const answer = (await response.json()) as T;
  assert.ok(response.ok, `${path}: ${String(response.status)} ${JSON.stringify(answer)}`);
  return answer;
}
