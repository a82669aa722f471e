// What is measured besides k6's own metrics. Each pair of `commit_latency` and `durable_latency` is
// of one transaction.
import { Counter, Rate, Trend } from "k6/metrics";

/** Of fast writes: from the request to its answer. Attempts that conflicted count into it. */
export const commitLatency = new Trend("commit_latency", true);
/** Of the same ones: from the request until it was known to be durable. */
export const durableLatency = new Trend("durable_latency", true);
/** Of the same ones: what durability came later than the answer. */
export const durabilityGap = new Trend("durability_gap", true);
/** Of safe writes: from the request to its answer, which is that it is durable. */
export const safeLatency = new Trend("safe_latency", true);
/** Of reads. */
export const readLatency = new Trend("read_latency", true);

export const committed = new Counter("committed");
export const durable = new Counter("durable");
/** Committed, and taken back by a failure. */
export const lost = new Counter("lost");
/** Was called durable, and is not there any more. */
export const broken = new Counter("broken");
/** Committed, and without a verdict when the patience was over. */
export const unsettled = new Counter("unsettled");
/** Attempts that conflicted and were run again. */
export const conflicts = new Counter("conflicts");
/** Attempts that were refused for the time being, and said when to come again. */
export const refused = new Counter("refused");
/** Attempts without an answer: sent again under the same id. */
export const unanswered = new Counter("unanswered");
/** Of all transactions: those that came to no good end. */
export const failed = new Rate("failed");
