// Finds lists that cannot be parts of one order of versions.
import { type Findings } from "../findings.ts";
import { type TxnId } from "../history.ts";
import { type History } from "../model.ts";
import { type OrderFault, type Orders } from "../orders.ts";
import { type Sighting } from "../attempts.ts";

export function judgeOrders(history: History, orders: Orders, findings: Findings): void {
  for (const fault of orders.faults) {
    const rule = fault.kind === "epochs" ? "order.epochs" : "order.incompatible";
    findings.violation(rule, transactionsOf(history, fault), () => explain(fault));
  }
}

function transactionsOf(history: History, fault: OrderFault): TxnId[] {
  switch (fault.kind) {
    case "lists":
      return [...readersOf(history, fault.one), ...readersOf(history, fault.other)];
    case "own":
      return readersOf(history, fault.other);
    case "base":
      return readersOf(history, fault.later);
    case "epochs":
      return readersOf(history, fault.sighting);
  }
}

/** A transaction that read the list; empty for the final list. */
function readersOf({ transactions }: History, { spine, length, epoch }: Sighting): TxnId[] {
  const reader = transactions.find(
    ({ readIn, reads }) =>
      readIn === epoch && reads.some((read) => read.spine === spine && read.length === length),
  );
  return reader === undefined ? [] : [reader.invocation.txn];
}

function explain(fault: OrderFault): string {
  switch (fault.kind) {
    case "lists": {
      const { one, other } = fault;
      return `key ${one.key}: ${listOf(one)} and ${listOf(other)} were both read in epoch ${one.epoch}`;
    }
    case "own": {
      const { order, other, at } = fault;
      return (
        `key ${order.key}: the values of epoch ${order.epoch} come as ${tail(order.own, order.own.length)} and, ` +
        `read in epoch ${other.epoch}, as ${listOf(other)}; they differ at its value ${String(at)}`
      );
    }
    case "base": {
      const { order, later } = fault;
      const values = order.longest?.spine.values ?? [];
      return (
        `key ${order.key}: epoch ${order.epoch} began with ${tail(values, order.base)}, ` +
        `and epoch ${later.epoch}, which continues it, has ${listOf(later)}`
      );
    }
    case "epochs": {
      const { sighting, at } = fault;
      const value = String(sighting.spine.values[at]);
      return `key ${sighting.key}: ${value} is of an older epoch than what is before it in ${listOf(sighting)}`;
    }
  }
}

export function listOf({ spine, length }: { spine: { values: readonly number[] }; length: number }): string {
  return tail(spine.values, length);
}

const TAIL = 12;

function tail(values: readonly number[], length: number): string {
  const from = Math.max(0, length - TAIL);
  return `[${from > 0 ? `… ${String(from)} more, ` : ""}${values.slice(from, length).join(", ")}]`;
}
