// Runs a scenario in every language at once, step by step, and reports which languages differ from
// it.
import { APP_ROLE } from "@highwater/lab-system";
import { type Driver, type Drivers, LANGUAGES } from "./driver.ts";
import { type Scenario, type Step, isSystemVerb } from "./format.ts";
import { type Host } from "./host-client.ts";
import { Lane } from "./lane.ts";
import { differences } from "./match.ts";

/** The writing and the judging language: each one in both places. */
const PAIRS = [
  ["typescript", "python sync"],
  ["python sync", "typescript"],
  ["python async", "typescript"],
  ["typescript", "python async"],
] as const;

export interface RunContext {
  readonly drivers: Drivers;
  /** The real system, for scenarios that need it. */
  readonly host?: Host;
  /** Fewer languages, for work on one of them. */
  readonly languages?: readonly string[];
}

export async function runScenario(scenario: Scenario, context: RunContext): Promise<void> {
  const { drivers, host } = context;
  const languages = context.languages ?? Object.keys(LANGUAGES);
  const { parties } = scenario;
  const lanes =
    parties === undefined
      ? languages.map((language) => new Lane(scenario, new Map([["", drivers.get(language)]])))
      : PAIRS.filter((pair) => pair.every((language) => languages.includes(language))).map(
          (pair) =>
            new Lane(
              scenario,
              new Map<string, Driver>(parties.map((party, at) => [party, drivers.get(pair[at] ?? "")])),
            ),
        );
  const failures = new Map<Lane, Error>();
  const onEach = async (run: (lane: Lane) => Promise<void>, where: string): Promise<void> => {
    await Promise.all(
      lanes.map(async (lane) => {
        if (failures.has(lane)) return;
        await run(lane).catch((cause: unknown) => {
          const why = cause instanceof Error ? cause.message : String(cause);
          failures.set(lane, new Error(`${lane.name}, ${where}: ${why}`, { cause }));
        });
      }),
    );
  };
  let broken = false;
  try {
    const site = scenario.on === "system" ? await siteOf(host) : undefined;
    await onEach((lane) => lane.begin(site), "begin");
    for (const [at, step] of scenario.steps.entries()) {
      const where = `step ${String(at + 1)}`;
      if (step.verb === "fault") {
        broken = true;
        await fault(host, step);
      } else
        await onEach((lane) => (isSystemVerb(step.verb) ? truth(host, lane, step) : lane.run(step)), where);
    }
    if (scenario.on === "fake") await onEach((lane) => alike(lane, lanes), "in the end");
  } finally {
    await onEach((lane) => lane.end(), "end");
    for (const lane of failures.keys()) await lane.end().catch(() => undefined);
    if (broken) await host?.command("mend");
  }
  const errors = [...failures.values()];
  if (errors.length > 0) throw new AggregateError(errors, errors.map(({ message }) => message).join("\n"));
}

/**
 * Beyond what the scenario expects, every field of every answer must be the same in all languages.
 */
async function alike(lane: Lane, lanes: readonly Lane[]): Promise<void> {
  const [first] = lanes;
  for (const [at, answer] of lane.answers.entries()) {
    const expected = first?.answers[at];
    if (answer !== expected) throw new Error(`${answer}, but ${String(first?.name)} has ${String(expected)}`);
  }
}

async function siteOf(host: Host | undefined): Promise<NonNullable<Parameters<Lane["begin"]>[0]>> {
  if (host === undefined) throw new Error("this scenario is for the real system");
  const { endpoints, database } = await host.describe();
  const asApplication = Object.assign(new URL(database), { username: APP_ROLE });
  return { endpoints: endpoints.map((each) => ({ ...each })), database: asApplication.href };
}

async function fault(host: Host | undefined, step: Step): Promise<void> {
  const [[name, given] = ["", {}]] = Object.entries(step.body) as [string, Record<string, unknown>][];
  await host?.command(name, given);
}

async function truth(host: Host | undefined, lane: Lane, step: Step): Promise<void> {
  const { sql, rows } = lane.render(step.body) as { sql: string; rows: unknown[] };
  const found = await host?.command("query", { sql });
  const wrong = differences(rows, found);
  if (wrong.length > 0) throw new Error(`${sql}: ${wrong.join("; ")}`);
}
