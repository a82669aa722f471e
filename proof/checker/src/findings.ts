// Collects the findings of the rules. All are counted; each rule explains only its first few.
import { type TxnId } from "./history.ts";
import { type Rule } from "./rules/names.ts";

export interface Violation {
  readonly rule: Rule;
  /** `T1`, `T2` … of the explanation, in order. */
  readonly transactions: readonly TxnId[];
  readonly explanation: string;
}

/** Cases that are right by one reading of the evidence and wrong by another. */
export type Ambiguity =
  /** Broken without a record of durability: only its tracker knew the mark. */
  | "broken_without_report"
  | "lost_to_a_tracker_that_was_cut_off"
  | "broken_without_token"
  /** Its token names only a position, in an epoch that has ended. */
  | "unknown_without_receipt"
  /**
   * A webhook names an id that its owner's client does not know, because the answer with the token
   * was lost.
   */
  | "delivery_without_answer"
  /** An id ran twice, and the report does not name the attempt. */
  | "report_without_attempt"
  /**
   * One tracker reports a read-only transaction as durable and another as lost, because they knew
   * different marks.
   */
  | "read_judged_apart"
  /**
   * A client received both verdicts, from trackers that followed two primaries. In the end all
   * report it broken.
   */
  | "two_trackers_differ"
  /** All report it lost or broken, and only some know that the level had been reached. */
  | "promise_known_to_some"
  /**
   * Only the stream of events reported it as durable, and the stream also reported its part of the
   * log as broken.
   */
  | "broken_as_a_range"
  /**
   * An operator gave up the history in which it was reported lost, and its id was sent again: only
   * that history refused the id.
   */
  | "sent_again_after_its_loss"
  /** A read in an unknown epoch, so the values that it had to see are unknown. */
  | "read_without_epoch"
  /** A value of an epoch that has no known position in the tree. */
  | "epoch_without_path"
  /**
   * It was lost and came back, and every tracker has forgotten it: its retention is over, and a
   * token shows that it is there.
   */
  | "returned_and_forgotten"
  /**
   * Reports of one tracker in an impossible order, perhaps because its answers overtook each other.
   */
  | "reports_out_of_order"
  /**
   * Durable on the disk of a node that is gone: some learned that in time, and for others it is
   * lost.
   */
  | "durable_on_a_lost_disk"
  /**
   * Cycles that include a snapshot read: replicas and the primary may show commits in different
   * orders.
   */
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

  /** Notes why the run proves less than it could. */
  weakness(note: string): void {
    this.weak.push(note);
  }
}
