// How a lost transaction ends without being run: what is known of it, and how it stands to the
// others. Pure.
import {
  type EpochId,
  mayHaveSeen,
  type ReplayOutcome,
  type ReplayRequest,
  type Unrecoverable,
} from "@highwater/protocol";
import { type ReceiptKey } from "@highwater/store";
import { type Examined } from "./examine.ts";
import { type LostWrite } from "./gather.ts";

export type End = Omit<ReplayOutcome, "id" | "attempt" | "answered">;

/** A lost transaction in the order of all. */
export interface Item {
  readonly lost: LostWrite;
  /** What it brings back if it was itself a replay, and else itself. It takes effect once. */
  readonly root: ReceiptKey;
  /** The epoch that ended its own, in the primary's history; null: not known. */
  readonly since: EpochId | null;
  /** The root has no receipt, not even a tombstone: a client could still commit under it. */
  readonly isOpen: boolean;
  examined: Examined;
  /** Null: this call does not bring it back. */
  end: End | null;
}

export interface OwedCounts {
  readonly replayed: number;
  readonly conflicts: number;
  readonly unrecoverable: number;
  /** The time was over before. */
  readonly left: number;
}

export const UNKNOWN = { kind: "refused", why: "not_examined" } as const satisfies Examined;

const unrecoverable = (reason: Unrecoverable, kind?: string): End => ({
  outcome: "unrecoverable",
  reason,
  ...(kind !== undefined && { kind }),
});

/** A replay that was lost again counts as its root. */
export function owedBefore(items: readonly Item[], epochs: ReadonlySet<string>): (item: Item) => boolean {
  const isOf = ({ since }: Item): boolean => since !== null && epochs.has(since);
  const nameOf = (owner: bigint, id: string | null): string => `${String(owner)} ${String(id)}`;
  const again = new Set(items.filter(isOf).map(({ lost }) => nameOf(lost.owner, lost.root)));
  return (item) => {
    const { root, contents, owner, id } = item.lost;
    return root === null && contents?.onLost !== undefined && (isOf(item) || again.has(nameOf(owner, id)));
  };
}

/** Null: nothing is known yet that keeps it from being brought back. */
export function hopeless(
  { contents, state, order, answered, brokenAt }: LostWrite,
  receipt: string | undefined,
): End | null {
  if (contents === null) return unrecoverable("not_kept", state === "not_kept" ? undefined : state);
  // Its client may know it as aborted and have run it again, or may still do so.
  if (receipt !== "lost" && receipt !== "absent") return unrecoverable("not_known_committed", receipt);
  const never = contents.statements.findIndex(({ unreplayable }) => unreplayable !== undefined);
  if (never >= 0)
    return {
      ...unrecoverable("not_replayable", contents.statements[never]?.unreplayable),
      statement: never,
    };
  if (contents.statements.some(({ result }) => result?.digest === null))
    return unrecoverable("not_replayable", "truncated");
  if (contents.digest === null || order === null) return unrecoverable("not_known_committed");
  // Its client waits for durability, also behind an answer that it is pending, learns of the loss,
  // and may run it again.
  const { ack, form, level } = contents;
  const wasDurable = answered === "yes" && level !== undefined && brokenAt.has(level);
  // A client of the wire has no verdict to ask for. When its connection ends before the answer, it
  // runs the transaction again, or sends its id again and learns that it must.
  const isHeld = form === "wire" && answered !== "yes";
  if (isHeld || (ack === "durable" && !wasDurable)) return unrecoverable("not_known_committed", "unanswered");
  return null;
}

export function unplanned({ examined, since }: Item): End | null {
  if (since === null) return unrecoverable("not_replayable", "unknown_epoch");
  if (examined.kind === "steps") return null;
  const { why, statement } = examined;
  return { ...unrecoverable("not_replayable", why), ...(statement !== undefined && { statement }) };
}

