// A token in an answer must be that of the answered transaction. Only transactions that wrote have
// one.
import { type Findings } from "../findings.ts";
import { type TxnId } from "../history.ts";
import { type History, type Transaction } from "../model.ts";

export function judgeTokens({ transactions }: History, findings: Findings): void {
  const holders = new Map<TxnId, Transaction>();
  for (const transaction of transactions) {
    const { answer, invocation } = transaction;
    const { txn, readOnly, receipt } = invocation;
    const tokenOf = answer?.tokenOf;
    if (tokenOf === undefined) continue;
    const holder = holders.get(tokenOf);
    holders.set(tokenOf, transaction);
    if (holder !== undefined) {
      const involved = [txn, holder.invocation.txn];
      findings.violation("token.foreign", involved, () => "T1 was answered with the token of T2");
    } else if (receipt !== false && tokenOf !== txn) {
      findings.violation("token.foreign", [txn], () => `T1 was answered with the token of ${tokenOf}`);
    } else if (readOnly || answer?.outcome !== "committed") {
      const what = readOnly ? "only reads" : `was answered as ${answer?.outcome ?? ""}`;
      findings.violation("token.foreign", [txn], () => `T1 ${what}, and its answer has a token`);
    }
  }
}
