// Runs the statements of one lost transaction in a transaction that is open, and compares what they
// answer, and the rows that they find, with what they must. Commits nothing.
import {
  HighwaterError,
  type ReplayConflict,
  type ReplayOutcome,
  type Statement,
  type StatementResult,
} from "@highwater/protocol";
import { type OpenTransaction, redo } from "@highwater/store";
import { keptResult } from "../contents/keeper.ts";
import { type Item } from "./ends.ts";
import { type Examined, type Step } from "./examine.ts";
import { type LostWrite } from "./gather.ts";

export interface Conflict extends Pick<ReplayOutcome, "statement" | "lost" | "redone" | "error" | "because"> {
  readonly reason: ReplayConflict;
}

type Results = Awaited<ReturnType<OpenTransaction["run"]>>;
type Steps = Extract<Examined, { kind: "steps" }>;

/** Of a transaction that meets a conflict. */
export const TRIES = 5;
/** Of a result, in a report. */
const ROWS_MAX = 20;
const UNIQUE_VIOLATION = "23505";

/** The first statement: the transaction with the id brings the item's root back. */
export function rootOf({ root }: Item, id: string): Statement {
  return { sql: redo.INSERT_REDO, params: [root.id, root.tag, id] };
}

/**
 * All in one round trip: what is found is judged behind it, and undone by the caller. Returns the
 * results if nothing is different; `taken`: another transaction has the root. Errors:
 * `serialization_failure` and what is no answer of a statement.
 */
export async function runIn(
  open: Pick<OpenTransaction, "run">,
  lost: LostWrite,
  { steps, isSchemaUntouched }: Steps,
  {
    root,
    since,
    signal,
    overtakenBy,
  }: {
    readonly root: Statement;
    readonly since: string;
    readonly signal: AbortSignal | undefined;
    /** Of what the writers of its rows brought back, one that must not come before it. */
    readonly overtakenBy: (writers: readonly string[]) => Promise<string | null>;
  },
): Promise<Conflict | "taken" | { readonly results: Results }> {
  const asked = steps.map((step) => askedOf(step, since));
  let all: StatementResult[];
  try {
    [, ...all] = await open.run([root, ...asked.flat()], signal);
  } catch (cause) {
    if (!(cause instanceof HighwaterError) || cause.code === "serialization_failure") throw cause;
    const { sqlstate, statement, detail } = cause.details;
    if (sqlstate === undefined || statement === undefined) throw cause;
    if (statement === 0) {
      if (sqlstate === UNIQUE_VIOLATION) return "taken";
      throw cause;
    }
    const at = stepOf(asked, statement - 1);
    return { reason: "refused", statement: at, error: detail ?? cause.message, ...lostResult(lost, at) };
  }
  const results: Results[number][] = [];
  let from = 0;
  let found: Conflict | null = null;
  const writers: string[] = [];
  for (const [at, step] of steps.entries()) {
    const mine = all.slice(from, (from += asked[at]?.length ?? 0));
    const hasBefore = step.write !== null && step.write.command !== "Insert";
    const [before, result, after] = hasBefore ? mine : [undefined, ...mine];
    if (result === undefined) throw new Error("a statement has no result");
    writers.push(...(before?.rows.flatMap(([, , writer]) => writer ?? []) ?? []));
    results.push(result);
    const reason = isSchemaUntouched ? judge(step, { before, result, after }, lost, at) : "changed_schema";
    if (reason !== null && found === null) {
      const redone = { ...keptResult(result), rows: result.rows.slice(0, ROWS_MAX).map((row) => [...row]) };
      found = { reason, statement: at, redone, ...lostResult(lost, at) };
    }
  }
  if (found !== null) return found;
  const because = writers.length === 0 ? null : await overtakenBy(writers);
  return because === null ? { results } : { reason: "too_late", because };
}

/** What is asked before the statement, the statement, and what is asked behind it. */
function askedOf({ statement: own, write }: Step, since: string): Statement[] {
  if (write === null || write.row === null) return [own];
  const { command, row, facts } = write;
  const after = redo.rowAfter(row, facts.references, since);
  if (command === "Insert") return [own, after];
  const before = redo.rowBefore(row, since);
  return command === "Delete" ? [before, own] : [before, own, after];
}

interface Answers {
  /** Undefined: nothing was asked there. */
  readonly before: StatementResult | undefined;
  readonly result: StatementResult;
  readonly after: StatementResult | undefined;
}

function judge(
  { write }: Step,
  { before, result, after }: Answers,
  { contents }: LostWrite,
  at: number,
): ReplayConflict | null {
  if (before?.rows[0] !== undefined && before.rows[0][0] !== "t") return "changed";
  if (write?.isGenerated === true) return "generated_value";
  const lost = contents?.statements[at]?.result ?? null;
  if (lost === null || lost.digest === null) return "different_result";
  const redone = keptResult(result);
  if (lost.command !== redone.command || lost.rowCount !== redone.rowCount || lost.digest !== redone.digest)
    return "different_result";
  if (write === null || result.rowCount === 0) return null;
  if (write.command !== "Delete") {
    // The row is not there under its key any more: it was given another one.
    if (after?.rows[0] === undefined) return "chosen_key";
    if (after.rows[0][0] !== "t") return "changed_reference";
  }
  const { chosen, chosenExpression } = write.facts;
  if (write.command === "Insert") return chosen.length > 0 || chosenExpression ? "chosen_key" : null;
  if (write.command === "Update" && (chosenExpression || before?.rows[0]?.[1] !== after?.rows[0]?.[1]))
    return "chosen_key";
  return null;
}

function stepOf(asked: readonly (readonly Statement[])[], statement: number): number {
  let behind = 0;
  return Math.max(
    0,
    asked.findIndex(({ length }) => statement < (behind += length)),
  );
}

function lostResult({ contents }: LostWrite, at: number): Pick<ReplayOutcome, "lost"> {
  const result = contents?.statements[at]?.result ?? null;
  return result === null ? {} : { lost: result };
}
