// A fuzz target: code that takes bytes from outside, valid examples of them, and what must hold for
// every input.

import { type Random } from "./random.ts";

/** The addresses of the real services that the targets of the network share. */
export interface Services {
  readonly gateway: string;
  readonly tracker: string;
  /** The primary itself, as the role of scripts and as a superuser. */
  readonly postgres: string;
  readonly postgresAdmin: string;
  /** The gateway's PostgreSQL wire, as the role of scripts. */
  readonly wire: string;
}

interface Surroundings {
  /** Null for a target that needs none. */
  readonly services: Services | null;
  /** A folder of the target's own. */
  readonly folder: string;
}

export interface Fuzzed {
  /** Rejects or throws when something does not hold. Takes its random choices from the input. */
  readonly run: (input: Buffer) => void | Promise<void>;
  /** Checks at the end that everything still works. */
  readonly after?: () => Promise<void>;
  readonly close?: () => Promise<void>;
}

export interface Target {
  readonly name: string;
  readonly about: string;
  /** Valid inputs from which the others are made. */
  readonly seeds: readonly (string | Uint8Array)[];
  /** Texts that have a meaning for the parser. */
  readonly words?: readonly (string | Uint8Array)[];
  /** Makes inputs that no change of the examples would come to. */
  readonly make?: (random: Random) => Buffer;
  /** It needs a gateway and a tracker. */
  readonly needsServices?: true;
  /** The number of runs in the short slice that tests every change. */
  readonly sliceRuns: number;
  /** The limit for one input. It is generous, because the machine has other work. */
  readonly limitMs?: number;
  readonly maxBytes?: number;
  readonly open: (surroundings: Surroundings) => Fuzzed | Promise<Fuzzed>;
}

/** A target that needs no services and no folder. */
export function pure(target: Omit<Target, "open"> & { readonly run: Fuzzed["run"] }): Target {
  const { run, ...rest } = target;
  return { ...rest, open: () => ({ run }) };
}
