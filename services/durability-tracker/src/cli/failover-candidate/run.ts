// Runs the command: asks nodes and trackers, and makes the report. Writes to no node.
import { type LevelRule } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { type Store } from "@highwater/store";
import { type Decision, decideCandidate } from "../../failover/candidate.ts";
import { type CandidateReport, makeReport, type TrackerPreviews } from "../../failover/report.ts";
import {
  askMemories,
  askNodes,
  askPreview,
  hostOf,
  type Remembered,
  remembering,
  type TrackerCaller,
} from "./ask.ts";
import { badInput, type CandidateCommand } from "./parse.ts";

export interface CandidateDeps {
  readonly store: Store;
  readonly clock: Clock;
  /** Weakest first. */
  readonly levels: Readonly<Record<string, LevelRule>>;
  readonly isLease: boolean;
  /** Base URLs of the trackers. */
  readonly trackers: readonly string[];
  readonly caller: TrackerCaller;
}

/** Errors: `invalid_request` when a node is named that is not configured. */
export async function findCandidate(
  command: CandidateCommand,
  deps: CandidateDeps,
): Promise<CandidateReport> {
  const { store, clock, levels, isLease, caller } = deps;
  const { wishes } = command;
  const known = new Set(store.nodes.map(({ id }) => id));
  const strange = [...wishes.excluded, ...wishes.ignored].filter((node) => !known.has(node));
  if (strange.length > 0) throw badInput(strange.map((node) => `${node} is not a node of the topology`));
  const trackers = [...new Set([...deps.trackers, ...command.trackers])];
  const [answers, memories] = await Promise.all([
    askNodes(store, clock, command.waitMs),
    askMemories(trackers, caller),
  ]);
  const decision = decideCandidate({
    nodes: store.nodes,
    ...answers,
    trackers: remembering(memories),
    levels: Object.entries(levels).map(([name, rule]) => ({ name, rule })),
    isLease,
    wishes,
  });
  const trackerAnswers = await Promise.all(
    trackers.map((url, at) => askTracker(url, memories[at], { decision, command, caller })),
  );
  return makeReport({ decision, answers: trackerAnswers, wishes, isLease });
}

/**
 * A tracker has no report about an older epoch than the one it follows: what survives of it was
 * carried over since.
 */
async function askTracker(
  url: string,
  memory: Remembered | undefined,
  about: { readonly decision: Decision; readonly command: CandidateCommand; readonly caller: TrackerCaller },
): Promise<TrackerPreviews> {
  const tracker = hostOf(url);
  if (memory?.kind !== "remembers")
    return { tracker, kind: "silent", reason: memory?.reason ?? "it was not asked" };
  const { epoch, isEarlier, nodes } = about.decision;
  const candidates = nodes.flatMap(({ node, standing, position }) =>
    standing === "candidate" && position !== null ? [{ node, offset: position.toString() }] : [],
  );
  if (epoch === null || isEarlier || candidates.length === 0) return { tracker, kind: "not_asked" };
  const { list } = about.command;
  return askPreview(url, about.caller, { epoch: epoch.id, candidates, list });
}
