// Nothing happens twice, whatever was sent again: no value, no transfer, no receipt, and no body
// under two ids.
import { type Findings } from "../findings.ts";
import { type TxnId } from "../history.ts";
import { type ListView, type Spine } from "../lists.ts";
import { getOrMake } from "../maps.ts";
import { type History, type Transaction, isThere } from "../model.ts";

export function judgeOnce(history: History, findings: Findings): void {
  judgeLists(history, findings);
  judgeSet(history, findings);
  judgeReceipts(history, findings);
  judgeTransfers(history, findings);
  judgeReruns(history, findings);
}

interface Repeat {
  readonly value: number;
  /** The index of the second occurrence. */
  readonly at: number;
}

/**
 * Reports each repeated value once, with the first transaction that read it; without a reader if it
 * is in the final list.
 */
function judgeLists({ transactions, finalLists, writers }: History, findings: Findings): void {
  const known = new Map<Spine, Repeat[]>();
  const reported = new Set<Repeat>();
  const judge = ({ spine, length }: ListView, reader: Transaction | null): void => {
    for (const repeat of getOrMake(known, spine, () => repeatsOf(spine))) {
      if (repeat.at >= length || reported.has(repeat)) continue;
      reported.add(repeat);
      const writer = writers.get(repeat.value);
      const involved = [writer, reader].flatMap((it) => (it == null ? [] : [it.invocation.txn]));
      findings.violation("once.value", involved, () => {
        return `${String(repeat.value)} is twice in key ${spine.key}${reader === null ? ", in the end" : ", as somebody has read it"}`;
      });
    }
  };
  for (const view of finalLists.values()) judge(view, null);
  for (const reader of transactions) for (const read of reader.reads) judge(read, reader);
}

function repeatsOf({ values }: Spine): Repeat[] {
  const known = new Set<number>();
  return values.flatMap((value, at) => {
    const isNew = !known.has(value);
    known.add(value);
    return isNew ? [] : [{ value, at }];
  });
}

function judgeSet({ final, writers }: History, findings: Findings): void {
  const rows = new Set<number>();
  for (const value of final.inserted) {
    const writer = writers.get(value);
    if (rows.has(value)) {
      const involved = writer === undefined ? [] : [writer.invocation.txn];
      findings.violation("once.value", involved, () => `${String(value)} of T1 is twice in the set`);
    }
    rows.add(value);
    if (writer?.invocation.operations.some((it) => it.f === "insert" && it.value === value) === true)
      continue;
    findings.violation(
      "read.garbage",
      [],
      () => `${String(value)} is in the set, and nobody has inserted it`,
    );
  }
}

function judgeReceipts({ final }: History, findings: Findings): void {
  const receipts = new Set<TxnId>();
  for (const { txn } of final.receipts) {
    if (receipts.has(txn)) findings.violation("once.receipt", [txn], () => "T1 has two receipts");
    receipts.add(txn);
  }
}

function judgeTransfers({ final, byId }: History, findings: Findings): void {
  const rows = Map.groupBy(final.transfers, ({ txn }) => txn);
  const textOf = (from: number, to: number, amount: number): string =>
    `${String(amount)} from ${String(from)} to ${String(to)}`;
  for (const [txn, done] of rows) {
    const operations = byId.get(txn)?.invocation.operations ?? [];
    const asked = operations
      .flatMap((it) => (it.f === "transfer" ? [textOf(it.from, it.to, it.amount)] : []))
      .sort();
    const moved = done.map(({ from, to, amount }) => textOf(from, to, amount)).sort();
    if (asked.length === moved.length && asked.every((text, at) => text === moved[at])) continue;
    findings.violation("once.transfer", [txn], () => {
      return `T1 was asked to move ${asked.join(", ") || "nothing"}, and has moved ${moved.join(", ")}`;
    });
  }
}

/** A client runs a body again only after the service reported that the first run has no effect. */
function judgeReruns(history: History, findings: Findings): void {
  const { transactions, byId, epochs } = history;
  for (const transaction of transactions) {
    const { invocation } = transaction;
    const first = invocation.rerunOf === null ? undefined : byId.get(invocation.rerunOf);
    if (first === undefined || !isThere(history, first) || !isThere(history, transaction)) continue;
    // It was reported as lost, and an operator brought its history back. It is then broken, and
    // reported as broken. A failover must not cause this.
    const isBroken = first.reports.some(({ verdict }) => verdict === "broken");
    if (isBroken && first.attempts.some((attempt) => epochs.wasChosenSince(attempt))) continue;
    findings.violation("once.rerun", [first.invocation.txn, invocation.txn], () => {
      const said = first.answer?.outcome ?? "not";
      return `T1 was answered (${said}), its body ran again as T2, and both are there in the end`;
    });
  }
}
