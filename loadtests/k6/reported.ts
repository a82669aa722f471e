// Compares what was reported to the load about each transaction with the table: nothing that was
// called durable may be missing, and nothing that was called lost may be there.

export interface ReportedVerdict {
  readonly id: string;
  readonly verdict: string;
}

export interface Comparison {
  /** Rows of transactions that were reported as durable. */
  readonly kept: number;
  readonly missing: number;
  readonly returned: number;
  /** Rows of transactions whose verdict came after the load had ended. */
  readonly unreported: number;
}

/** k6's own lines are between those of the script. */
export function isReported(line: string): boolean {
  return line.startsWith('{"id":');
}

export function parseReported(log: string): ReportedVerdict[] {
  return log
    .split("\n")
    .filter(isReported)
    .map((line) => JSON.parse(line) as ReportedVerdict);
}

export function compareReported(reported: readonly ReportedVerdict[], rows: ReadonlySet<string>): Comparison {
  const of = (verdict: string): ReportedVerdict[] => reported.filter((each) => each.verdict === verdict);
  const known = new Set(reported.map(({ id }) => id));
  return {
    kept: of("durable").filter(({ id }) => rows.has(id)).length,
    missing: of("durable").filter(({ id }) => !rows.has(id)).length,
    returned: of("lost").filter(({ id }) => rows.has(id)).length,
    unreported: [...rows].filter((id) => !known.has(id)).length,
  };
}
