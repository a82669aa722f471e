// Does everything work, and is it about as fast as it should be? A few transactions a second, for a
// few seconds. For every change.
import { runOne } from "./lib/mix.ts";
import { GRACEFUL_STOP, number } from "./lib/settings.ts";
import { STATISTICS, summarize } from "./lib/summary.ts";
import { healthy } from "./lib/thresholds.ts";

export const options = {
  scenarios: {
    smoke: {
      executor: "constant-arrival-rate",
      rate: number("RATE", 25),
      timeUnit: "1s",
      duration: `${String(number("DURATION_S", 15))}s`,
      preAllocatedVUs: 40,
      maxVUs: 80,
      gracefulStop: GRACEFUL_STOP,
    },
  },
  thresholds: healthy(),
  summaryTrendStats: STATISTICS,
};

export const handleSummary = summarize(options.scenarios);
export default runOne;
