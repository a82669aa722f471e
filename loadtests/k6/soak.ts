// For hours: the limits of a steady load, held all the time, first quarter and last quarter beside
// each other. (`make soak` looks into the processes while faults happen; this looks from outside,
// and at any deployment.)
import { runOne } from "./lib/mix.ts";
import { GRACEFUL_STOP, number } from "./lib/settings.ts";
import { STATISTICS, summarize } from "./lib/summary.ts";
import { healthy, merged, observed } from "./lib/thresholds.ts";

const DURATION_S = number("DURATION_S", 3_600);
const QUARTER_S = Math.ceil(DURATION_S / 4);
const RATE = number("RATE", 150);
const QUARTERS = ["first_quarter", "second_quarter", "third_quarter", "last_quarter"];

export const options = {
  scenarios: Object.fromEntries(
    QUARTERS.map((name, at) => [
      name,
      {
        executor: "constant-arrival-rate",
        rate: RATE,
        timeUnit: "1s",
        duration: `${String(QUARTER_S)}s`,
        startTime: `${String(at * QUARTER_S)}s`,
        preAllocatedVUs: RATE,
        maxVUs: 2 * RATE,
        gracefulStop: GRACEFUL_STOP,
      },
    ]),
  ),
  thresholds: {
    ...merged(QUARTERS.flatMap((name) => [observed(name), healthy(name)])),
    dropped_iterations: ["rate<1"],
  },
  summaryTrendStats: STATISTICS,
};

export const handleSummary = summarize(options.scenarios);
export default runOne;
