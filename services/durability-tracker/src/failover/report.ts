// The command's answer as data: the decision, and what trackers know beyond the nodes.
import Type, { type Static } from "typebox";
import { LevelName, type Offset, OffsetText, parseOffset, Uuid } from "@highwater/protocol";
import { type Decision, type LevelFinding, type Refusal, REFUSALS, type Wishes } from "./candidate.ts";
import { type NodeFinding, STANDINGS } from "./history.ts";
import { nextSteps } from "./next-steps.ts";
import { type CandidatePreview, type FailoverPreview, PromiseAtStake } from "./wire.ts";

const closed = { additionalProperties: false } as const;
const Text = Type.String();
const Count = Type.Integer({ minimum: 0 });

/** Documented: an exit code is part of the command's interface. */
export const EXIT_CODES: Readonly<Record<Refusal, number>> = {
  primary_answers: 3,
  split_brain: 4,
  no_candidate: 5,
  loss: 6,
  still_fed: 7,
};

const Loss = Type.Object(
  {
    bytes: Type.Union([OffsetText, Type.Null()], {
      description:
        "Of log between its position and the end of the epoch's log, as far as anybody who answers knows.",
    }),
    transactions: Type.Union([Count, Type.Null()], {
      description:
        "The highest number that a tracker's ledger holds above its position; null when no tracker knows.",
    }),
    complete: Type.Boolean({ description: "False: there may be more transactions than the number says." }),
    promises: Type.Array(PromiseAtStake, { description: "Published marks above its position, by level." }),
    ids: Type.Array(Uuid, { description: "The first of the transactions, as many as --list asks for." }),
  },
  closed,
);
type Loss = Static<typeof Loss>;

const NodeReportJson = Type.Object(
  {
    node: Text,
    region: Text,
    zone: Text,
    standing: Type.Enum(STANDINGS),
    reason: Type.Union([Text, Type.Null()]),
    position: Type.Union([OffsetText, Type.Null()], { description: "Live, of the epoch's log." }),
    counted: Type.Union([OffsetText, Type.Null()], {
      description: "The highest position that a tracker has counted of it in the epoch.",
    }),
    newestSeq: Type.Union([Count, Type.Null()]),
    fed: Type.Boolean({ description: "It holds an open stream from another server." }),
    loss: Type.Union([Loss, Type.Null()], { description: "The loss if it is promoted; of candidates." }),
  },
  closed,
);

const LevelReport = Type.Object(
  {
    level: LevelName,
    promise: Type.Enum(["kept", "at_risk", "broken", "not_covered"]),
    domain: Type.Union([Type.Literal("region"), Type.Literal("zone"), Type.Literal("node"), Type.Null()]),
    domains: Type.Array(Text, { description: "Those that count for the level." }),
    answered: Type.Array(Text, { description: "Those of them whose nodes have all answered." }),
    needed: Type.Integer({ minimum: 0, description: "How many have to answer." }),
    broken: Type.Union([PromiseAtStake, Type.Null()]),
  },
  closed,
);

const TrackerReport = Type.Object(
  {
    tracker: Text,
    answers: Type.Boolean(),
    reason: Type.Union([Text, Type.Null()]),
    follows: Type.Union([Type.Boolean(), Type.Null()], { description: "It follows the epoch." }),
    undecided: Type.Union([Count, Type.Null()], {
      description: "Announced before their commit, and it does not know how they ended.",
    }),
  },
  closed,
);
type TrackerReport = Static<typeof TrackerReport>;

