// Begins an epoch on a memory node, by the same rules as the real adapter (postgres/mint.ts,
// forkOf).
import { forkOf } from "@highwater/authority";
import {
  type EpochId,
  type EpochRecord,
  formatOffset,
  type Offset,
  parseOffset,
  ZERO,
} from "@highwater/protocol";
import { type MintRequest } from "../port.ts";
import { type Change, sizeOf } from "./history.ts";
import { type MemoryNode } from "./node.ts";

export function mintEpoch(
  node: MemoryNode,
  request: MintRequest,
  fresh: { readonly id: EpochId; readonly wallMs: number },
): EpochRecord {
  const { history } = node;
  if (node.role !== "primary" || !history.prepared) throw new Error("the node cannot begin an epoch");
  const previous = history.newest;
  const isCurrent = previous !== undefined && node.epoch === previous.record.id;
  if (isCurrent && isSettled(node, request)) {
    if (request.command !== null) write(node, [{ kind: "command_done", id: request.command }]);
    return previous.record;
  }
  const changes: Change[] = [];
  if (request.command !== null) changes.push({ kind: "command_done", id: request.command });
  const record = nextRecord(node, request, fresh);
  // The record says where it ends itself; its size does not depend on its content.
  const bytes = sizeOf([...changes, { kind: "epoch", record, timeline: node.timeline }]);
  const startOffset = formatOffset((node.end + BigInt(bytes)) as Offset);
  const minted = { ...record, startOffset };
  write(node, [...changes, { kind: "epoch", record: minted, timeline: node.timeline }]);
  node.sentinel = { epoch: fresh.id, incarnation: node.incarnation };
  return minted;
}

function isSettled(node: MemoryNode, request: MintRequest): boolean {
  const done = new Set(node.history.epochs.flatMap(({ record }) => [record.id, ...record.supersedes]));
  return request.supersedes.every((id) => done.has(id));
}

function nextRecord(
  node: MemoryNode,
  request: MintRequest,
  fresh: { readonly id: EpochId; readonly wallMs: number },
): EpochRecord {
  const { history, sentinel, recovery, timeline } = node;
  const previous = history.newest;
  const { streamed } = request;
  const previousId = (previous?.record.id ?? null) as EpochId | null;
  const watched = streamed?.epoch === previousId && streamed?.incarnation === node.incarnation;
  const fork = forkOf({
    previous:
      previous === undefined || previousId === null
        ? null
        : { id: previousId, startOffset: parseOffset(previous.record.startOffset) ?? ZERO },
    unrecovered: sentinel !== null && sentinel.epoch === previousId,
    sameServer: sentinel?.incarnation === node.incarnation,
    isCopy: sentinel?.isDisowned === true,
    foreignLog: false,
    promoted: previous !== undefined && previous.timeline !== timeline,
    switchedAt: recovery?.isPromotion === true && timeline - 1 === previous?.timeline ? recovery.end : null,
    end: node.end,
    recoveredAt: recovery?.end ?? null,
    witnessed: previousId === null ? null : history.witnessOf(previousId),
    streamed: watched && streamed !== null ? streamed.offset : null,
    supersedes: request.supersedes.length > 0,
  });
  return {
    id: fresh.id,
    seq: Math.max(request.minSeq, (previous?.record.seq ?? 0) + 1),
    previous: previousId,
    node: node.spec.id,
    cause: fork.cause,
    startedAt: new Date(fresh.wallMs).toISOString(),
    startOffset: "0",
    forkOffset: formatOffset(fork.fork),
    forkLimit: fork.limit === null ? null : formatOffset(fork.limit),
    supersedes: [...request.supersedes],
    commanded: request.command !== null,
    finalMarks: { ...request.finalMarks[previousId ?? ""] },
  };
}

function write(node: MemoryNode, changes: readonly Change[]): void {
  node.append(changes);
  node.flush();
}
