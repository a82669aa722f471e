// A fuzz target: code that takes bytes from outside, valid examples of them, and rules that must
// hold for every input.

import { type Random } from "./random.ts";

/** The addresses of the real services, which network targets share. */
export interface Services {
  readonly gateway: string;
  readonly tracker: string;
  /** The primary itself: the URLs of the scripts' role and of a superuser. */
  readonly postgres: string;
  readonly postgresAdmin: string;
  /** The gateway's PostgreSQL wire, with the scripts' role. */
  readonly wire: string;
}

interface Surroundings {
  /** Null for a target that needs none. */
  readonly services: Services | null;
  /** The target's own folder. */
  readonly folder: string;
}

export interface Fuzzed {
  /** Rejects or throws when a rule is violated. Takes its random choices from the input. */
  readonly run: (input: Buffer) => void | Promise<void>;
  /** Checks at the end that everything still works. */
  readonly after?: () => Promise<void>;
  readonly close?: () => Promise<void>;
}

export interface Target {
  readonly name: string;
  readonly about: string;
  /** Valid inputs, which the loop changes into others. */
  readonly seeds: readonly (string | Uint8Array)[];
  /** Texts that mean something to the parser. */
  readonly words?: readonly (string | Uint8Array)[];
  /** Makes inputs that no change of the examples would reach. */
  readonly make?: (random: Random) => Buffer;
  /** It needs a gateway and a tracker. */
  readonly needsServices?: true;
  /** The number of runs in the short test of every change. */
  readonly sliceRuns: number;
  /** The limit for one input. Generous, because the machine has other work. */
  readonly limitMs?: number;
  readonly maxBytes?: number;
  readonly open: (surroundings: Surroundings) => Fuzzed | Promise<Fuzzed>;
}

/** A target that needs no services and no folder. */
export function pure(target: Omit<Target, "open"> & { readonly run: Fuzzed["run"] }): Target {
  const { run, ...rest } = target;
  return { ...rest, open: () => ({ run }) };
}