export const CandidateReport = Type.Object(
  {
    version: Type.Literal(1),
    candidate: Type.Union([Text, Type.Null()], {
      description: "The most advanced; null when no node is named.",
    }),
    refusal: Type.Union([Type.Enum(REFUSALS), Type.Null()]),
    exitCode: Count,
    fenced: Type.Boolean({
      description: "Asked with --fenced: by the operator's word the old primary is off.",
    }),
    reasons: Type.Array(Text),
    warnings: Type.Array(Text),
    epoch: Type.Union([
      Type.Object({ id: Uuid, seq: Count, primary: Text, earlier: Type.Boolean() }, closed),
      Type.Null(),
    ]),
    end: Type.Union([OffsetText, Type.Null()], {
      description: "The highest offset of the epoch that anybody who answers knows of.",
    }),
    nodes: Type.Array(NodeReportJson),
    levels: Type.Array(LevelReport),
    trackers: Type.Array(TrackerReport),
    overrules: Type.Array(Uuid, {
      description: "Epochs that a command has to name: outside the candidate's history.",
    }),
    nextSteps: Type.Array(Text),
  },
  closed,
);
export type CandidateReport = Static<typeof CandidateReport>;

/** One tracker that was asked. */
export type TrackerPreviews =
  | { readonly tracker: string; readonly kind: "preview"; readonly preview: FailoverPreview }
  /** It answered, but there was nothing to ask it about. */
  | { readonly tracker: string; readonly kind: "not_asked" }
  | { readonly tracker: string; readonly kind: "silent"; readonly reason: string };

export interface ReportInput {
  readonly decision: Decision;
  readonly answers: readonly TrackerPreviews[];
  readonly wishes: Wishes;
  readonly isLease: boolean;
}

export function makeReport({ decision, answers, wishes, isLease }: ReportInput): CandidateReport {
  const { epoch, chosen } = decision;
  const previews = answers.flatMap((answer) => (answer.kind === "preview" ? [answer.preview] : []));
  const counted = countedBy(previews);
  const end = highest([
    ...decision.nodes.map(({ position }) => position),
    ...previews.map((preview) => parseOffset(preview.end ?? "") ?? null),
    ...counted.values(),
  ]);
  const nodes = decision.nodes.map((node) => nodeReport(node, { previews, counted, end }));
  const loss = nodes.find(({ node }) => node === chosen?.node)?.loss ?? null;
  const isElection = decision.refusal !== "primary_answers" && decision.refusal !== "split_brain";
  const named = isElection ? chosen : null;
  // Without a choice there is nothing that a level could survive.
  const levels = named === null ? [] : decision.levels.map((level) => levelReport(level, loss));
  const breaks = levels.filter(({ promise }) => promise === "broken");
  const refusal = decision.refusal ?? (breaks.length > 0 && !wishes.acceptsLoss ? "loss" : null);
  return {
    version: 1,
    candidate: named?.node ?? null,
    refusal,
    exitCode: refusal === null ? 0 : EXIT_CODES[refusal],
    fenced: wishes.isFenced,
    reasons: [
      ...decision.reasons,
      ...breaks.map(
        ({ level, broken }) =>
          `level ${level} has promised everything up to ${broken?.to ?? "?"}, and ${chosen?.node ?? "?"} has it up to ${broken?.from ?? "?"}`,
      ),
    ],
    warnings: warningsOf(nodes, answers, named, wishes),
    epoch:
      epoch === null
        ? null
        : { id: epoch.id, seq: epoch.seq, primary: epoch.node, earlier: decision.isEarlier },
    end: end?.toString() ?? null,
    nodes,
    levels,
    trackers: answers.map(trackerReport),
    overrules: [...decision.overrules],
    nextSteps: nextSteps({ decision, refusal, wishes, isLease }),
  };
}

/** What trackers have counted of each node: evidence that outlives the node's answer. */
export function countedBy(previews: readonly FailoverPreview[]): Map<string, Offset> {
  const counted = new Map<string, Offset>();
  for (const { nodes } of previews)
    for (const { node, position } of nodes) {
      const offset = highest([counted.get(node) ?? null, parseOffset(position) ?? null]);
      if (offset !== null) counted.set(node, offset);
    }
  return counted;
}

