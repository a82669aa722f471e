// Ends the traces of commits that an epoch's end left open. No mark can show any more whether they
// survived, so it asks a tracker. A loss ends the trace with an error.
import { type Verdicts } from "../trackers/verdicts.ts";
import { type Tokens } from "../txn/tokens.ts";
import { type TransactionTrace } from "./transaction-trace.ts";

/**
 * Longer than the reconciliation of a failover; a commit without a verdict by then has no end in
 * its trace.
 */
const LIMIT_MS = 600_000;
/** More lost transactions than this make no clearer picture. */
const ASKED_MAX = 2_000;

export async function endCarriedTraces(
  traces: readonly TransactionTrace[],
  level: string,
  { verdicts, tokens }: { readonly verdicts: Pick<Verdicts, "ask">; readonly tokens: Pick<Tokens, "of"> },
): Promise<void> {
  const asking = traces.slice(0, ASKED_MAX).map(async (trace) => {
    const token = trace.tokenBy(tokens);
    if (token === null) return;
    const verdict = await verdicts.ask({ token, level, limitMs: LIMIT_MS });
    if (verdict === "durable" || verdict === "lost" || verdict === "broken" || verdict === "retried")
      trace.settled(verdict, level);
  });
  await Promise.all(asking);
}
