// How a command ends when it cannot do what was asked.

/** Ends a command: its lines go to standard error. */
export class Refusal extends Error {
  readonly lines: readonly string[];
  readonly exitCode: number;

  constructor(lines: readonly string[], exitCode: number) {
    super(lines.join("\n"));
    this.lines = lines;
    this.exitCode = exitCode;
  }
}

export const EXIT_REFUSED = 1;
export const EXIT_BAD_INPUT = 2;

/** What the command was given is wrong. */
export function badInput(...lines: readonly string[]): Refusal {
  return new Refusal(lines, EXIT_BAD_INPUT);
}
