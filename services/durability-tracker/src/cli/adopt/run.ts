// Runs the command: asks nodes and trackers, writes the command, and waits for the epoch.
import { type EpochId } from "@highwater/protocol";
import { type Clock, sleep } from "@highwater/runtime";
import { type Adoption, type Store } from "@highwater/store";
import {
  askMemories,
  askNodes,
  askPreview,
  hostOf,
  type Remembered,
  type TrackerCaller,
} from "../failover-candidate/ask.ts";
import { badInput } from "../failover-candidate/parse.ts";
import { type AdoptCommand } from "./parse.ts";
import { type AdoptionPlan, lossOf, planAdoption, type TrackerLoss } from "./plan.ts";

export interface AdoptDeps {
  readonly store: Store & { adopt(node: string, adoption: Adoption): Promise<string> };
  readonly clock: Clock;
  readonly trackers: readonly string[];
  readonly caller: TrackerCaller;
}

export interface AdoptResult {
  readonly plan: AdoptionPlan;
  /** The id of the command that was written; null: nothing was. */
  readonly command: string | null;
  /** The epoch that began under it; null: none yet. */
  readonly epoch: string | null;
  readonly exitCode: number;
}

const EXIT = { done: 0, refused: 3, notBegun: 4 } as const;
const BEGIN_MS = 30_000;
const POLL_MS = 200;

/** Errors: `invalid_request` when the node is not configured. */
export async function runAdopt(command: AdoptCommand, deps: AdoptDeps): Promise<AdoptResult> {
  const { store, clock, caller } = deps;
  const { node, act } = command;
  if (!store.nodes.some(({ id }) => id === node))
    throw badInput([`--node ${node} is not a node of the topology`]);
  const urls = [...new Set([...deps.trackers, ...command.trackers])];
  const [answers, memories] = await Promise.all([askNodes(store, clock, 0), askMemories(urls, caller)]);
  const plan: AdoptionPlan = {
    ...planAdoption(node, { ...answers, memories }),
    trackers: await askLosses(urls, memories, caller),
  };
  if (act === null) return { plan, command: null, epoch: null, exitCode: EXIT.done };
  if (plan.obstacles.length > 0) return { plan, command: null, epoch: null, exitCode: EXIT.refused };
  const before = new Set(answers.reports.get(node)?.epochs.map(({ id }) => id));
  const overrules = plan.givenUp.map(({ id }) => id as EpochId);
  const written = await store.adopt(node, { ...act, overrules });
  const epoch = await begun(deps, node, before);
  return { plan, command: written, epoch, exitCode: epoch === null ? EXIT.notBegun : EXIT.done };
}

/** The services begin it: they know marks and streams that this command does not. */
async function begun(
  { store, clock }: AdoptDeps,
  node: string,
  before: ReadonlySet<string>,
): Promise<string | null> {
  const untilMs = clock.monotonicMs() + BEGIN_MS;
  for (;;) {
    const report = await store.probe(node).catch(() => null);
    if (report?.current != null && !before.has(report.current)) return report.current;
    if (clock.monotonicMs() >= untilMs) return null;
    await sleep(clock, POLL_MS);
  }
}

/** Everything above nothing: what each ledger holds of the epoch that its tracker follows. */
async function askLosses(
  urls: readonly string[],
  memories: readonly Remembered[],
  caller: TrackerCaller,
): Promise<TrackerLoss[]> {
  const asked = urls.map(async (url, at) => {
    const memory = memories[at];
    const newest = memory?.kind === "remembers" ? memory.epochs.at(-1) : undefined;
    if (newest === undefined) return [];
    const candidates = [{ node: newest.node, offset: "0" }];
    const answer = await askPreview(url, caller, { epoch: newest.id, candidates });
    return answer.kind === "preview" ? [lossOf(hostOf(url), answer.preview)] : [];
  });
  return (await Promise.all(asked)).flat();
}
