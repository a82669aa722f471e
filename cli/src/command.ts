// What a command is: the types of the table in commands.ts.
import { type Given, type Option } from "./given.ts";

/** What a command gets from the process that runs it. */
export interface Call {
  readonly given: Given;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The answer, on standard output. */
  readonly print: (text: string) => void;
  /** What else there is to know, on standard error. */
  readonly note: (text: string) => void;
  /** Asks a person; null where no person is there. */
  readonly ask: ((question: string) => Promise<string>) | null;
  /** From this call on, Ctrl-C aborts the signal in place of ending the process. */
  readonly catchInterrupt: () => AbortSignal;
  /** The table, for what is made from it. */
  readonly commands: readonly Command[];
}

/** A command of this package. `run` resolves to the exit code. */
interface Own {
  readonly kind: "own";
  readonly options: readonly Option[];
  readonly load: () => Promise<{ readonly run: (call: Call) => Promise<number> }>;
}

/** Another program of this repository, which reads its arguments and its environment itself. */
interface Program {
  readonly kind: "program";
  /**
   * Its address, which the module that names it resolves. Errors: it is not installed.
   */
  readonly file: () => string;
  /** Names of its options, which its own help explains. Null: it has neither options nor help. */
  readonly options: string | null;
  /** Node's own options. */
  readonly flags?: readonly string[];
  /** Arguments that stand before those of the caller. */
  readonly before?: readonly string[];
}

export interface Command {
  /** Its words. */
  readonly name: string;
  readonly does: string;
  /** Its arguments, for the line of its usage. */
  readonly args?: string;
  /** More to know, in paragraphs. */
  readonly notes?: readonly string[];
  /** The page of the documentation, from the folder docs. */
  readonly page?: string;
  readonly exits: Readonly<Record<number, string>>;
  readonly run: Own | Program;
}

/** All of a command's options by name, without `help`. */
export function optionsOf({ run }: Command): readonly Option[] {
  if (run.kind === "own") return run.options;
  const names = (run.options ?? "").split(" ").filter((name) => name !== "");
  return names.map((name) => ({ name, does: "" }));
}
