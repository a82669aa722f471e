// A document of Systems Manager Automation, read and carried out as its reference says, as far as ours uses it. This does not
// show what AWS itself makes of a document: it is our reading of the reference.
import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { type Workbench } from "./tools.ts";

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
type Inputs = Readonly<Record<string, Json>>;

export interface Step {
  readonly name: string;
  readonly action: string;
  readonly description?: string;
  readonly inputs: Inputs;
  readonly outputs?: readonly { readonly Name: string; readonly Selector: string; readonly Type: string }[];
  readonly nextStep?: string;
  readonly isEnd?: boolean;
  readonly onFailure?: string;
  readonly timeoutSeconds?: number;
}

export interface AutomationDocument {
  readonly schemaVersion: string;
  readonly assumeRole: string;
  readonly parameters: Readonly<
    Record<
      string,
      { readonly type: string; readonly default?: Json; readonly allowedValues?: readonly string[] }
    >
  >;
  readonly variables: Readonly<Record<string, { readonly type: string; readonly default: Json }>>;
  readonly mainSteps: readonly Step[];
  readonly outputs: readonly string[];
}

const SUBMODULE = "modules/failover/document";
export const TASK = {
  ...{ cluster: "highwater-us-west", definition: "highwater-us-west-failover", container: "failover" },
  subnet_ids: ["subnet-4", "subnet-5"],
  ...{ security_group_id: "sg-1", log_group: "/highwater-us-west/failover" },
} as const;

/** What the module makes of the variables; null and a reason where Terraform cannot be set up. */
export async function renderDocument(
  bench: Workbench,
  changes: object = {},
): Promise<{ readonly document: AutomationDocument; readonly scriptCalls: readonly string[] }> {
  assert.equal(await bench.init(SUBMODULE), null);
  await bench.writeVariables(SUBMODULE, {
    name: "highwater-us-west",
    node: "us-west",
    role_arn: "arn:aws:iam::111122223333:role/highwater-us-west-failover",
    task: TASK,
    database: { identifier: "highwater-us-west", retention_days: 14, window: "01:00-02:00" },
    fences: {
      "us-east": { region: "us-east-1", network_acl_id: "acl-1", subnet_ids: ["subnet-1", "subnet-2"] },
      "eu-west": { region: "eu-west-1", network_acl_id: "acl-2", subnet_ids: ["subnet-7", "subnet-8"] },
    },
    gateway_urls: ["https://gateway-1.us-west.highwater.internal:4600"],
    approval: {
      topic_arn: "arn:aws:sns:us-west-2:111122223333:highwater-us-west-failover-approval",
      approvers: ["arn:aws:iam::111122223333:role/operators"],
      minimum: 1,
      hours: 24,
    },
    ...changes,
  });
  const planned = await bench.run(SUBMODULE, "plan", "-no-color", "-input=false", "-out=case.plan");
  assert.equal(planned.code, 0, planned.output);
  const shown = await bench.run(SUBMODULE, "show", "-json", "case.plan");
  const { planned_values } = JSON.parse(shown.text) as {
    planned_values: { outputs: { json: { value: string }; script_calls: { value: string[] } } };
  };
  const { json, script_calls } = planned_values.outputs;
  return { document: JSON.parse(json.value) as AutomationDocument, scriptCalls: script_calls.value };
}

const TEMPLATE = /\{\{ *([A-Za-z0-9_.:]+) *\}\}/g;

/** Every `{{ … }}` in the value, without its braces. */
export function referencesOf(value: unknown): string[] {
  return [...JSON.stringify(value).matchAll(TEMPLATE)].map(([, name = ""]) => name);
}

/** `$.a[0].b`; undefined when it leads nowhere. */
function select(value: Json, selector: string): Json | undefined {
  let found: Json | undefined = value;
  for (const [, name, index] of selector.slice(1).matchAll(/\.([A-Za-z0-9_]+)|\[(\d+)\]/g)) {
    if (found === undefined || found === null || typeof found !== "object") return undefined;
    found =
      name === undefined
        ? (found as readonly Json[])[Number(index)]
        : (found as Readonly<Record<string, Json>>)[name];
  }
  return found;
}

export interface World {
  readonly api: (service: string, api: string, inputs: Inputs) => Promise<Json>;
  readonly script: (step: Step, payload: Inputs) => Promise<Json>;
  readonly approve: (step: Step, message: string) => Promise<boolean>;
}

export interface Outcome {
  readonly status: "Success" | "Failed";
  /** In the order in which they were begun. */
  readonly steps: readonly string[];
  readonly failure: string | null;
  readonly outputs: ReadonlyMap<string, Json>;
}

/** As a document writes it into a text. */
export function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : JSON.stringify(value ?? null);
}

const STEPS_MAX = 200;
const POLL_MS = 200;
/** The test does not wait for the hour that the document allows. */
const WAIT_LIMIT_MS = 300_000;

export class Automation {
  readonly #document: AutomationDocument;
  readonly #world: World;
  readonly #run: string;
  readonly #values = new Map<string, Json>();

