// The checker's report, as text for people and as one JSON object for programs.
import { type Ambiguity, type Violation } from "./findings.ts";
import { RULES, type Rule } from "./rules/names.ts";

export interface Counts {
  readonly invoked: number;
  /** Reported to the client as committed, in the answer or later. */
  readonly committed: number;
  readonly readOnly: number;
  readonly aborted: number;
  /** Committed, with `durable` as the final verdict at the strongest level. */
  readonly durable: number;
  readonly lost: number;
  readonly broken: number;
  /**
   * Too old for an answer, in a final verdict at the strongest level or after an unknown outcome.
   */
  readonly expired: number;
  /** Unknown outcomes that the service resolved later. */
  readonly unknownResolved: number;
  /** Without an answer, because the client was killed. */
  readonly unanswered: number;
  /**
   * Transactions with a final verdict that is pending, or an unknown outcome that was never
   * resolved.
   */
  readonly pending: number;
  /** Transactions with a broken promise at some level. */
  readonly promisesBroken: number;
  /** Lost transactions by how they ended. */
  readonly replayed: number;
  readonly conflicts: number;
  readonly unrecoverable: number;
  readonly reads: number;
  readonly keys: number;
  readonly epochs: number;
  readonly trackers: number;
  readonly failures: number;
  readonly reports: number;
  /** Requests of webhooks, and how many different messages they carried. */
  readonly deliveries: number;
  readonly messages: number;
  readonly tornLines: number;
}

export interface Report {
  readonly seed: number;
  readonly counts: Counts;
  /** Faults that took effect, by kind. */
  readonly faults: Readonly<Record<string, number>>;
  readonly violationCount: number;
  readonly violationsByRule: Readonly<Partial<Record<Rule, number>>>;
  /** The first few violations of each rule. */
  readonly violations: readonly Violation[];
  readonly ambiguous: Readonly<Partial<Record<Ambiguity, number>>>;
  /** Why this run proves less than it could. */
  readonly weak: readonly string[];
}

export function toJson(report: Report): string {
  const { counts, ambiguous } = report;
  return JSON.stringify({
    seed: report.seed,
    faults: report.faults,
    invoked: counts.invoked,
    committed: counts.committed,
    read_only: counts.readOnly,
    aborted: counts.aborted,
    durable: counts.durable,
    lost: counts.lost,
    broken: counts.broken,
    expired: counts.expired,
    unknown_resolved: counts.unknownResolved,
    unanswered: counts.unanswered,
    pending: counts.pending,
    violations: report.violationCount,
    violations_by_rule: report.violationsByRule,
    promises_broken: counts.promisesBroken,
    replayed: counts.replayed,
    conflicts: counts.conflicts,
    unrecoverable: counts.unrecoverable,
    ambiguous: Object.values(ambiguous).reduce((sum, count) => sum + count, 0),
    ambiguous_by_kind: ambiguous,
    reads: counts.reads,
    keys: counts.keys,
    epochs: counts.epochs,
    trackers: counts.trackers,
    failures: counts.failures,
    reports: counts.reports,
    deliveries: counts.deliveries,
    messages: counts.messages,
    torn_lines: counts.tornLines,
    weak: report.weak,
    examples: report.violations,
  });
}

export function toText(report: Report): string {
  const { counts, violations } = report;
  const lines = [
    `seed ${String(report.seed)}: ${String(counts.committed)} of ${String(counts.invoked)} transactions committed, ${String(counts.readOnly)} of them only read`,
    `  at the strongest level: ${String(counts.durable)} durable, ${String(counts.lost)} lost, ${String(counts.broken)} broken, ${String(counts.expired)} expired`,
    `  ${String(counts.aborted)} aborted, ${String(counts.unknownResolved)} unknown and resolved, ${String(counts.unanswered)} without an answer, ${String(counts.pending)} pending`,
    `  promises broken: ${String(counts.promisesBroken)}, by ${String(counts.failures)} failures in ${String(counts.epochs)} epochs`,
    `  evidence: ${String(counts.reads)} reads of ${String(counts.keys)} keys, ${String(counts.reports)} words, ${String(counts.trackers)} trackers, ${String(counts.tornLines)} torn lines`,
  ];
  if (counts.deliveries > 0)
    lines.push(`  webhooks: ${String(counts.deliveries)} deliveries of ${String(counts.messages)} messages`);
  if (counts.replayed + counts.conflicts + counts.unrecoverable > 0)
    lines.push(
      `  of the lost: ${String(counts.replayed)} replayed, ${String(counts.conflicts)} conflicts, ${String(counts.unrecoverable)} unrecoverable`,
    );
  const faults = Object.entries(report.faults);
  if (faults.length > 0) {
    lines.push(`  faults: ${faults.map(([kind, count]) => `${kind} ${String(count)}`).join(", ")}`);
  }
  for (const [kind, count] of Object.entries(report.ambiguous)) {
    lines.push(`  ambiguous: ${kind} ${String(count)}`);
  }
  for (const note of report.weak) lines.push(`  weak: ${note}`);
  lines.push("");
  for (const [rule, count] of Object.entries(report.violationsByRule)) {
    lines.push(`VIOLATED ${rule} (${String(count)}): ${RULES[rule as Rule]}`);
    for (const violation of violations) {
      if (violation.rule !== rule) continue;
      lines.push(`  - ${violation.explanation}`);
      for (const [at, txn] of violation.transactions.entries())
        lines.push(`      T${String(at + 1)} = ${txn}`);
    }
  }
  const { violationCount } = report;
  lines.push(violationCount === 0 ? "no violations" : `${String(violationCount)} violations`);
  return `${lines.join("\n")}\n`;
}
