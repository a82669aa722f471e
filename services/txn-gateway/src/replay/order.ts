// In which order lost transactions committed. Pure.
// (docs/decisions/0234-lost-transactions-are-brought-back.md)
import { mayHaveSeen, type Ordered } from "@highwater/protocol";

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
