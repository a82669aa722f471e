// What a request's trace gets of the calls of an interactive transaction.
import { type TxnId } from "@highwater/protocol";
import { StoreCall, storeError, TransactionTrace } from "../tracing/transaction-trace.ts";
import { type Caller } from "../txn/caller.ts";
import { type AcceptedCommit } from "../txn/request.ts";
import { type Open } from "./open.ts";

export function traceOfCommit(
  id: TxnId,
  { isolation, known }: Open,
  { ack, level, statements }: AcceptedCommit,
  { trace }: Caller,
): TransactionTrace | null {
  if (trace === undefined) return null;
  const { readOnly } = known.attempt;
  const traced = {
    id,
    ack,
    isolation,
    readOnly,
    form: "interactive",
    statements: statements.length,
  } as const;
  return new TransactionTrace(trace, traced, ack === "durable" ? level : null);
}

/** Runs a call, with a span if the request is traced. */
export async function tracedCall<T>(
  { trace }: Caller,
  about: { readonly name: string; readonly id: TxnId; readonly statements: number },
  work: () => Promise<T>,
): Promise<T> {
  if (trace === undefined) return work();
  const call = new StoreCall(trace, about);
  try {
    const result = await work();
    call.ended();
    return result;
  } catch (cause) {
    call.ended(storeError(cause));
    throw cause;
  }
}
