// Which committed transactions another one may have read: by the snapshot at its end, and not by
// positions or transaction ids, which run otherwise than commits do. Pure.
import { type KeptContents } from "./contents.ts";

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
