// Measures subjects in turns: every round has a turn of each, and even rounds go backwards, so that
// what disturbs the machine, and a heavy neighbour, affects all alike. A turn on a disturbed
// machine is refused and taken again. Nothing is dropped: refused turns stay in the result.
import { isDisturbed, type Machine } from "./machine.ts";

/** After so many refusals the next turn counts, and is marked as disturbed. */
export const REFUSALS_MAX = 3;

/** What was measured, by name. */
export type Figures = Readonly<Record<string, number>>;

export interface Subject {
  /** What is done; rows of one workload are compared with each other. */
  readonly workload: string;
  /** Which way it is done. */
  readonly row: string;
  measure(): Promise<{ readonly figures: Figures; readonly machine: Machine }>;
}

export interface Turn {
  readonly workload: string;
  readonly row: string;
  readonly round: number;
  /** Refused turns count nowhere. */
  readonly refused: boolean;
  readonly disturbed: boolean;
  readonly figures: Figures;
  readonly machine: Machine;
}

export async function takeTurns(
  subjects: readonly Subject[],
  {
    rounds,
    refusalsMax = REFUSALS_MAX,
    mayTakeAgain = () => true,
    say,
  }: {
    readonly rounds: number;
    readonly refusalsMax?: number;
    /** Whether there is time for a disturbed turn that has taken so long. Default: always. */
    readonly mayTakeAgain?: (tookMs: number) => boolean;
    readonly say: (what: string) => void;
  },
): Promise<Turn[]> {
  const turns: Turn[] = [];
  for (let round = 1; round <= rounds; round++) {
    const order = round % 2 === 1 ? subjects : subjects.toReversed();
    for (const [at, subject] of order.entries())
      for (let refusals = 0; ; refusals++) {
        const { workload, row } = subject;
        const beganMs = performance.now();
        const { figures, machine } = await subject.measure();
        const disturbed = isDisturbed(machine);
        const refused = disturbed && refusals < refusalsMax && mayTakeAgain(performance.now() - beganMs);
        turns.push({ workload, row, round, refused, disturbed, figures, machine });
        const verdict = refused ? "refused" : disturbed ? "disturbed" : "kept";
        say(
          `round ${String(round)}, ${String(at + 1)} of ${String(order.length)}: ${workload}, ${row}: ${shown(figures)}; foreign ${machine.foreign_cores.toFixed(2)} cores, steal ${machine.steal.toFixed(3)}: ${verdict}`,
        );
        if (!refused) break;
      }
  }
  return turns;
}

/** Those of parts, whose names have blanks, would fill the terminal. */
function shown(figures: Figures): string {
  return Object.entries(figures)
    .filter(([name]) => !name.includes(" "))
    .map(([name, value]) => `${name} ${Number(value.toPrecision(4)).toString()}`)
    .join(", ");
}
