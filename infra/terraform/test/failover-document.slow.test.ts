// The document of a failover is consistent. Every named step exists and can be reached, and nothing is read before it was made.
// Every call is one that AWS's own SDK knows, with what it takes and answers, and the automation's role may do these calls and
// nothing else. The script that fences is run against a stand-in.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import {
  type AutomationDocument,
  callOf,
  referencesOf,
  renderDocument,
  type Step,
  textOf,
} from "./automation.ts";
import { StandIn, whyNoStandIn } from "./stand-in.ts";
import { ROOT, whyNoTerraform, whyNotFull, Workbench } from "./tools.ts";

const PYTHON = fileURLToPath(new URL("../../../.tools/infra/bin/python", import.meta.url));
const HELPER = fileURLToPath(new URL("failover.py", import.meta.url));
const SCRIPT = join(ROOT, "modules/failover/fence.py");

function whyNoPython(): string | false {
  return existsSync(PYTHON) ? false : "no Python with AWS's SDK: make .tools/infra/.installed brings it";
}

/** Steps that a step can be followed by. */
function followersOf({ action, inputs, nextStep }: Step): string[] {
  if (action !== "aws:branch") return nextStep === undefined ? [] : [nextStep];
  const choices = inputs["Choices"] as readonly { NextStep: string }[];
  return [...choices.map(({ NextStep }) => NextStep), textOf(inputs["Default"])];
}

/** Everything that can be reached from the first step without passing `without`. */
function reachable({ mainSteps }: AutomationDocument, without: string | null = null): Set<string> {
  const steps = new Map(mainSteps.map((step) => [step.name, step]));
  const found = new Set<string>();
  const open = [mainSteps[0]?.name ?? ""];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    const step = steps.get(name);
    if (name === without || found.has(name) || step === undefined) continue;
    found.add(name);
    open.push(...followersOf(step));
  }
  return found;
}

