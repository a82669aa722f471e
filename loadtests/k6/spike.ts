// Ten times as much for ten seconds. In the spike transactions may be late or refused; none may be
// forgotten, and afterwards the service must be what it was before.
import { runOne } from "./lib/mix.ts";
import { GRACEFUL_STOP, number } from "./lib/settings.ts";
import { STATISTICS, summarize } from "./lib/summary.ts";
import { healthy, observed, promises } from "./lib/thresholds.ts";

const RATE = number("RATE", 80);
const FACTOR = number("FACTOR", 10);
const CALM_S = number("CALM_S", 20);
const SPIKE_S = number("SPIKE_S", 10);
/** What the spike has left over may take a moment. */
const RECOVERY_S = 5;
const scenario = (rate: number, durationS: number, startS: number) => ({
  executor: "constant-arrival-rate",
  rate,
  timeUnit: "1s",
  duration: `${String(durationS)}s`,
  startTime: `${String(startS)}s`,
  preAllocatedVUs: rate,
  maxVUs: 2 * rate,
  gracefulStop: GRACEFUL_STOP,
});

export const options = {
  scenarios: {
    before: scenario(RATE, CALM_S, 0),
    spike: scenario(FACTOR * RATE, SPIKE_S, CALM_S),
    after: scenario(RATE, CALM_S, CALM_S + SPIKE_S + RECOVERY_S),
  },
  thresholds: {
    ...observed("before"),
    ...observed("spike"),
    ...observed("after"),
    ...healthy("before"),
    ...healthy("after"),
    ...promises(),
  },
  summaryTrendStats: STATISTICS,
};

export const handleSummary = summarize(options.scenarios);
export default runOne;
