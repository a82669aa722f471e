// ED recoverability: a durable transaction, read-only ones included, has read only durable ones.
// Positions of tokens are upper bounds, so the order of two reports proves nothing; the final
// verdicts do.
import { type Excuses } from "../failures.ts";
import { type Findings } from "../findings.ts";
import { type EpochId } from "../history.ts";
import { type Spine } from "../lists.ts";
import { getOrMake } from "../maps.ts";
import { type History, type Transaction, attemptIn, externalLength, isVoid, isPresent } from "../model.ts";
import { type Verdicts } from "../verdicts.ts";

interface Undurable {
  readonly at: number;
  readonly writer: Transaction;
  readonly why: string;
}

export function judgeRecoverability(
  history: History,
  verdicts: Verdicts,
  excuses: Excuses,
  findings: Findings,
): void {
  const undurable = new UndurableValues(history, verdicts);
  for (const reader of history.transactions) {
    const { readIn } = reader;
    if (readIn === null || reader.reads.length === 0) continue;
    for (const [level, name] of history.scenario.levels.entries()) {
      if (!isDurable(history, verdicts, excuses, reader, readIn, level)) continue;
      for (const read of reader.reads) {
        const found = undurable.first(read.spine, readIn, level);
        if (found === null || found.at >= externalLength(reader, read) || found.writer === reader) continue;
        const involved = [reader.invocation.txn, found.writer.invocation.txn];
        findings.violation("recoverability.reads", involved, () => {
          const value = String(read.spine.values[found.at]);
          return `T1 is durable at ${name} and has read ${value} of T2 in key ${read.key}; T2 ${found.why}`;
        });
        break;
      }
    }
  }
}

/**
 * True if the promise holds at the end: durable is the last verdict, or the level covers everything
 * that happened. A level that survives only crashes may report durable what another node's history
 * lacks.
 */
function isDurable(
  { epochs, crashOnly }: History,
  verdicts: Verdicts,
  excuses: Excuses,
  reader: Transaction,
  attempt: EpochId,
  level: number,
): boolean {
  const { durable, broken, final } = verdicts.at(reader, attempt, level);
  if (broken !== null || durable === null) return false;
  const isExcused = excuses.breaks(reader, attempt, level, Number.POSITIVE_INFINITY) !== null;
  if (!isExcused) return true;
  return final.has("durable") && !(crashOnly.has(level) && epochs.hasMoved(attempt));
}

/** The first value of a list that is not durable. Found once for all reads of the list. */
class UndurableValues {
  readonly #history: History;
  readonly #verdicts: Verdicts;
  readonly #known = new Map<Spine, Map<string, Undurable | null>>();

  constructor(history: History, verdicts: Verdicts) {
    this.#history = history;
    this.#verdicts = verdicts;
  }

  first(spine: Spine, epoch: EpochId, level: number): Undurable | null {
    const known = getOrMake(this.#known, spine, () => new Map<string, Undurable | null>());
    return getOrMake(known, `${String(level)} ${epoch}`, () => {
      const { epochs, writers } = this.#history;
      for (const [at, value] of spine.values.entries()) {
        const writer = writers.get(value);
        // Other rules report reads of unknown values, of aborted transactions and of other
        // histories.
        if (writer === undefined || isVoid(writer)) continue;
        const attempt = attemptIn(epochs, writer, epoch);
        if (attempt === null) continue;
        const why = this.#whyNot(writer, attempt, level);
        if (why !== null) return { at, writer, why };
      }
      return null;
    });
  }

  #whyNot(writer: Transaction, attempt: EpochId, level: number): string | null {
    const { final } = this.#verdicts.at(writer, attempt, level);
    const present = isPresent(writer, attempt);
    if (present === false) return "is absent in the end";
    if (final.has("lost")) return "is lost there";
    if (final.has("pending")) return "is pending there";
    return null;
  }
}
