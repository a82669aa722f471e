// Compares a client's results on PostgreSQL directly with those through the wire. Each difference
// is a defect, or it is listed with a reason.

/** A client's results, by the name of the case. */
export type Transcript = ReadonlyMap<string, unknown>;

export interface Reason {
  readonly suite: string;
  readonly case: string;
  /** Why the contract requires the difference. */
  readonly reason: string;
}

export interface Comparison {
  readonly cases: number;
  /** One line each, with both results. */
  readonly differences: readonly string[];
  /** Differences with a reason. */
  readonly explained: readonly Reason[];
}

/**
 * A case that only one target has is a difference. So is a reason without its difference, which
 * could hide a later one.
 */
export function compare(
  suite: string,
  { direct, wire }: { readonly direct: Transcript; readonly wire: Transcript },
  reasons: readonly Reason[],
): Comparison {
  const names = [...new Set([...direct.keys(), ...wire.keys()])];
  const own = reasons.filter((reason) => reason.suite === suite);
  const shown = (transcript: Transcript, name: string): string =>
    transcript.has(name) ? JSON.stringify(transcript.get(name)) : "(no such case)";
  const unequal = names.filter((name) => shown(direct, name) !== shown(wire, name));
  const explained = own.filter((reason) => unequal.includes(reason.case));
  const stale = own.filter((reason) => !unequal.includes(reason.case));
  const isExplained = (name: string): boolean => explained.some((reason) => reason.case === name);
  return {
    cases: names.length,
    differences: [
      ...unequal
        .filter((name) => !isExplained(name))
        .map((name) => `${suite}, ${name}\n  direct: ${shown(direct, name)}\n  wire:   ${shown(wire, name)}`),
      ...stale.map(({ case: name }) => `${suite}, ${name}: there is a reason and no difference`),
    ],
    explained,
  };
}

/** Reads a program's output: a line of JSON with `case` and `result` for each case. */
export function readTranscript(output: string): Transcript {
  const lines = output.split("\n").filter((line) => line.startsWith('{"case"'));
  return new Map(
    lines.map((line) => {
      const { case: name, result } = JSON.parse(line) as { case: string; result: unknown };
      return [name, result];
    }),
  );
}
