// The command `failover preview`: asks trackers alone what the promotion of each replica would
// lose.
import {
  askMemories,
  askPreview,
  countedBy,
  type FailoverPreview,
  lossOf,
  type Remembered,
  type TrackerPreviews,
} from "@highwater/durability-tracker/failover";
import { type EpochRecord, type Offset } from "@highwater/protocol";
import { type Call } from "../command.ts";
import { replayHoldOf, type Trackers, trackersOf } from "../deployment.ts";
import { badInput, EXIT_REFUSED, Refusal } from "../refusal.ts";
import { asTable } from "../table.ts";

const MAX_IDS = 1_000;

interface Candidate extends ReturnType<typeof lossOf> {
  readonly node: string;
  /** The highest that a tracker has counted of it. */
  readonly offset: string;
}

interface Preview {
  readonly version: 1;
  readonly epoch: { readonly id: string; readonly seq: number; readonly primary: string };
  /** The highest offset of the epoch that a tracker knows. */
  readonly end: string | null;
  /** By how much writes may wait longer behind the promotion, by HIGHWATER_REPLAY_HOLD_MS. */
  readonly replayHoldMs: number;
  /** Most advanced first. */
  readonly candidates: readonly Candidate[];
  readonly trackers: readonly {
    readonly tracker: string;
    readonly reason: string | null;
    readonly follows: boolean;
    readonly undecided: number;
  }[];
}

export async function run(call: Call): Promise<number> {
  const { given, print } = call;
  given.none();
  const list = given.whole("list", { fallback: 0, min: 0, max: MAX_IDS });
  const trackers = trackersOf(call);
  if (trackers.urls.length === 0) throw badInput("no tracker: set HIGHWATER_TRACKERS, or give --tracker");
  const hold = replayHoldOf(call.env);
  const preview = { ...(await previewFailover(trackers, list)), replayHoldMs: hold?.ms ?? 0 };
  print(given.flag("json") ? JSON.stringify(preview, null, 2) : asText(preview, hold?.says ?? null));
  return 0;
}

/** Errors: Refusal, if no tracker can say. */
async function previewFailover(
  { urls, caller }: Trackers,
  list: number,
): Promise<Omit<Preview, "replayHoldMs">> {
  const memories = await askMemories(urls, caller);
  const current = newestOf(memories);
  if (current === null) throw new Refusal(memories.map(whyUseless), EXIT_REFUSED);
  const { id, seq, node: primary } = current;
  const askAll = (candidates: readonly { node: string; offset: string }[]): Promise<TrackerPreviews[]> =>
    Promise.all(urls.map((url) => askPreview(url, caller, { epoch: id, candidates: [...candidates], list })));
  // First for the positions that trackers have counted, then for the loss of each of them.
  const known = await askAll([{ node: primary, offset: "0" }]);
  const positions = [...countedBy(previewsOf(known))].filter(([node]) => node !== primary);
  const candidates = positions.map(([node, offset]) => ({ node, offset: offset.toString() }));
  const answers = candidates.length === 0 ? known : await askAll(candidates);
  const previews = previewsOf(answers);
  const following = previews.filter(({ follows }) => follows);
  if (following.length === 0)
    throw new Refusal(
      answers.map((answer) =>
        answer.kind === "silent"
          ? `${answer.tracker}: ${answer.reason}`
          : `${answer.tracker} follows another epoch than ${id}`,
      ),
      EXIT_REFUSED,
    );
  const end = following
    .map((preview) => BigInt(preview.end ?? 0) as Offset)
    .reduce((highest, each) => (each > highest ? each : highest));
  return {
    version: 1,
    epoch: { id, seq, primary },
    end: end === 0n ? null : end.toString(),
    candidates: positions
      .sort(([a, at], [b, bt]) => (at === bt ? (a < b ? -1 : 1) : at > bt ? -1 : 1))
      .map(([node, offset]) => ({
        node,
        offset: offset.toString(),
        ...lossOf(node, offset, { previews, end }),
      })),
    trackers: answers.map((answer) => ({
      tracker: answer.tracker,
      reason: answer.kind === "silent" ? answer.reason : null,
      follows: answer.kind === "preview" && answer.preview.follows,
      undecided: answer.kind === "preview" ? answer.preview.undecided : 0,
    })),
  };
}

/** Trackers that are behind follow an older one. */
function newestOf(memories: readonly Remembered[]): EpochRecord | null {
  const newest = memories.flatMap((memory) =>
    memory.kind === "remembers" ? (memory.epochs.at(-1) ?? []) : [],
  );
  return newest.reduce<EpochRecord | null>(
    (best, each) => (best === null || each.seq > best.seq ? each : best),
    null,
  );
}

function whyUseless(memory: Remembered): string {
  return memory.kind === "silent"
    ? `${memory.tracker}: ${memory.reason}`
    : `${memory.tracker} knows no epoch yet`;
}

function previewsOf(answers: readonly TrackerPreviews[]): FailoverPreview[] {
  return answers.flatMap((answer) => (answer.kind === "preview" ? [answer.preview] : []));
}

const HEAD = ["node", "flushed", "log lost", "transactions lost", "promises broken"];

function asText({ epoch, candidates, trackers }: Preview, hold: string | null): string {
  const rows = candidates.map(({ node, offset, bytes, transactions, complete, promises }) => [
    node,
    offset,
    `${bytes ?? "?"} bytes`,
    transactions === null ? "not known" : `${complete ? "" : "at least "}${String(transactions)}`,
    promises.map(({ level }) => level).join(", ") || "none",
  ]);
  const table =
    rows.length === 0 ? ["No tracker has counted a replica's position."] : asTable([HEAD, ...rows]);
  const ids = candidates.flatMap((candidate) =>
    candidate.ids.length === 0
      ? []
      : ["", `On ${candidate.node} would be missing:`, ...candidate.ids.map((id) => `  ${id}`)],
  );
  return [
    `${epoch.primary} is the primary, in epoch ${String(epoch.seq)} (${epoch.id}). If it failed now:`,
    "",
    ...table,
    ...ids,
    "",
    ...(hold === null ? [] : [`${hold}.`]),
    ...trackers.map(
      ({ tracker, reason, follows, undecided }) =>
        `${tracker}: ${reason ?? (follows ? `${String(undecided)} announced transactions of unknown end` : "follows another epoch")}`,
    ),
    "A replica that no tracker has counted is missing here. Before you promote one, ask every node: highwater failover candidate",
  ].join("\n");
}
