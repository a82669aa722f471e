// What the rules have found. Every finding counts; of each rule only the first few are kept with their explanation.
import { type TxnId } from "./history.ts";
import { type Rule } from "./rules/names.ts";

export interface Violation {
  readonly rule: Rule;
  /** `T1`, `T2` … of the explanation, in this order. */
  readonly transactions: readonly TxnId[];
  readonly explanation: string;
}

/** What one reading of the evidence calls wrong and another one does not. */
export type Ambiguity =
  /** Broken, although nobody has recorded a word that was broken: only its tracker knew the mark. */
  | "broken_without_report"
  /** Which attempt of an id that ran twice a word is about. */
  | "report_without_attempt"
  /** A read-only transaction is durable to one tracker and lost to another one: they had heard different marks. */
  | "read_judged_apart"
  /** A client was told both by trackers that followed two primaries, and in the end all say that it is broken. */
  | "two_trackers_differ"
  /** All say that it is gone, and only some know that the level had been reached. */
  | "promise_known_to_some"
  /** Told as durable by the stream of events alone, which has told as well that its part of the log is broken. */
  | "broken_as_a_range"
  /** A read whose epoch is not known, so nobody can say what it had to see. */
  | "read_without_epoch"
  /** A value of an epoch whose place among the others is not known. */
  | "epoch_without_path"
  /** Lost and then back, which every tracker has forgotten since: its retention is over, and a token shows that it is there. */
  | "returned_and_forgotten"
  /** Words of one tracker in another order than it could have said them; its answers may have overtaken each other. */
  | "reports_out_of_order"
  /** Durable on the disk of a node that is gone, to those who heard so in time, and lost to others. */
  | "durable_on_a_lost_disk"
  /** Cycles that need a snapshot read among others: replicas and the primary may show commits in different orders. */
  | "cycle_through_snapshots";

const EXAMPLES_PER_RULE = 20;

export class Findings {
  readonly violations: Violation[] = [];
  readonly byRule = new Map<Rule, number>();
  readonly ambiguous = new Map<Ambiguity, number>();
  readonly weak: string[] = [];

  violation(rule: Rule, transactions: readonly TxnId[], explain: () => string): void {
    const count = (this.byRule.get(rule) ?? 0) + 1;
    this.byRule.set(rule, count);
    if (count <= EXAMPLES_PER_RULE) this.violations.push({ rule, transactions, explanation: explain() });
  }

  ambiguity(kind: Ambiguity): void {
    this.ambiguous.set(kind, (this.ambiguous.get(kind) ?? 0) + 1);
  }

  /** The run proves less than it could. */
  weakness(note: string): void {
    this.weak.push(note);
  }
}
