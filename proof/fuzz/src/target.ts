// What can be fuzzed: something that takes bytes from outside, valid examples of them, and what must hold whatever comes.

/** The addresses of the real services that the targets of the network share. */
export interface Services {
  readonly gateway: string;
  readonly tracker: string;
}

interface Surroundings {
  /** Null for a target that needs none. */
  readonly services: Services | null;
  /** A folder of the target's own. */
  readonly folder: string;
}

export interface Fuzzed {
  /** Rejects or throws when something does not hold. Whatever chance it needs it takes from the input. */
  readonly run: (input: Buffer) => void | Promise<void>;
  /** Looks, at the end, whether all is still well. */
  readonly after?: () => Promise<void>;
  readonly close?: () => Promise<void>;
}

export interface Target {
  readonly name: string;
  readonly about: string;
  /** Valid inputs, from which the others are made. */
  readonly seeds: readonly (string | Uint8Array)[];
  /** Texts that mean something to the parser. */
  readonly words?: readonly (string | Uint8Array)[];
  /** It needs a gateway and a tracker. */
  readonly needsServices?: true;
  /** Runs in the short slice that every change is tested with. */
  readonly sliceRuns: number;
  /** One input is answered within so long. Generous: the machine has other work. */
  readonly limitMs?: number;
  readonly maxBytes?: number;
  readonly open: (surroundings: Surroundings) => Fuzzed | Promise<Fuzzed>;
}

/** A target without any surroundings. */
export function pure(target: Omit<Target, "open"> & { readonly run: Fuzzed["run"] }): Target {
  const { run, ...rest } = target;
  return { ...rest, open: () => ({ run }) };
}
