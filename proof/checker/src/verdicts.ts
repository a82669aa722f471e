// The reports on each transaction's durability, by attempt and level.
import { type Findings } from "./findings.ts";
import { type EpochId } from "./history.ts";
import { getOrMake } from "./maps.ts";
import { type History, type Transaction, type Report, attemptOf } from "./model.ts";

/** Reports on one attempt at one level. */
export interface Spoken {
  /** The first report of each kind, from any source. */
  readonly durable: Report | null;
  readonly lost: Report | null;
  readonly broken: Report | null;
  readonly reports: readonly Report[];
  /** The trackers' verdicts at the end. */
  readonly final: ReadonlySet<Report["verdict"]>;
}

export interface AttemptVerdicts {
  readonly attempt: EpochId | null;
  /** By level, weakest first. */
  readonly levels: readonly Spoken[];
}

const SILENCE: Spoken = { durable: null, lost: null, broken: null, reports: [], final: new Set() };

export class Verdicts {
  readonly #byTransaction: AttemptVerdicts[][];

  constructor({ transactions, scenario }: History, findings: Findings) {
    this.#byTransaction = transactions.map((transaction) =>
      verdictsOf(transaction, scenario.levels.length, findings),
    );
  }

  of({ index }: Transaction): readonly AttemptVerdicts[] {
    return this.#byTransaction[index] ?? [];
  }

  at(transaction: Transaction, attempt: EpochId | null, level: number): Spoken {
    return this.of(transaction).find((it) => it.attempt === attempt)?.levels[level] ?? SILENCE;
  }
}

function verdictsOf(transaction: Transaction, levels: number, findings: Findings): AttemptVerdicts[] {
  const byAttempt = new Map<EpochId | null, Report[][]>();
  for (const report of transaction.reports) {
    const attempt = attemptOf(transaction, report);
    if (attempt === undefined) {
      findings.ambiguity("report_without_attempt");
      continue;
    }
    const reports = getOrMake(byAttempt, attempt, () => Array.from({ length: levels }, () => []));
    reports[report.level]?.push(report);
  }
  return [...byAttempt].map(([attempt, reports]) => ({ attempt, levels: reports.map(spokenOf) }));
}

function spokenOf(reports: Report[]): Spoken {
  reports.sort((one, other) => one.atMs - other.atMs);
  const first = (verdict: Report["verdict"]): Report | null =>
    reports.find((report) => report.verdict === verdict) ?? null;
  const final = new Set(reports.flatMap(({ by, verdict }) => (by === "final" ? [verdict] : [])));
  return { durable: first("durable"), lost: first("lost"), broken: first("broken"), reports, final };
}
