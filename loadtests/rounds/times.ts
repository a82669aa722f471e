// How often and how long a benchmark measures, from the options of its program.

export interface Times {
  /** Of a row's first turn, in seconds: until then the compiler has not seen all of its code. */
  readonly firstWarmUpS: number;
  /** Of its other turns. */
  readonly warmUpS: number;
  readonly windowS: number;
}

export interface RoundTimes extends Times {
  readonly rounds: number;
}

/** The options that `readTimes` knows, for `readOptions`. */
export const TIME_OPTIONS = {
  quick: { type: "boolean", default: false },
  rounds: { type: "string" },
  seconds: { type: "string" },
} as const;

/** A quick run shows in seconds that everything works; it judges nothing. */
export function readTimes(
  { quick, rounds, seconds }: { quick: boolean; rounds?: string | undefined; seconds?: string | undefined },
  full: RoundTimes,
): RoundTimes {
  const usual = quick ? { rounds: 1, firstWarmUpS: 0.2, warmUpS: 0.2, windowS: 1 } : full;
  const times = {
    ...usual,
    rounds: Number(rounds ?? usual.rounds),
    windowS: Number(seconds ?? usual.windowS),
  };
  if (!(times.rounds >= 1 && times.rounds <= 50 && times.windowS >= 0.1 && times.windowS <= 60))
    throw new Error("--rounds is from 1 to 50, and --seconds from 0.1 to 60");
  return times;
}