export function endOfRoot(items: readonly Item[], { lost: { root, owner } }: Item): End | null {
  if (root === null) return null;
  return items.find(({ lost }) => lost.id === root && lost.owner === owner)?.end ?? null;
}

/** Those that wrote one row, and which came first is not known. */
export function findUnordered(items: readonly Item[]): void {
  const writers = new Map<string, Item[]>();
  for (const item of items)
    if (item.examined.kind === "steps" && item.lost.root === null)
      for (const row of item.examined.rows) writers.set(row, [...(writers.get(row) ?? []), item]);
  for (const each of writers.values())
    for (const [at, later] of each.entries())
      for (const earlier of each.slice(0, at)) {
        if (mayHaveSeen(later.lost, earlier.lost)) continue;
        for (const [one, other] of [
          [later, earlier],
          [earlier, later],
        ] as const)
          one.end ??= { outcome: "conflict", reason: "unordered", because: other.lost.id };
      }
}

/**
 * Those whose rows may decide on one that is to be brought back. A transaction that is ordered
 * before or behind it counts by its rows only if somebody has declared that rows decide.
 */
export function toExamine(
  items: readonly Item[],
  isMine: (item: Item) => boolean,
  independent: NonNullable<ReplayRequest["independent"]>,
): readonly Item[] {
  const isOpen = (item: Item): boolean => item.end === null && isMine(item);
  const open = [...items.entries()].filter(([, item]) => isOpen(item));
  return items.filter((item, n) => {
    if (item.lost.contents === null || item.since === null) return false;
    if (isOpen(item)) return true;
    return open.some(([at, own]) => {
      const [later, earlier] = n < at ? [own, item] : [item, own];
      if (!mayHaveSeen(later.lost, earlier.lost)) return true;
      // It is back, and came first.
      if (n < at && item.end?.outcome === "replayed") return false;
      return independent !== "none";
    });
  });
}

/** Why it must not run, as the others stand now: after a gap, or before what was brought back. */
export function standsAside(
  items: readonly Item[],
  at: number,
  independent: NonNullable<ReplayRequest["independent"]>,
): End | null {
  const item = items[at] as Item;
  for (const [n, other] of items.entries()) {
    if (n === at) continue;
    const isBack = other.end?.outcome === "replayed";
    const [later, earlier] = n < at ? [item, other] : [other, item];
    if (isBack === n < at) continue;
    if (!mayHaveSeen(later.lost, earlier.lost)) {
      // Its rows would have shown whether both wrote one.
      if (isBack && other.examined.kind !== "steps" && independent !== "all")
        return { outcome: "conflict", reason: "unordered", because: other.lost.id };
      continue;
    }
    if (independent !== "none" && areIndependent(later.examined, earlier.examined, independent)) continue;
    return { outcome: "conflict", reason: n < at ? "blocked" : "too_late", because: other.lost.id };
  }
  return null;
}

/** Of roots that are back, one that is not known to have committed before the item. */
export function overtaking(items: readonly Item[], item: Item, roots: readonly ReceiptKey[]): string | null {
  const earlier = items.slice(0, items.indexOf(item)).filter(({ lost }) => !mayHaveSeen(lost, item.lost));
  const isEarlier = ({ id, tag }: ReceiptKey): boolean =>
    earlier.some(({ root }) => root.id === id && root.tag === tag);
  return roots.find((root) => !isEarlier(root))?.id ?? null;
}

/** By their rows. Where those of one are not known, only the caller can have said so. */
function areIndependent(one: Examined, other: Examined, declared: "rows" | "all"): boolean {
  if (one.kind !== "steps" || other.kind !== "steps") return declared === "all";
  const isWhole = ({ steps }: typeof one): boolean =>
    steps.every(({ write }) => write === null || write.row !== null);
  if (!isWhole(one) || !isWhole(other)) return declared === "all";
  return ![...one.rows].some((row) => other.rows.has(row));
}
