// Every epoch's own transactions must have a serial order. Nothing is left to judge between epochs:
// inherited values come before an epoch's own (order.ts, freshness.ts), so every cycle is within
// one epoch.
import { type Findings } from "../findings.ts";
import { type Edge, Graph } from "../graph.ts";
import { type EpochId } from "../history.ts";
import { getOrMake } from "../maps.ts";
import { type History, type Transaction, externalLength } from "../model.ts";
import { type KeyOrder, type Orders } from "../orders.ts";
import { type Rule } from "./names.ts";

interface Node {
  readonly transaction: Transaction;
  readonly epoch: EpochId;
}

/**
 * Limit per key for pairs of a reader of the newest version and a writer of a version that was
 * never read.
 */
const UNSEEN_PAIRS_MAX = 10_000;
/** Limit per component for anti-dependencies that are tried one by one. */
const SINGLES_MAX = 2_000;

export function judgeSerializability(history: History, orders: Orders, findings: Findings): void {
  const built = new Dependencies(history, orders);
  const graph = new Graph(built.nodes.length, built.edges);
  for (const component of graph.components(built.nodes.keys(), () => true)) {
    const found = nameCycle(graph, component);
    if (found === null) findings.ambiguity("cycle_through_snapshots");
    else report(findings, built.nodes, found.rule, found.cycle);
  }
}

interface Found {
  readonly rule: Rule;
  readonly cycle: readonly Edge[];
}

/** The worst anomaly of the component. The other cycles of a component often follow from it. */
function nameCycle(graph: Graph, component: readonly number[]): Found | null {
  const members = new Set(component);
  const overwrites = cycleBy(graph, component, ({ kind }) => kind === "ww");
  if (overwrites !== null) return { rule: "G0", cycle: overwrites };
  const isDependency = ({ kind }: Edge): boolean => kind !== "rw";
  const dependencies = cycleBy(graph, component, isDependency);
  if (dependencies !== null) return { rule: "G1c", cycle: dependencies };
  const antiDependencies = component.flatMap((node) =>
    graph.out(node).filter(({ kind, to }) => kind === "rw" && members.has(to)),
  );
  for (const anti of antiDependencies.slice(0, SINGLES_MAX)) {
    const back = graph.path(anti.to, anti.from, members, isDependency);
    if (back !== null) return { rule: "G-single", cycle: [anti, ...back] };
  }
  // A replica shows commits in the order of the log, the primary in the order in which locks are
  // released. So a snapshot read and a serializable one may disagree about two independent
  // transactions.
  const several = cycleBy(graph, component, ({ kind, isSnapshot }) => kind !== "rw" || !isSnapshot);
  return several === null ? null : { rule: "G2", cycle: several };
}

function cycleBy(graph: Graph, component: readonly number[], may: (edge: Edge) => boolean): Edge[] | null {
  const [smaller] = graph.components(component, may);
  const start = smaller?.[0];
  return smaller === undefined || start === undefined
    ? null
    : graph.path(start, start, new Set(smaller), may);
}

function report(findings: Findings, nodes: readonly Node[], rule: Rule, cycle: readonly Edge[]): void {
  const names = new Map<number, string>();
  const involved = cycle.map(({ from }, at) => {
    names.set(from, `T${String(at + 1)}`);
    return nodes[from]?.transaction.invocation.txn ?? "";
  });
  findings.violation(rule, involved, () => {
    const steps = cycle.map(({ from, to, kind, key, value }) => {
      const [one, other] = [names.get(from) ?? "", names.get(to) ?? ""];
      const at = `in key ${key}`;
      if (kind === "ww") return `${other} appended ${String(value)} right behind ${one} ${at}`;
      if (kind === "wr") return `${other} read ${String(value)} of ${one} ${at}`;
      return `${one} did not see ${String(value)} of ${other} ${at}`;
    });
    const arrows = cycle.map(({ from, kind }) => `${names.get(from) ?? ""} -${kind}-> `).join("");
    const epoch = nodes[cycle[0]?.from ?? 0]?.epoch ?? "";
    return `${arrows}T1 in epoch ${epoch}: ${steps.join("; ")}`;
  });
}

/** Which transaction must come before which, for neighbouring versions. All other pairs follow. */
class Dependencies {
  readonly nodes: Node[] = [];
  readonly edges: Edge[] = [];
  readonly #history: History;
  readonly #orders: Orders;
  readonly #numbers = new Map<EpochId, Map<Transaction, number>>();
  /** The transactions that read each order up to its end. */
  readonly #atEnd = new Map<KeyOrder, Transaction[]>();

  constructor(history: History, orders: Orders) {
    this.#history = history;
    this.#orders = orders;
    for (const reader of history.transactions) this.#addReads(reader);
    for (const order of orders.all()) this.#addWrites(order);
  }

  #addReads(reader: Transaction): void {
    if (reader.readIn === null) return;
    for (const read of reader.reads) {
      const order = this.#orders.of(read.key, reader.readIn);
      if (order === undefined) continue;
      const seen = externalLength(reader, read) - order.base;
      const last = order.own[seen - 1];
      if (last !== undefined) this.#add(order, "wr", this.#writer(last), reader, last);
      const next = order.own[Math.max(0, seen)];
      if (next !== undefined) this.#add(order, "rw", reader, this.#writer(next), next);
      else getOrMake(this.#atEnd, order, () => []).push(reader);
    }
  }

  #addWrites(order: KeyOrder): void {
    for (let at = 1; at < order.own.length; at++) {
      const value = order.own[at] ?? Number.NaN;
      this.#add(order, "ww", this.#writer(order.own[at - 1]), this.#writer(value), value);
    }
    const newest = this.#writer(order.own.at(-1));
    const readers = this.#atEnd.get(order) ?? [];
    let pairs = 0;
    for (const { value, writer } of order.unseen) {
      this.#add(order, "ww", newest, writer, value);
      for (const reader of readers) {
        if (pairs++ >= UNSEEN_PAIRS_MAX) return;
        this.#add(order, "rw", reader, writer, value);
      }
    }
  }

  #writer(value: number | undefined): Transaction | undefined {
    return value === undefined ? undefined : this.#history.writers.get(value);
  }

  #add(
    { key, epoch }: KeyOrder,
    kind: Edge["kind"],
    one: Transaction | undefined,
    other: Transaction | undefined,
    value: number,
  ): void {
    if (one === undefined || other === undefined || one === other) return;
    const isSnapshot = one.invocation.isolation === "snapshot";
    const [from, to] = [this.#number(one, epoch), this.#number(other, epoch)];
    this.edges.push({ from, to, kind, key, value, isSnapshot });
  }

  #number(transaction: Transaction, epoch: EpochId): number {
    const numbers = getOrMake(this.#numbers, epoch, () => new Map<Transaction, number>());
    return getOrMake(numbers, transaction, () => this.nodes.push({ transaction, epoch }) - 1);
  }
}
