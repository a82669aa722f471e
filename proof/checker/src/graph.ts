// Finds cycles in a graph of numbered nodes whose edges have a kind. Knows nothing of transactions.

type EdgeKind = "ww" | "wr" | "rw";

export interface Edge {
  readonly from: number;
  readonly to: number;
  readonly kind: EdgeKind;
  /** The list and the value that caused the edge, for the explanation. */
  readonly key: string;
  readonly value: number;
  /** The edge leaves a snapshot read. */
  readonly isSnapshot: boolean;
}

export class Graph {
  readonly #out: Edge[][];

  constructor(nodes: number, edges: readonly Edge[]) {
    this.#out = Array.from({ length: nodes }, () => []);
    for (const edge of edges) if (edge.from !== edge.to) this.#out[edge.from]?.push(edge);
  }

  out(node: number): readonly Edge[] {
    return this.#out[node] ?? [];
  }

  /** Finds sets of several nodes that all reach each other by edges that `may` accepts (Tarjan). */
  components(nodes: Iterable<number>, may: (edge: Edge) => boolean): number[][] {
    const order = new Map<number, number>();
    const low = new Map<number, number>();
    const open: number[] = [];
    const isOpen = new Set<number>();
    const found: number[][] = [];
    const within = new Set(nodes);
    for (const root of within) {
      if (order.has(root)) continue;
      // An explicit stack, because a path can be as long as the history.
      const calls: { node: number; at: number }[] = [];
      const enter = (node: number): void => {
        order.set(node, order.size);
        low.set(node, order.size - 1);
        open.push(node);
        isOpen.add(node);
        calls.push({ node, at: 0 });
      };
      const lower = (node: number, to: number): void => {
        low.set(node, Math.min(low.get(node) ?? 0, to));
      };
      enter(root);
      for (let call = calls.at(-1); call !== undefined; call = calls.at(-1)) {
        const { node } = call;
        const edge = this.out(node)[call.at++];
        if (edge !== undefined) {
          if (!within.has(edge.to) || !may(edge)) continue;
          if (!order.has(edge.to)) enter(edge.to);
          else if (isOpen.has(edge.to)) lower(node, order.get(edge.to) ?? 0);
          continue;
        }
        calls.pop();
        const caller = calls.at(-1);
        if (caller !== undefined) lower(caller.node, low.get(node) ?? 0);
        if (low.get(node) !== order.get(node)) continue;
        const component: number[] = [];
        for (let member = open.pop(); member !== undefined; member = open.pop()) {
          isOpen.delete(member);
          component.push(member);
          if (member === node) break;
        }
        if (component.length > 1) found.push(component);
      }
    }
    return found;
  }

  /** A shortest path by edges that `may` accepts; null if there is none. */
  path(from: number, to: number, within: ReadonlySet<number>, may: (edge: Edge) => boolean): Edge[] | null {
    const cameBy = new Map<number, Edge>();
    let front = [from];
    while (front.length > 0) {
      const next: number[] = [];
      for (const node of front) {
        for (const edge of this.out(node)) {
          if (!within.has(edge.to) || cameBy.has(edge.to) || !may(edge)) continue;
          cameBy.set(edge.to, edge);
          if (edge.to === to) return trace(cameBy, from, to);
          next.push(edge.to);
        }
      }
      front = next;
    }
    return null;
  }
}

function trace(cameBy: ReadonlyMap<number, Edge>, from: number, to: number): Edge[] {
  const path: Edge[] = [];
  for (let at = to; path.length === 0 || at !== from;) {
    const edge = cameBy.get(at);
    if (edge === undefined) break;
    path.push(edge);
    at = edge.from;
  }
  return path.reverse();
}
