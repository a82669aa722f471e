// The findings of the rules. Every finding counts; each rule keeps an explanation for the first few
// only.
import { type TxnId } from "./history.ts";
import { type Rule } from "./rules/names.ts";

export interface Violation {
  readonly rule: Rule;
  /** `T1`, `T2` … of the explanation, in this order. */
  readonly transactions: readonly TxnId[];
  readonly explanation: string;
}

/** Cases that are wrong by one reading of the evidence and right by another. */
export type Ambiguity =
  /** Broken, but no record says that it was durable: only its tracker knew the mark. */
  | "broken_without_report"
  | "broken_without_token"
  /** Its token names a position alone, and the epoch of that has ended. */
  | "unknown_without_receipt"
  /**
   * A webhook names an id that its owner's client does not know: the answer with the token was
   * lost.
   */
  | "delivery_without_answer"
  /** An id ran twice, and the report does not say which attempt it is about. */
  | "report_without_attempt"
  /**
   * One tracker says that a read-only transaction is durable and another that it is lost: they knew
   * different marks.
   */
  | "read_judged_apart"
  /**
   * A client received both verdicts, from trackers that followed two primaries; in the end all say
   * broken.
   */
  | "two_trackers_differ"
  /** All say that it is lost or broken, and only some know that the level had been reached. */
  | "promise_known_to_some"
  /**
   * Only the stream of events reported it as durable, and the stream also reported its part of the
   * log as broken.
   */
  | "broken_as_a_range"
  /**
   * Answered as lost in a history that an operator gave up afterwards, and sent again: the id was
   * refused in that history alone.
   */
  | "sent_again_after_its_loss"
  /** A read in an unknown epoch, so it is unknown which values it had to see. */
  | "read_without_epoch"
  /** A value of an epoch whose place among the others is unknown. */
  | "epoch_without_path"
  /**
   * Lost and then back, and forgotten by every tracker since: its retention is over, and a token
   * shows that it is there.
   */
  | "returned_and_forgotten"
  /**
   * Reports of one tracker in an order in which it cannot have made them; its answers may have
   * overtaken each other.
   */
  | "reports_out_of_order"
  /**
   * Durable on the disk of a node that is gone, for those that learned it in time, and lost for
   * others.
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

  /** Notes that the run proves less than it could. */
  weakness(note: string): void {
    this.weak.push(note);
  }
}
