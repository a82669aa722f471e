// The command `failover authorize`: writes the operator's command for a node that is promoted, and
// waits until the services have carried it out.
import {
  askMemories,
  askNodes,
  type AuthorityCommand,
  writeCommand,
} from "@highwater/durability-tracker/failover";
import { readAuthority } from "@highwater/authority";
import { type NodeSpec } from "@highwater/protocol";
import { type Clock, realClock, sleep } from "@highwater/runtime";
import { POSTGRES_DEFAULTS, PostgresStore } from "@highwater/store";
import { type Call } from "../command.ts";
import { operatorOf, topologyOf, trackersOf } from "../deployment.ts";
import { rows, whyNot, withServer } from "../postgres.ts";
import { badInput, EXIT_REFUSED, Refusal } from "../refusal.ts";
import { type Plan, planAuthorization } from "./plan.ts";

const EXIT = { done: 0, refused: 3, notBegun: 4 } as const;
const BEGIN_MS = 30_000;
const POLL_MS = 200;
const EPOCH_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

interface Result {
  readonly plan: Plan;
  /** The epoch that the command began or confirmed; null: none yet. */
  readonly epoch: string | null;
  readonly exitCode: number;
}

export async function run(call: Call): Promise<number> {
  const { given, env, print } = call;
  const name = given.only("node");
  if (name === null) throw badInput("name the node that is to be the primary");
  const overrules = new Set(given.all("overrule").map((id) => id.toLowerCase()));
  for (const id of overrules) if (!EPOCH_ID.test(id)) throw badInput(`--overrule ${id} is no epoch's id`);
  const authority = readAuthority(env);
  if (authority.faults.length > 0) throw badInput(...authority.faults);
  const topology = topologyOf(null, env);
  const spec = topology.nodes.find(({ id }) => id === name);
  if (spec === undefined) throw badInput(`${name} is not a node of the topology`);
  if (authority.settings.kind === "lease")
    throw new Refusal(
      [
        "HIGHWATER_AUTHORITY is lease: the HA manager names the primary, and an operator's command has no effect",
      ],
      EXIT.refused,
    );
  const trackers = trackersOf(call);
  const store = new PostgresStore({
    ...POSTGRES_DEFAULTS,
    nodes: topology.nodes,
    clock: realClock,
    helper: "authorize",
    poolSize: 1,
  });
  let answers;
  try {
    answers = await Promise.all([askNodes(store, realClock, 0), askMemories(trackers.urls, trackers.caller)]);
  } finally {
    await store.close();
  }
  const [{ reports, failures }, memories] = answers;
  const wishes = { node: name, reason: given.text("reason"), overrules, isFenced: given.flag("fenced") };
  const plan = planAuthorization(wishes, { reports, failures, memories });
  const result = await carryOut(plan, spec, operatorOf(call));
  print(given.flag("json") ? JSON.stringify(asJson(result), null, 2) : asText(result));
  return result.exitCode;
}

async function carryOut(plan: Plan, spec: NodeSpec, by: string): Promise<Result> {
  const { command } = plan;
  if (command === null) return { plan, epoch: null, exitCode: EXIT.refused };
  try {
    await give(spec, command, by);
    const epoch = await epochUnder(spec, command, { clock: realClock, limitMs: BEGIN_MS });
    return { plan, epoch, exitCode: epoch === null ? EXIT.notBegun : EXIT.done };
  } catch (cause) {
    if (cause instanceof Refusal) throw cause;
    throw new Refusal([`${spec.id}: ${whyNot(cause)}`], EXIT_REFUSED);
  }
}

/** Errors: Refusal, if the node has another history by now; those of the server. */
export async function give(spec: NodeSpec, command: AuthorityCommand, by: string): Promise<void> {
  const how = await withServer(spec.url, (client) => writeCommand(client, command, by), { writes: true });
  if (how === "other_history")
    throw new Refusal(
      [`${spec.id} has no record of epoch ${command.ends} any more: ask again`],
      EXIT_REFUSED,
    );
}

/** The services carry it out: they know marks and streams that this command does not. */
async function epochUnder(
  { url }: NodeSpec,
  { id }: AuthorityCommand,
  { clock, limitMs }: { readonly clock: Clock; readonly limitMs: number },
): Promise<string | null> {
  const untilMs = clock.monotonicMs() + limitMs;
  for (;;) {
    const [row] = await withServer(url, (client) =>
      rows<{ epoch: string | null }>(
        client,
        "SELECT epoch::text FROM highwater.authority_command WHERE id = $1",
        [id],
      ),
    ).catch(() => []);
    if (row?.epoch != null) return row.epoch;
    if (clock.monotonicMs() >= untilMs) return null;
    await sleep(clock, POLL_MS);
  }
}

function asJson({ plan, epoch, exitCode }: Result): unknown {
  return { version: 1, ...plan, epoch, exitCode };
}

function asText({ plan, epoch, exitCode }: Result): string {
  const { node, command, obstacles, warnings, givenUp } = plan;
  const headline =
    command === null
      ? `NOT AUTHORIZED: ${node}. Nothing is written`
      : exitCode === EXIT.done
        ? `AUTHORIZED ${node}: epoch ${epoch ?? ""} (command ${command.id})`
        : `NOT YET: command ${command.id} is written on ${node}, and no service has carried it out. Check the trackers' /readyz`;
  const lines = (title: string, all: readonly string[]): string[] =>
    all.length === 0 ? [] : ["", title, ...all.map((line) => `  ${line}`)];
  return [
    headline,
    ...lines(
      command === null ? "It would give up:" : "It gives up:",
      givenUp.map(
        ({ id, seq, node: on, startedAt }) => `epoch ${String(seq)} (${id}), begun on ${on} at ${startedAt}`,
      ),
    ),
    ...lines("In the way:", obstacles),
    ...lines("Warnings:", warnings),
  ].join("\n");
}
