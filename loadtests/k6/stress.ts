// To the knee: one step after the other, each with a higher rate, and figures for each. The knee is
// the last step that keeps the limits; up to KNEE_MIN it must not have come. Promises hold at every
// step.
import { runOne } from "./lib/mix.ts";
import { GRACEFUL_STOP, LIMITS, number } from "./lib/settings.ts";
import { STATISTICS, summarize } from "./lib/summary.ts";
import { healthy, merged, observed, promises } from "./lib/thresholds.ts";

const RATES = (__ENV["RATES"] ?? "100,200,400,800,1200,1600,2000").split(",").map(Number);
const STEP_S = number("STEP_S", 20);
const KNEE_MIN = number("KNEE_MIN", 200);
/** Between two steps, so that what is left of one does not weigh on the next. */
const PAUSE_S = 5;
const nameOf = (rate: number): string => `${String(rate)}_per_s`;

export const options = {
  scenarios: Object.fromEntries(
    RATES.map((rate, at) => [
      nameOf(rate),
      {
        executor: "constant-arrival-rate",
        rate,
        timeUnit: "1s",
        duration: `${String(STEP_S)}s`,
        startTime: `${String(at * (STEP_S + PAUSE_S))}s`,
        preAllocatedVUs: Math.ceil(rate / 4),
        maxVUs: Math.max(50, rate),
        gracefulStop: GRACEFUL_STOP,
      },
    ]),
  ),
  thresholds: {
    ...merged(RATES.map((rate) => observed(nameOf(rate)))),
    ...merged(RATES.filter((rate) => rate <= KNEE_MIN).map((rate) => healthy(nameOf(rate)))),
    ...promises(),
    // Above the knee much is refused or late; what was accepted must still come to an end.
    failed: [`rate<=${String(Math.max(LIMITS.errorRateMax, 0.01))}`],
  },
  summaryTrendStats: STATISTICS,
};

export const handleSummary = summarize(options.scenarios);
export default runOne;
