// A read must show what earlier epochs left to its epoch. On the primary it must also show what was
// answered before it began; a snapshot read may be older. A new version must not come before one
// that was there already.
import { type Findings } from "../findings.ts";
import { type EpochId } from "../history.ts";
import { type History, type ListRead, type Transaction, answeredAt } from "../model.ts";
import { type KeyOrder, type Orders } from "../orders.ts";
import { listOf } from "./order.ts";

export function judgeFreshness(history: History, orders: Orders, findings: Findings): void {
  const answers = new FirstAnswers(history);
  for (const reader of history.transactions) {
    if (reader.readIn === null) continue;
    for (const read of reader.reads) {
      const order = orders.of(read.key, reader.readIn);
      if (order === undefined) continue;
      if (read.length < order.base) {
        findings.violation("read.survivor-missing", [reader.invocation.txn], () => {
          const base = order.longest === null ? "" : listOf({ ...order.longest, length: order.base });
          return `T1 read ${listOf(read)} in key ${read.key}; its epoch ${order.epoch} began with ${base}`;
        });
      } else if (reader.invocation.isolation === "serializable") {
        judgeStale(findings, answers, reader, read, order);
      }
    }
  }
  for (const order of orders.all()) judgeRealTime(history, answers, order, findings);
}

/** No transaction appends before a value that was answered before it began. */
function judgeRealTime(history: History, answers: FirstAnswers, order: KeyOrder, findings: Findings): void {
  for (const [at, value] of order.own.entries()) {
    const writer = history.writers.get(value);
    const behind = answers.behind(order, at + 1);
    if (writer === undefined || behind === null || writer === behind) continue;
    if (answeredAt(behind, order.epoch) >= writer.invocation.atMs) continue;
    findings.violation("order.real-time", [writer.invocation.txn, behind.invocation.txn], () => {
      return `key ${order.key}: ${String(value)} of T1 is in front of what T2 had appended, and was answered for, before T1 began`;
    });
  }
}

function judgeStale(
  findings: Findings,
  answers: FirstAnswers,
  reader: Transaction,
  read: ListRead,
  order: KeyOrder,
): void {
  const missed = answers.behind(order, read.length - order.base);
  if (missed === null || answeredAt(missed, order.epoch) >= reader.invocation.atMs) return;
  findings.violation("read.stale", [reader.invocation.txn, missed.invocation.txn], () => {
    const early = (reader.invocation.atMs - answeredAt(missed, order.epoch)).toFixed(3);
    return `T1 read ${listOf(read)} in key ${read.key} without what T2 has appended; T2 was answered ${early} ms before T1 began`;
  });
}

/** Of the values after an index, the one that was answered first. */
class FirstAnswers {
  readonly #history: History;
  readonly #known = new Map<KeyOrder, (Transaction | null)[]>();

  constructor(history: History) {
    this.#history = history;
  }

  behind(order: KeyOrder, seen: number): Transaction | null {
    let first = this.#known.get(order);
    if (first === undefined) {
      first = new Array<Transaction | null>(order.own.length + 1).fill(null);
      let earliest: Transaction | null = null;
      for (const { writer } of order.unseen) earliest = earlier(earliest, writer, order.epoch);
      first[order.own.length] = earliest;
      for (let at = order.own.length - 1; at >= 0; at--) {
        const writer = this.#history.writers.get(order.own[at] ?? Number.NaN);
        if (writer !== undefined) earliest = earlier(earliest, writer, order.epoch);
        first[at] = earliest;
      }
      this.#known.set(order, first);
    }
    return first[seen] ?? null;
  }
}

function earlier(one: Transaction | null, other: Transaction, epoch: EpochId): Transaction {
  return one === null || answeredAt(other, epoch) < answeredAt(one, epoch) ? other : one;
}
