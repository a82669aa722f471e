// In which order lost transactions committed, and which may depend on which: by what the snapshot
// at the end of each one shows, and not by positions or transaction ids. Pure.
// (docs/decisions/0234-lost-transactions-are-brought-back.md)
import { type KeptContents } from "@highwater/protocol";

export interface Order {
  readonly xid: bigint;
  readonly xmin: bigint;
  readonly xmax: bigint;
  /** In progress, between the two. */
  readonly running: ReadonlySet<bigint>;
}

export interface Ordered {
  readonly epoch: string;
  /** Null: not known. */
  readonly order: Order | null;
}

export function readOrder({ xid, snapshot }: NonNullable<KeptContents["order"]>): Order {
  const [xmin = "0", xmax = "0", running = ""] = snapshot.split(":");
  const ids = running === "" ? [] : running.split(",").map(BigInt);
  return { xid: BigInt(xid), xmin: BigInt(xmin), xmax: BigInt(xmax), running: new Set(ids) };
}

function shows({ xmin, xmax, running }: Order, xid: bigint): boolean {
  return xid < xmin || (xid < xmax && !running.has(xid));
}

/**
 * True unless `later` can have seen nothing of `earlier`. A transaction of another epoch ran in a
 * history without it.
 */
export function mayHaveSeen(later: Ordered, earlier: Ordered): boolean {
  if (later.epoch !== earlier.epoch) return false;
  return later.order === null || earlier.order === null || shows(later.order, earlier.order.xid);
}

/**
 * Sorts the transactions of an epoch: those without an order first. Ends of snapshots never fall
 * from one commit to the next, so only those with the same end are compared with each other.
 */
export function inOrder<T extends Ordered>(all: readonly T[]): T[] {
  const xmaxOf = ({ order }: T): bigint => order?.xmax ?? -1n;
  const sorted = all.toSorted((a, b) => Number(xmaxOf(a) - xmaxOf(b)));
  const result: T[] = [];
  for (let at = 0; at < sorted.length;) {
    const xmax = xmaxOf(sorted[at] as T);
    let end = at;
    while (end < sorted.length && xmaxOf(sorted[end] as T) === xmax) end++;
    const group = sorted.slice(at, end);
    if (xmax >= 0n) {
      while (group.length > 0) {
        const first = group.findIndex((one) =>
          group.every((other) => other === one || !mayHaveSeen(one, other)),
        );
        result.push(...group.splice(Math.max(0, first), 1));
      }
    } else result.push(...group);
    at = end;
  }
  return result;
}
