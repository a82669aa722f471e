// A tracker's verdicts on very many tokens.
import { HttpConnection } from "../../loadtests/gateway/http-connection.ts";
import { askVerdicts } from "../../loadtests/tracker/many.ts";
import { LEVEL } from "./table.ts";

/** A request for this many takes well under a second. */
const BATCH = 5_000;
const WAIT_MS = 10_000;
const LIMIT_MS = 120_000;

export interface Counts {
  /** By verdict. After the limit, `pending` may be one of them. */
  readonly verdicts: Readonly<Record<string, number>>;
  readonly tookMs: number;
}

/** Waits for each verdict, with a limit for all of them. */
export async function countVerdicts(tracker: string, tokens: readonly string[]): Promise<Counts> {
  const startedMs = performance.now();
  const verdicts: Record<string, number> = {};
  const connection = await HttpConnection.open(tracker);
  try {
    for (let at = 0; at < tokens.length; at += BATCH) {
      let open = tokens.slice(at, at + BATCH);
      while (open.length > 0) {
        const isLast = performance.now() - startedMs > LIMIT_MS;
        const said = await askVerdicts(connection, open, { level: LEVEL, waitMs: WAIT_MS });
        open = [];
        for (const { verdict, token } of said)
          if (verdict === "pending" && !isLast) open.push(token);
          else verdicts[verdict] = (verdicts[verdict] ?? 0) + 1;
      }
    }
  } finally {
    connection.close();
  }
  return { verdicts, tookMs: performance.now() - startedMs };
}
