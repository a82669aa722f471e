// How an epoch begins on a server of the simulated store, by the rules of the real one: first its record, which does not count
// yet, then the place where it starts. Anything can happen in between.
import { forkOf } from "@highwater/authority";
import { type EpochId, type EpochRecord, type Offset } from "@highwater/protocol";
import { type MintRequest } from "@highwater/store";
import { epochId } from "../test/support/core.ts";
import { type Rec, type RecOf, type SimNode } from "./node.ts";
import { type Truth } from "./truth.ts";

export interface EpochsContext {
  readonly truth: Truth;
  /** What is on disks now was on disks. */
  readonly witness: () => void;
  readonly append: (node: SimNode, rec: Rec) => void;
}

export class Epochs {
  readonly #parts: EpochsContext;
  readonly #confirmed = new Set<EpochId>();
  #ids = 0;

  constructor(parts: EpochsContext) {
    this.#parts = parts;
  }

  /**
   * The node's epoch if it has one and nothing is left to declare ended. Otherwise the id of a record that is to be opened: one that
   * another process has begun in this very situation, or a new one.
   */
  begin(node: SimNode, request: MintRequest): EpochRecord | EpochId {
    const previous = node.log.findLast((rec) => rec.kind === "epoch");
    if (previous !== undefined && node.epoch === previous.record.id && isSettled(node, request)) {
      if (request.command !== null) this.#obey(node, request.command, node.epoch);
      return previous.record;
    }
    const draft = node.draft;
    if (draft !== null && canComplete(draft, node, previous?.record ?? null, request))
      return draft.record.id as EpochId;
    const fork = forkOf(factsOf(node, previous, request));
    const record: EpochRecord = {
      id: epochId(++this.#ids),
      seq: Math.max(request.minSeq, (previous?.record.seq ?? 0) + 1),
      previous: previous?.record.id ?? null,
      node: node.id,
      cause: fork.cause,
      startedAt: "2026-01-01T00:00:00.000000Z",
      startOffset: "",
      forkOffset: String(fork.fork),
      forkLimit: fork.limit === null ? null : String(fork.limit),
      supersedes: [...request.supersedes],
      commanded: request.command !== null,
      finalMarks: { ...request.finalMarks[previous?.record.id ?? ""] },
    };
    const { timeline, life } = node;
    this.#parts.append(node, { kind: "draft", record, timeline, life, end: node.end + 8n });
    node.flush(node.log.length);
    return record.id as EpochId;
  }

  /** From here on transactions can commit in it. Null: another process has opened it, or replaced it. */
  open(node: SimNode, id: EpochId, request: MintRequest): EpochRecord | null {
    const { draft } = node;
    if (draft?.record.id !== id) return null;
    const { truth, witness, append } = this.#parts;
    // What was on disks in the epoch that ends here was there, also if it began within the same operation.
    witness();
    const record = { ...draft.record, startOffset: String(node.end) };
    const rec: Rec = { kind: "epoch", record, timeline: draft.timeline, end: node.end + 8n };
    const before = new Set(node.log);
    // From here on it is the new epoch's log.
    node.sentinel = null;
    append(node, rec);
    if (request.command !== null) this.#obey(node, request.command, id);
    node.flush(node.log.length);
    node.isRestored = false;
    node.sentinel = { epoch: id, life: node.life };
    truth.epochs.set(id, {
      record,
      rec,
      before,
      onDisk: new Map(),
      log: node.log.slice(node.log.indexOf(rec)),
    });
    return record;
  }

  #obey(node: SimNode, id: string, epoch: EpochId): void {
    this.#parts.append(node, { kind: "obeyed", id, epoch, end: node.end + 1n });
    this.#confirmed.add(epoch);
  }

  /** An operator has named the epoch's node, when it began or since. */
  isCommanded(epoch: EpochId): boolean {
    return this.#confirmed.has(epoch) || this.#parts.truth.epochs.get(epoch)?.record.commanded === true;
  }
}

/** Nothing is left to declare ended: the one who was faster carried the same command out. */
function isSettled(node: SimNode, request: MintRequest): boolean {
  const done = new Set(node.epochRecs.flatMap(({ record }) => [record.id, ...record.supersedes]));
  return request.supersedes.every((id) => done.has(id));
}

function canComplete(
  { record, timeline, life }: RecOf<"draft">,
  node: SimNode,
  previous: EpochRecord | null,
  request: MintRequest,
): boolean {
  if (record.node !== node.id || timeline !== node.timeline || life !== node.life) return false;
  if (record.previous !== (previous?.id ?? null) || record.seq < request.minSeq) return false;
  return request.supersedes.every((id) => record.supersedes.includes(id));
}

function factsOf(
  node: SimNode,
  previous: RecOf<"epoch"> | undefined,
  { streamed, supersedes }: MintRequest,
): Parameters<typeof forkOf>[0] {
  const id = (previous?.record.id ?? null) as EpochId | null;
  let witnessed: Offset | null = null;
  for (const rec of node.log)
    if (rec.kind === "witness" && rec.epoch === id) witnessed = rec.reached as Offset;
  const { sentinel, timeline, recovery } = node;
  const watched = streamed?.epoch === id && streamed?.incarnation === node.incarnation;
  return {
    previous:
      previous === undefined || id === null
        ? null
        : { id, startOffset: BigInt(previous.record.startOffset) as Offset },
    unrecovered: sentinel !== null && sentinel.epoch === id,
    sameServer: sentinel?.life === node.life,
    isCopy: false,
    foreignLog: false,
    promoted: previous !== undefined && previous.timeline !== timeline,
    switchedAt: recovery?.isPromotion === true && timeline - 1 === previous?.timeline ? recovery.end : null,
    end: node.end,
    recoveredAt: recovery?.end ?? null,
    witnessed,
    streamed: watched && streamed !== null ? streamed.offset : null,
    supersedes: supersedes.length > 0,
  };
}
