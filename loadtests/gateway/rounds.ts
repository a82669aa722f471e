// Runs the measurements of a benchmark in rounds: each round has every subject with every number of
// clients, and starts with another one. So a disturbance of the machine, and the order of the
// subjects, affect all alike.
import type { Bench, Subject } from "./bench.ts";
import type { ClientCount, Sample } from "./results.ts";

export interface Rounds {
  readonly rounds: number;
  /** Of a segment. */
  readonly durationMs: number;
}

/** From `--rounds` and `--seconds`. */
export function readRounds(values: { readonly rounds: string; readonly seconds: string }): Rounds {
  const rounds = Number(values.rounds);
  const durationMs = 1_000 * Number(values.seconds);
  if (!(rounds >= 1 && rounds <= 50 && durationMs >= 100 && durationMs <= 60_000))
    throw new Error("--rounds is from 1 to 50, and --seconds from 0.1 to 60");
  return { rounds, durationMs };
}

/** Runs before the compiler has seen all of the code do not count. */
export async function measureInRounds(
  bench: Bench,
  subjects: readonly Subject[],
  {
    clientCounts,
    rounds,
    durationMs,
    warmUpMs,
  }: Rounds & { readonly clientCounts: readonly ClientCount[]; readonly warmUpMs: number },
): Promise<Sample[]> {
  for (const subject of subjects)
    for (const clients of clientCounts) await bench.run(subject, { round: 0, clients, durationMs: warmUpMs });
  const samples: Sample[] = [];
  for (let round = 1; round <= rounds; round++)
    for (const clients of clientCounts)
      for (const at of subjects.keys()) {
        const subject = subjects[(at + round) % subjects.length];
        if (subject !== undefined) samples.push(await bench.run(subject, { round, clients, durationMs }));
      }
  return samples;
}
