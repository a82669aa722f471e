// A load that the service carries all day: transactions arrive at a fixed rate, however long the
// ones before take.
import { runOne } from "./lib/mix.ts";
import { GRACEFUL_STOP, number } from "./lib/settings.ts";
import { STATISTICS, summarize } from "./lib/summary.ts";
import { healthy } from "./lib/thresholds.ts";

export const options = {
  scenarios: {
    steady: {
      executor: "constant-arrival-rate",
      rate: number("RATE", 300),
      timeUnit: "1s",
      duration: `${String(number("DURATION_S", 120))}s`,
      preAllocatedVUs: 200,
      maxVUs: 400,
      gracefulStop: GRACEFUL_STOP,
    },
  },
  // What was offered was also begun: an arrival rate that is not kept makes latencies look better
  // than they are.
  thresholds: { ...healthy(), dropped_iterations: ["rate<1"] },
  summaryTrendStats: STATISTICS,
};

export const handleSummary = summarize(options.scenarios);
export default runOne;
