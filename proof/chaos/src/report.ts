// The result of a run: for people, a count of each kind of transaction; for programs, one line of
// JSON.
import { type ChaosResult } from "./run.ts";

const EXAMPLES_MAX = 3;

export function readable(seed: number, result: ChaosResult): string {
  const { postgres, judgement, failedFaults, faults } = result;
  const kinds = Object.entries(faults);
  const total = kinds.reduce((sum, [, count]) => sum + count, 0);
  const lines = [
    "",
    `seed ${String(seed)}${postgres === null ? "" : `, PostgreSQL ${postgres}`}: ${String(total)} faults of ${String(kinds.length)} kinds`,
    `  ${kinds.map(([kind, count]) => `${kind} ${String(count)}`).join(", ") || "none"}`,
    ...failedFaults.map((fault) => `  did not take effect: ${fault}`),
  ];
  if (judgement !== null) {
    const rows: [string, number][] = [
      ["transactions begun", judgement.invoked],
      ["answered as committed", judgement.committed],
      ["  read-only", judgement.read_only],
      ["  durable at the strongest level", judgement.durable],
      ["  reported as lost", judgement.lost],
      ["  broken at the strongest level", judgement.broken],
      ["too old for a verdict", judgement.expired],
      ["promises that a failover broke", judgement.promises_broken],
      ["lost and brought back", judgement.replayed],
      ["lost, and brought back would conflict", judgement.conflicts],
      ["lost and unrecoverable", judgement.unrecoverable],
      ["aborted", judgement.aborted],
      ["unknown, and resolved", judgement.unknown_resolved],
      ["without an answer, because the client died", judgement.unanswered],
      ["still pending", judgement.pending],
      ["violations", judgement.violations],
    ];
    for (const [what, count] of rows) lines.push(`  ${String(count).padStart(8)}  ${what}`);
    lines.push(
      `  judged by ${String(judgement.reads)} reads and ${String(judgement.reports)} reports about durability in ` +
        `${String(judgement.epochs)} epochs; ${String(judgement.ambiguous)} facts were ambiguous`,
    );
    const { deliveries, messages } = judgement;
    if (deliveries > 0)
      lines.push(`  ${String(messages)} messages of webhooks came in ${String(deliveries)} deliveries`);
    for (const note of judgement.weak) lines.push(`  weak: ${note}`);
    for (const [rule, count] of Object.entries(judgement.violations_by_rule)) {
      lines.push(`  VIOLATED ${rule} (${String(count)})`);
      const examples = judgement.examples.filter((example) => example.rule === rule);
      for (const { explanation, transactions } of examples.slice(0, EXAMPLES_MAX))
        lines.push(`    ${explanation} (${transactions.join(", ")})`);
    }
  }
  if (result.error !== null) lines.push(`  the run broke off: ${result.error}`);
  if (result.kept !== null) lines.push(`  history and logs: ${result.kept}`);
  return lines.join("\n");
}

/** Only of a run that brings lost transactions back. */
function classesOf(judgement: ChaosResult["judgement"]): Record<string, number> {
  if (judgement === null) return {};
  const { replayed, conflicts, unrecoverable } = judgement;
  return replayed + conflicts + unrecoverable === 0 ? {} : { replayed, conflicts, unrecoverable };
}

export function machineReadable(seed: number, { postgres, judgement, faults, error }: ChaosResult): string {
  return JSON.stringify({
    seed,
    postgres,
    faults,
    committed: judgement?.committed ?? null,
    durable: judgement?.durable ?? null,
    lost: judgement?.lost ?? null,
    unknown_resolved: judgement?.unknown_resolved ?? null,
    expired: judgement?.expired ?? null,
    pending: judgement?.pending ?? null,
    violations: judgement?.violations ?? null,
    promises_broken: judgement?.promises_broken ?? null,
    deliveries: judgement?.deliveries ?? null,
    ...classesOf(judgement),
    ...(error !== null && { error }),
  });
}