describe("the document of a failover", { skip: whyNoTerraform() }, () => {
  let bench: Workbench;
  let document: AutomationDocument;
  let scriptCalls: readonly string[];
  before(async () => {
    bench = await Workbench.open();
    ({ document, scriptCalls } = await renderDocument(bench));
  });
  after(() => bench.close());

  it("names only steps that are there, reaches all of them, and ends", () => {
    const names = document.mainSteps.map(({ name }) => name);
    assert.equal(new Set(names).size, names.length);
    for (const step of document.mainSteps) {
      const followers = followersOf(step);
      for (const name of followers) assert.ok(names.includes(name), `${step.name} goes on with ${name}`);
      assert.equal(step.isEnd === true, followers.length === 0, `${step.name} goes on, or is the end`);
      assert.match(step.name, /^[A-Za-z0-9_]{3,128}$/);
    }
    assert.deepEqual([...reachable(document)].sort(), [...names].sort());
    assert.deepEqual(
      document.mainSteps.filter(({ isEnd }) => isEnd === true).map(({ name }) => name),
      ["verifySummary"],
    );
  });

  it("reads nothing that was not made before, on whichever way a step is reached", () => {
    const made = new Map<string, string>(
      document.mainSteps.flatMap(({ name, outputs = [] }) =>
        outputs.map((output) => [`${name}.${output.Name}`, name] as const),
      ),
    );
    const given = new Set<string>([
      "automation:EXECUTION_ID",
      ...Object.keys(document.parameters),
      ...Object.keys(document.variables).map((name) => `variable:${name}`),
    ]);
    const used = new Set<string>();
    for (const step of document.mainSteps)
      for (const reference of referencesOf(step.inputs)) {
        used.add(reference);
        if (given.has(reference)) continue;
        const maker = made.get(reference);
        assert.ok(maker !== undefined, `${step.name} reads ${reference}`);
        assert.ok(!reachable(document, maker).has(step.name), `${step.name} is reached without ${reference}`);
      }
    for (const name of given) assert.ok(used.has(name), `nothing reads ${name}`);
    for (const output of document.outputs) assert.ok(made.has(output), output);
    for (const { name, inputs } of document.mainSteps.filter(({ action }) => action === "aws:updateVariable"))
      assert.ok(given.has(textOf(inputs["Name"])), name);
  });

  it("fences and promotes only after a person's word", () => {
    for (const name of ["fence", "promote", "authorizeStart"]) {
      const step = document.mainSteps.find((one) => one.name === name);
      assert.ok(step !== undefined);
      const free = reachable(document, "approve");
      if (name !== "authorizeStart") assert.ok(!free.has(name), name);
    }
    // What is gone on with was approved in the run that is named; the report that it has to be is checked by the task.
    assert.deepEqual(
      ["preview", "fenced"].map((stage) => reachable(document, `${stage}Code`).has("promote")),
      [false, false],
    );
    for (const { name, action, timeoutSeconds, inputs } of document.mainSteps)
      if (action === "aws:approve")
        assert.ok(
          timeoutSeconds === 86_400 && inputs["MinRequiredApprovals"] === 1,
          `${name} waits for the approvers and the time that it was given`,
        );
  });

  it("says for every step what state its failure leaves", () => {
    for (const { name, action, description = "" } of document.mainSteps)
      assert.match(description, action === "aws:approve" ? /If it is rejected\b/ : /If it fails: /, name);
  });

  it("may make the calls that it makes, and no others", () => {
    const needed = new Set(scriptCalls);
    for (const { action, inputs } of document.mainSteps) {
      if (inputs["Api"] !== undefined) {
        const { Service, Api } = callOf(inputs);
        needed.add(`${Service}:${Api}`);
        // A task gets its role from the caller that starts it.
        if (Api === "RunTask") needed.add("iam:PassRole");
      }
      if (action === "aws:approve")
        for (const right of ["sns:Publish", "kms:GenerateDataKey", "kms:Decrypt"]) needed.add(right);
    }
    const policy = /data "aws_iam_policy_document" "automation" \{\n([\s\S]*?)\n\}\n/.exec(
      readFileSync(join(ROOT, "modules/failover/iam.tf"), "utf8"),
    )?.[1];
    const allowed = [...(policy ?? "").matchAll(/actions\s*=\s*\[([^\]]*)\]/g)].flatMap(([, list = ""]) =>
      [...list.matchAll(/"([^"]+)"/g)].map(([, action = ""]) => action),
    );
    assert.deepEqual(allowed.sort(), [...needed].sort());
  });

  it("makes from its script exactly the calls that it lists", () => {
    const text = readFileSync(SCRIPT, "utf8");
    const called = [...text.matchAll(/\bec2\.([a-z_]+)\(/g)].map(([, name = ""]) =>
      name.replace(/(?:^|_)([a-z])/g, (_match, letter: string) => letter.toUpperCase()),
    );
    assert.deepEqual([...new Set(called)].map((name) => `ec2:${name}`).sort(), [...scriptCalls].sort());
    const step = document.mainSteps.find(({ name }) => name === "fence");
    assert.equal(step?.inputs["Script"], text);
    assert.match(text, new RegExp(`^def ${textOf(step?.inputs["Handler"])}\\(events, context\\):$`, "m"));
  });

  it("makes calls that AWS's SDK knows", { skip: whyNoPython() }, async () => {
    const calls = document.mainSteps
      .filter(({ inputs }) => inputs["Api"] !== undefined)
      .map(({ name, inputs, outputs = [] }) => {
        const { Service, Api, ...parameters } = callOf(inputs);
        const selectors = [
          ...outputs.map(({ Selector, Type }) => [Selector, Type]),
          ...(inputs["PropertySelector"] === undefined ? [] : [[inputs["PropertySelector"], null]]),
        ];
        return { step: name, service: Service, api: Api, parameters, selectors };
      });
    assert.ok(calls.length > 15);
    const faults = JSON.parse(await python("calls", JSON.stringify(calls))) as string[];
    assert.deepEqual(faults, []);
    // The check itself can fail.
    const [call] = calls;
    assert.ok(call !== undefined);
    const wrong = [
      { ...call, api: "RunTasks" },
      { ...call, parameters: { ...call.parameters, clusters: "one" } },
      { ...call, selectors: [["$.task[0].taskArn", "String"]] },
      { ...call, selectors: [["$.tasks[0].taskArn", "Integer"]] },
    ];
    assert.equal((JSON.parse(await python("calls", JSON.stringify(wrong))) as string[]).length, wrong.length);
  });

  it(
    "fences on a stand-in, twice alike, and not with a gap",
    { skip: whyNotFull() || whyNoStandIn() || whyNoPython() },
    async () => {
      const aws = await StandIn.start();
      try {
        const found = JSON.parse(await python("fence", "", aws.env)) as unknown;
        assert.deepEqual(found, {
          first: "every subnet of the database has the fence; the others have what they had",
          again: "nothing changes",
          gap: "refused",
          missing: "refused",
        });
      } finally {
        await aws.stop();
      }
    },
  );
});

async function python(
  what: string,
  input: string,
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  const running = promisify(execFile)(PYTHON, [HELPER, what, SCRIPT], {
    env: {
      PATH: process.env["PATH"] ?? "",
      AWS_ACCESS_KEY_ID: "testing",
      AWS_SECRET_ACCESS_KEY: "testing",
      AWS_EC2_METADATA_DISABLED: "true",
      ...env,
    },
    timeout: 120_000,
  });
  running.child.stdin?.end(input);
  return (await running).stdout;
}
