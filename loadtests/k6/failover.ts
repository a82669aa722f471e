// The primary's region is lost in the middle of the run (the driver does that, at FAULT_S).
// Transactions may be lost, and each loss must be reported. Nothing may be broken or stay without a
// verdict, and at the end the service must be as fast as before, from further away.
import { runOne } from "./lib/mix.ts";
import { GRACEFUL_STOP, LIMITS, number } from "./lib/settings.ts";
import { STATISTICS, summarize } from "./lib/summary.ts";
import { observed, p95Within, promises } from "./lib/thresholds.ts";

const RATE = number("RATE", 60);
const FAULT_S = number("FAULT_S", 15);
/** From the fault until transactions commit again, as generously as an operator would count it. */
const OUTAGE_S = number("OUTAGE_S", 15);
const AFTER_S = number("AFTER_S", 15);
const scenario = (durationS: number, startS: number) => ({
  executor: "constant-arrival-rate",
  rate: RATE,
  timeUnit: "1s",
  duration: `${String(durationS)}s`,
  startTime: `${String(startS)}s`,
  preAllocatedVUs: 4 * RATE,
  maxVUs: 20 * RATE,
  gracefulStop: GRACEFUL_STOP,
});

export const options = {
  scenarios: {
    before: scenario(FAULT_S, 0),
    outage: scenario(OUTAGE_S, FAULT_S),
    after: scenario(AFTER_S, FAULT_S + OUTAGE_S),
  },
  thresholds: {
    ...observed("before"),
    ...observed("outage"),
    ...observed("after"),
    ...promises(),
    lost: ["count>=0"],
    "commit_latency{scenario:before}": p95Within(LIMITS.commitP95Ms),
    // The new primary may be in another region than the one that clients ask first.
    "commit_latency{scenario:after}": p95Within(LIMITS.durableP95Ms),
    dropped_iterations: ["count==0"],
  },
  summaryTrendStats: STATISTICS,
};

export const handleSummary = summarize(options.scenarios);
export default runOne;
