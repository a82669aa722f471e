// The limits of one request: how long it may run, and how large its answer may be.
import { HighwaterError, type StatementResult, type TxnId } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { type ResultHold } from "../answers/result-memory.ts";
import { type Config } from "../config.ts";
import { type ActiveTransactions } from "./active.ts";

/**
 * A read that was cut short is refused: nothing is undone by that. A statement that has written is
 * answered, and says `truncated`.
 */
export function refuseTruncated(
  results: readonly StatementResult[],
  config: Pick<Config, "maxRows" | "maxResultBytes">,
  { hold, ...about }: { readonly hold: ResultHold; readonly transactionId?: TxnId; readonly open?: boolean },
): void {
  const statement = results.findIndex(({ truncated }) => truncated === true);
  if (statement < 0) return;
  if (hold.refusal !== null)
    throw new HighwaterError(hold.refusal.code, { ...hold.refusal.details, ...about, statement });
  const isRows = (results[statement]?.rows.length ?? 0) >= config.maxRows;
  const limit = isRows
    ? { name: "maxRows", value: config.maxRows }
    : { name: "maxResultBytes", value: config.maxResultBytes };
  throw new HighwaterError("result_too_large", {
    detail: `The result of statement ${String(statement)} exceeds ${limit.name} (${String(limit.value)}).`,
    statement,
    limit,
    ...about,
  });
}

/**
 * Between the end of a request's time and that of its database session: seen late, cancelled, and
 * then cut.
 */
const END_MARGIN_MS = 3_000;

/**
 * How long a transaction may be there that has this limit: what the gateway promises to those who
 * would settle its id. An interactive one has its time twice, since its COMMIT has as long as
 * everything before it.
 */
export function lifespanMs(totalTimeoutMs: number, form: "one_shot" | "interactive"): number {
  return (form === "interactive" ? 2 * totalTimeoutMs : totalTimeoutMs) + END_MARGIN_MS;
}

export interface TimeBounds {
  readonly signal: AbortSignal;
  /** The error itself, or, when it only says that the statement was cancelled, why it was. */
  reasonFor(cause: unknown): unknown;
  end(): void;
}

/**
 * Cancels when the client goes away, or when the time is over, whatever time limits the statements
 * have set for themselves.
 */
export function withinTime(
  active: ActiveTransactions,
  totalTimeoutMs: number,
  client: AbortSignal | undefined,
): TimeBounds {
  const over = new AbortController();
  const onGone = (): void => {
    over.abort(new HighwaterError("cancelled", { detail: "The client disconnected." }));
  };
  client?.addEventListener("abort", onGone, { once: true });
  if (client?.aborted === true) onGone();
  const callOff = active.limit(totalTimeoutMs, () => {
    over.abort(
      new HighwaterError("statement_timeout", {
        detail: `The transaction took longer than totalTimeoutMs (${String(totalTimeoutMs)} ms).`,
        limit: { name: "totalTimeoutMs", value: totalTimeoutMs },
      }),
    );
  });
  return {
    signal: over.signal,
    reasonFor: (cause) => {
      if (!over.signal.aborted || !(cause instanceof HighwaterError) || cause.code !== "statement_timeout")
        return cause;
      const reason = over.signal.reason as HighwaterError;
      // What the server said stays: its SQLSTATE, and the statement that it cancelled.
      return new HighwaterError(reason.code, { ...cause.details, ...reason.details }, { cause });
    },
    end: () => {
      client?.removeEventListener("abort", onGone);
      callOff();
    },
  };
}

/** Aborts with `statement_timeout` after the time. `end`: it is not needed any more. */
export function timeLimit(
  clock: Clock,
  limitMs: number,
  detail: string,
): { readonly signal: AbortSignal; end(): void } {
  const late = new AbortController();
  const end = clock.after(limitMs, () => {
    late.abort(new HighwaterError("statement_timeout", { detail }));
  });
  return { signal: late.signal, end };
}
