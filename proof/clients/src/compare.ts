// Compares what a client saw on PostgreSQL directly with what it saw through the wire. A difference
// is a defect, or it is listed with its reason.

/** What a client saw, by the name of the case. */
export type Transcript = ReadonlyMap<string, unknown>;

export interface Reason {
  readonly suite: string;
  readonly case: string;
  /** Why the contract wants it so. */
  readonly reason: string;
}

export interface Comparison {
  readonly cases: number;
  /** One line each, with both results. */
  readonly differences: readonly string[];
  /** Differences that have a reason. */
  readonly explained: readonly Reason[];
}

/**
 * Errors: a case that only one of the two has counts as a difference, and so does a reason without
 * its difference: the list would otherwise hide a later one.
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

/** Reads what programs print: a line of JSON with `case` and `result` for each case. */
export function readTranscript(output: string): Transcript {
  const lines = output.split("\n").filter((line) => line.startsWith('{"case"'));
  return new Map(
    lines.map((line) => {
      const { case: name, result } = JSON.parse(line) as { case: string; result: unknown };
      return [name, result];
    }),
  );
}
