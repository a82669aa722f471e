// The final state contains each transaction as a whole or not at all, and balances follow from the
// transfers.
import { type Findings } from "../findings.ts";
import { type Operation, type TxnId } from "../history.ts";
import { type History, type Transaction, isAborted, isThere } from "../model.ts";

export function judgePresence(history: History, findings: Findings): void {
  const state = new Present(history);
  for (const transaction of history.transactions) judgeEffects(history, findings, state, transaction);
  judgeBank(history, findings);
}

/** The effects in the final state. */
class Present {
  readonly #lists: ReadonlyMap<string, ReadonlySet<number>>;
  readonly #inserted: ReadonlySet<number>;
  readonly #transfers: ReadonlySet<TxnId>;
  readonly #rows: ReadonlyMap<string, ReadonlySet<number>>;

  constructor({ final }: History) {
    this.#lists = new Map(Object.entries(final.lists).map(([key, list]) => [key, new Set(list)]));
    this.#inserted = new Set(final.inserted);
    this.#transfers = new Set(final.transfers.map(({ txn }) => txn));
    this.#rows = new Map(final.rows?.map(({ key, log }) => [key, new Set(log)]));
  }

  /** Null for an operation without effects, or that may have had none. */
  has({ invocation: { txn }, rowReads }: Transaction, operation: Operation, at: number): boolean | null {
    switch (operation.f) {
      case "make":
        return this.#rows.get(operation.key)?.has(operation.value) ?? false;
      case "add": {
        if (this.#rows.get(operation.key)?.has(operation.value) === true) return true;
        const read = rowReads.find((each) => each.operation === at);
        // There was no row, or nothing shows whether there was one.
        const isIdle = read === undefined || (read.log !== null && read.log.length === 0);
        return operation.how !== "upsert" && isIdle ? null : false;
      }
      case "append":
      case "readAppend":
        return this.#lists.get(operation.key)?.has(operation.value) ?? false;
      case "insert":
        return this.#inserted.has(operation.value);
      case "transfer":
        return this.#transfers.has(txn);
      case "read":
      case "sum":
      case "look":
        return null;
    }
  }
}

function judgeEffects(history: History, findings: Findings, state: Present, transaction: Transaction): void {
  const { txn, operations, readOnly } = transaction.invocation;
  const effects = operations.map((operation, at) => state.has(transaction, operation, at));
  const there = effects.filter((effect) => effect === true).length;
  const absent = effects.filter((effect) => effect === false).length;
  const { receipt } = transaction;
  // Its own, or that of the transaction that brought it back.
  const hasReceipt = isThere(history, transaction);
  const describe = (which: boolean): string =>
    operations
      .flatMap((operation, at) => (effects[at] === which ? [JSON.stringify(operation)] : []))
      .join(", ");
  if (isAborted(transaction) && (there > 0 || hasReceipt)) {
    findings.violation("fate.aborted-present", [txn], () => {
      const { answer, resolution } = transaction;
      const said =
        answer?.outcome === "aborted" ? "answered as aborted" : `resolved as ${resolution?.outcome ?? ""}`;
      return `T1 was ${said}, and there is ${hasReceipt ? "its receipt" : describe(true)} in the end`;
    });
  }
  if (there > 0 && absent > 0) {
    findings.violation(
      "atomicity.torn",
      [txn],
      () => `of T1 there is ${describe(true)} in the end, and not ${describe(false)}`,
    );
  } else if (!readOnly && there > 0 && !hasReceipt) {
    findings.violation("atomicity.receipt", [txn], () => {
      return `of T1 there is ${describe(true)} in the end, and ${receipt === null ? "no receipt" : `a receipt that says ${receipt.kind}`}`;
    });
  } else if (!readOnly && absent > 0 && hasReceipt) {
    findings.violation(
      "atomicity.receipt",
      [txn],
      () => `of T1 there is a receipt in the end, and not ${describe(false)}`,
    );
  }
}

function judgeBank({ scenario, final, transactions }: History, findings: Findings): void {
  const { accounts, balance } = scenario.bank;
  const expected = new Array<number>(accounts).fill(balance);
  for (const { from, to, amount } of final.transfers) {
    expected[from] = (expected[from] ?? 0) - amount;
    expected[to] = (expected[to] ?? 0) + amount;
  }
  for (let at = 0; at < Math.max(expected.length, final.balances.length); at++) {
    if (expected[at] === final.balances[at]) continue;
    findings.violation("bank.balance", [], () => {
      return `account ${String(at)} has ${String(final.balances[at])}; by the transfers that are there it has ${String(expected[at])}`;
    });
  }
  const total = accounts * balance;
  for (const { invocation, sums } of transactions) {
    for (const sum of sums) {
      if (sum === total) continue;
      findings.violation(
        "bank.sum",
        [invocation.txn],
        () => `T1 read a total of ${String(sum)}; there is ${String(total)}`,
      );
    }
  }
}