interface Evidence {
  readonly previews: readonly FailoverPreview[];
  readonly counted: ReadonlyMap<string, Offset>;
  readonly end: Offset | null;
}

function nodeReport(
  { node, region, zone, standing, reason, position, newestSeq, isFed }: NodeFinding,
  evidence: Evidence,
): CandidateReport["nodes"][number] {
  return {
    node,
    region,
    zone,
    standing,
    reason,
    newestSeq,
    fed: isFed,
    position: position?.toString() ?? null,
    counted: evidence.counted.get(node)?.toString() ?? null,
    loss: standing === "candidate" && position !== null ? lossOf(node, position, evidence) : null,
  };
}

/**
 * Trackers hold the same unless one was away: of each number the highest is the nearest to the
 * truth.
 */
export function lossOf(
  node: string,
  position: Offset,
  { previews, end }: Pick<Evidence, "previews" | "end">,
): Loss {
  const previewed = previews.flatMap(({ follows, candidates }) =>
    candidates.filter((candidate) => candidate.node === node).map((candidate) => ({ follows, ...candidate })),
  );
  const following = previewed.filter(({ follows }) => follows);
  let most: CandidatePreview | null = null;
  for (const candidate of following)
    if (most === null || candidate.transactions > most.transactions) most = candidate;
  const promises = new Map<string, PromiseAtStake>();
  for (const promise of previewed.flatMap((candidate) => candidate.promises)) {
    const known = promises.get(promise.level);
    if (known === undefined || BigInt(promise.to) > BigInt(known.to)) promises.set(promise.level, promise);
  }
  return {
    bytes: end === null ? null : (end > position ? end - position : 0n).toString(),
    transactions: most?.transactions ?? null,
    complete: following.length > 0 && following.every(({ complete }) => complete),
    promises: [...promises.values()],
    ids: most?.ids ?? [],
  };
}

function levelReport(finding: LevelFinding, loss: Loss | null): CandidateReport["levels"][number] {
  const { level, promise, domain, domains, answered, needed } = finding;
  const broken = loss?.promises.find((one) => one.level === level) ?? null;
  return {
    level,
    domain,
    domains: [...domains],
    answered: [...answered],
    needed,
    broken,
    promise: broken === null ? promise : "broken",
  };
}

function trackerReport(answer: TrackerPreviews): TrackerReport {
  const { tracker, kind } = answer;
  switch (kind) {
    case "silent":
      return { tracker, answers: false, reason: answer.reason, follows: null, undecided: null };
    case "not_asked":
      return { tracker, answers: true, reason: null, follows: null, undecided: null };
    case "preview": {
      const { follows, undecided } = answer.preview;
      return { tracker, answers: true, reason: null, follows, undecided };
    }
  }
}

function warningsOf(
  nodes: CandidateReport["nodes"],
  answers: readonly TrackerPreviews[],
  chosen: NodeFinding | null,
  { isSwitchover, isFenced }: Wishes,
): string[] {
  const warnings: string[] = [];
  const position = chosen?.position ?? null;
  for (const { node, standing, counted } of nodes) {
    const known = counted === null ? null : BigInt(counted);
    if (position === null || known === null || known <= position || standing === "primary") continue;
    const more = (known - position).toString();
    warnings.push(
      `${node} (${standing}) is known to have had ${more} bytes more of the log than ${chosen?.node ?? ""}`,
    );
  }
  if (chosen !== null && !answers.some(({ kind }) => kind === "preview"))
    warnings.push("no tracker answers: losses are estimated from positions alone");
  if (isFenced && !isSwitchover)
    warnings.push(
      "--fenced says that the old primary is off: anything it accepts or counts from now on is lost",
    );
  return warnings;
}

function highest(offsets: readonly (Offset | null)[]): Offset | null {
  let found: Offset | null = null;
  for (const offset of offsets) if (offset !== null && (found === null || offset > found)) found = offset;
  return found;
}
