// Gathers what was lost from all trackers, and opens the contents. Each tracker knows some losses
// and some contents; together they know what can be known.
import {
  type Answered,
  type ContentsState,
  type EpochId,
  KeptContents,
  type Order,
  readOrder,
  SealedLost,
  type Static,
  type TransactionEventData,
  type TxnId,
  validate,
} from "@highwater/protocol";
import { type ContentsKeys } from "@highwater/service";
import { type Deps } from "../deps.ts";
import { askTracker } from "../trackers/ask-tracker.ts";

export interface LostWrite {
  readonly id: TxnId;
  readonly owner: bigint;
  readonly epoch: EpochId;
  readonly answered: Answered;
  /** The levels at which a tracker had reported it as durable. */
  readonly brokenAt: ReadonlySet<string>;
  readonly state: ContentsState;
  readonly metadata: TransactionEventData["metadata"];
  readonly contents: Static<typeof KeptContents> | null;
  readonly order: Order | null;
  /**
   * It was itself a replay. This is its root, which stands for it; or another lost replay of that,
   * where no tracker lists the root.
   */
  readonly root: string | null;
}

export interface Gathered {
  readonly writes: readonly LostWrite[];
  readonly trackers: { readonly asked: number; readonly answered: number };
  /** Each tracker that answered has listed all losses before the epoch. */
  readonly isComplete: boolean;
}

/** For one answer, and the way there and back. A region that is lost does not answer at all. */
const ANSWER_MS = 5_000;

type Line = SealedLost["lost"][number];

interface How {
  /** Asks whether all losses before it are listed. */
  readonly epoch?: EpochId;
  /** For one tracker's answer, and the way there and back. */
  readonly answerMs?: number;
}

export async function gather(
  transport: Deps["transport"],
  trackers: readonly string[],
  keys: ContentsKeys,
  how: How = {},
): Promise<Gathered> {
  const lists = await Promise.all(trackers.map((tracker) => listOf(transport, tracker, how)));
  const answered = lists.filter((list) => list !== null);
  const found = new Map<string, Line>();
  for (const line of answered.flatMap(({ lines }) => lines)) {
    const name = `${line.owner} ${line.id} ${line.attempt}`;
    const known = found.get(name);
    const better = known?.sealed == null ? { ...known, ...line } : known;
    const verdicts = { ...line.verdicts, ...(known !== undefined && brokenIn(known)) };
    found.set(name, { ...better, verdicts, answered: answeredOf(known, line) });
  }
  return {
    writes: withListedRoots([...found.values()].map((line) => opened(line, keys))),
    trackers: { asked: trackers.length, answered: answered.length },
    isComplete: answered.every((list) => list.isComplete),
  };
}

/** Of the replays of a root that is not listed, the one with the lowest id stands for all. */
function withListedRoots(writes: readonly LostWrite[]): LostWrite[] {
  const nameOf = (owner: bigint, id: string | null): string => `${String(owner)} ${String(id)}`;
  const listed = new Set(writes.map(({ owner, id }) => nameOf(owner, id)));
  const firsts = new Map<string, string>();
  for (const { owner, id, root } of writes) {
    const name = nameOf(owner, root);
    const first = firsts.get(name);
    if (first === undefined || id < first) firsts.set(name, id);
  }
  return writes.map((each) => {
    const { owner, id, root } = each;
    if (root === null || listed.has(nameOf(owner, root))) return each;
    const first = firsts.get(nameOf(owner, root)) ?? id;
    return { ...each, root: first === id ? null : first };
  });
}

function answeredOf(known: Line | undefined, line: Line): Answered {
  return known === undefined || known.answered === "unknown" ? line.answered : known.answered;
}

function brokenIn({ verdicts }: Pick<Line, "verdicts">): Line["verdicts"] {
  return Object.fromEntries(Object.entries(verdicts).filter(([, verdict]) => verdict === "broken"));
}

interface Listed {
  readonly lines: readonly Line[];
  readonly isComplete: boolean;
}

async function listOf(
  transport: Deps["transport"],
  tracker: string,
  { epoch, answerMs = ANSWER_MS }: How,
): Promise<Listed | null> {
  const lines: Line[] = [];
  let isComplete = true;
  for (let after = 0; ;) {
    // Older trackers do not know the question for an epoch.
    const question = { after, ...(epoch !== undefined && { epoch }) };
    const asked = { question, schema: SealedLost, heldMs: 0, graceMs: answerMs };
    const page = await askTracker(transport, `${tracker}/internal/lost`, asked);
    if (page === null) return null;
    lines.push(...page.lost);
    isComplete &&= page.isComplete === true;
    if (page.next === null) return { lines, isComplete };
    after = page.next;
  }
}

function opened({ sealed, ...line }: Line, keys: ContentsKeys): LostWrite {
  const owner = BigInt(line.owner);
  const contents = sealed === null ? null : open(keys, { ...line, owner }, sealed);
  return {
    id: line.id as TxnId,
    owner,
    epoch: line.attempt as EpochId,
    answered: line.answered,
    brokenAt: new Set(Object.keys(brokenIn(line))),
    state: line.contents,
    metadata: line.metadata,
    contents,
    root: contents?.redoOf ?? null,
    order: contents?.order === undefined ? null : readOrder(contents.order),
  };
}

/** Null: this gateway does not have the key, or the contents are of a newer version. */
function open(
  keys: ContentsKeys,
  { id, owner, attempt: epoch }: Pick<Line, "id" | "attempt"> & { readonly owner: bigint },
  { offset, text }: NonNullable<Line["sealed"]>,
): Static<typeof KeptContents> | null {
  try {
    const about = { owner, id, epoch, offset };
    const checked = validate(KeptContents, JSON.parse(keys.open(about, Buffer.from(text, "base64url"))));
    return checked.ok ? checked.value : null;
  } catch {
    return null;
  }
}