  constructor(
    document: AutomationDocument,
    world: World,
    { run, parameters }: { readonly run: string; readonly parameters: Readonly<Record<string, string>> },
  ) {
    this.#document = document;
    this.#world = world;
    this.#run = run;
    for (const [name, { default: fallback, allowedValues }] of Object.entries(document.parameters)) {
      const value = parameters[name] ?? fallback;
      assert.ok(value !== undefined, `${name} is required`);
      assert.ok(
        allowedValues === undefined || allowedValues.includes(textOf(value)),
        `${name}: ${textOf(value)}`,
      );
      this.#values.set(name, value);
    }
    for (const [name, { default: fallback }] of Object.entries(document.variables))
      this.#values.set(`variable:${name}`, fallback);
    this.#values.set("automation:EXECUTION_ID", run);
  }

  async start(): Promise<Outcome> {
    const steps: string[] = [];
    const end = (status: "Success" | "Failed", failure: string | null): Outcome => ({
      ...{ status, steps, failure },
      outputs: this.#values,
    });
    let step = this.#document.mainSteps[0];
    while (step !== undefined) {
      assert.ok(steps.push(step.name) <= STEPS_MAX, "it goes round in circles");
      let next: string | undefined;
      try {
        next = (await this.#carryOut(step)) ?? step.nextStep;
      } catch (cause) {
        const why = `${step.name}: ${cause instanceof Error ? cause.message : String(cause)}`;
        if (step.onFailure !== "Continue") return end("Failed", why);
        next = step.nextStep;
      }
      if (step.isEnd === true) return end("Success", null);
      step = this.#step(next ?? "");
    }
    throw new Error("there is no step to go on with");
  }

  #step(name: string): Step {
    const found = this.#document.mainSteps.find((step) => step.name === name);
    assert.ok(found !== undefined, `there is no step ${name}`);
    return found;
  }

  /** The name of the next step where the step itself decides that. */
  async #carryOut(step: Step): Promise<string | undefined> {
    const inputs = this.#fill(step.inputs) as Inputs;
    switch (step.action) {
      case "aws:branch":
        return this.#branch(inputs);
      case "aws:updateVariable":
        this.#values.set(textOf(inputs["Name"]), inputs["Value"] ?? null);
        return undefined;
      case "aws:sleep":
        return undefined;
      case "aws:approve": {
        const isApproved = await this.#world.approve(step, textOf(inputs["Message"]));
        if (!isApproved) throw new Error("it was rejected");
        return undefined;
      }
      case "aws:executeScript": {
        const payload = await this.#world.script(step, inputs["InputPayload"] as Inputs);
        this.#keep(step, { Payload: payload });
        return undefined;
      }
      case "aws:executeAwsApi":
        this.#keep(step, await this.#call(inputs));
        return undefined;
      case "aws:assertAwsResourceProperty":
      case "aws:waitForAwsResourceProperty":
        await this.#await(step, inputs);
        return undefined;
      default:
        throw new Error(`nobody has read of ${step.action}`);
    }
  }

  #branch({ Choices, Default }: Inputs): string {
    for (const choice of Choices as readonly Inputs[]) {
      const { Variable, StringEquals, NumericEquals, NextStep } = choice;
      if ((StringEquals ?? NumericEquals) === Variable) return textOf(NextStep);
    }
    return textOf(Default);
  }

  async #await(step: Step, inputs: Inputs): Promise<void> {
    const untilMs = performance.now() + WAIT_LIMIT_MS;
    for (;;) {
      const found = select(await this.#call(inputs), textOf(inputs["PropertySelector"]));
      const wanted = inputs["DesiredValues"] as readonly string[];
      if (found !== undefined && wanted.includes(textOf(found))) return;
      if (step.action === "aws:assertAwsResourceProperty" || performance.now() >= untilMs)
        throw new Error(`${textOf(found)} is none of ${wanted.join(", ")}`);
      await pause(POLL_MS);
    }
  }

  #call(inputs: Inputs): Promise<Json> {
    const { Service, Api, ...rest } = callOf(inputs);
    return this.#world.api(Service, Api, rest);
  }

  #keep(step: Step, response: Json): void {
    for (const { Name, Selector } of step.outputs ?? []) {
      const found = select(response, Selector);
      if (found === undefined) throw new Error(`there is no ${Selector} in the answer`);
      this.#values.set(`${step.name}.${Name}`, found);
    }
  }

  #fill(value: Json): Json {
    if (typeof value === "string") {
      const whole = /^\{\{ *([A-Za-z0-9_.:]+) *\}\}$/.exec(value)?.[1];
      if (whole !== undefined) return this.#value(whole);
      return value.replace(TEMPLATE, (_match, name: string) => textOf(this.#value(name)));
    }
    if (value === null || typeof value !== "object") return value;
    if (Array.isArray(value)) return value.map((each: Json) => this.#fill(each));
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, this.#fill(each)]));
  }

  #value(name: string): Json {
    const found = this.#values.get(name);
    assert.ok(found !== undefined, `${name} is not there yet (run ${this.#run})`);
    return found;
  }
}

/** What of a step's inputs is the call, and what is about its answer. */
export function callOf(inputs: Inputs): { Service: string; Api: string } & Record<string, Json> {
  const aboutAnswer = ["PropertySelector", "DesiredValues"];
  const rest = Object.fromEntries(Object.entries(inputs).filter(([name]) => !aboutAnswer.includes(name)));
  return { ...rest, Service: textOf(inputs["Service"]), Api: textOf(inputs["Api"]) };
}
