// An experiment: a name, and how it runs on a system that has just been started.
import type { Bench, Measurement, Sample } from "./bench.ts";
import type { Result } from "./figures.ts";

export type Mode = "quick" | "full";

export interface Context {
  readonly bench: Bench;
  readonly mode: Mode;
  readonly say: (what: string) => void;
}

export interface Experiment {
  readonly name: string;
  /** More environment for the gateway. Default: none. */
  readonly gatewayEnv?: Readonly<Record<string, string>>;
  run(context: Context): Promise<Result>;
}

/** Round trips of the links: a zone, a near region, a far one. */
export const LINKS_MS = [1, 16, 62] as const;
export const NEAR_MS = 16;
const COMPILING_MS = 6_000;

/** The size for the mode. */
export function sized<T>(mode: Mode, { quick, full }: { readonly quick: T; readonly full: T }): T {
  return mode === "quick" ? quick : full;
}

/**
 * One measurement after the other, all of them in every round, so that a disturbance of the machine
 * affects all sides. The even rounds go backwards: a measurement after a heavy neighbour has it
 * only half of the times.
 */
export async function measureInRounds(
  { bench, say }: Context,
  rounds: number,
  measurements: readonly Omit<Measurement, "round">[],
  /** Behind each of them. */
  check: () => Promise<void> = () => Promise.resolve(),
): Promise<Sample[]> {
  const [first] = measurements;
  // This one does not count: until its code is compiled, a service takes three times as long.
  if (first !== undefined) await bench.measure({ ...first, round: 0, warmUpMs: 0, durationMs: COMPILING_MS });
  await check();
  const samples: Sample[] = [];
  for (let round = 1; round <= rounds; round++) {
    const order = round % 2 === 1 ? measurements : [...measurements].reverse();
    for (const [at, measurement] of order.entries()) {
      const names = measurement.groups.map(({ name }) => name).join(" and ");
      const labels = Object.entries(measurement.labels).map(([name, value]) => `${name} ${String(value)}`);
      say(
        `round ${String(round)}, ${String(at + 1)} of ${String(order.length)}: ${names}, ${labels.join(", ")}`,
      );
      samples.push(...(await bench.measure({ ...measurement, round })));
      await check();
    }
  }
  return samples;
}
