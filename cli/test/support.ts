// Runs commands of this package in the test's own process.
import { Refusal } from "../src/refusal.ts";
import { runOwn, taskOf } from "../src/program.ts";

export interface Ended {
  readonly code: number;
  /** Standard output. */
  readonly out: string;
  /** Standard error. */
  readonly err: string;
}

interface Surroundings {
  readonly env?: Readonly<Record<string, string>>;
  /** Answers of a person, in their order. Default: no person is there. */
  readonly answers?: readonly string[];
  /** Called with each line of standard output. */
  readonly onPrint?: (text: string) => void;
  /** Its abort is Ctrl-C. */
  readonly signal?: AbortSignal;
}

export async function highwater(
  args: readonly string[],
  { env = {}, answers, onPrint, signal = new AbortController().signal }: Surroundings = {},
): Promise<Ended> {
  const out: string[] = [];
  const err: string[] = [];
  const left = [...(answers ?? [])];
  const ask = (question: string): Promise<string> => {
    err.push(question);
    return Promise.resolve(left.shift() ?? "");
  };
  const ended = (code: number): Ended => ({ code, out: out.join("\n"), err: err.join("\n") });
  try {
    const task = taskOf(args);
    if (task.kind === "program") throw new Error(`${args.join(" ")} is another program`);
    if (task.kind === "print") return { code: 0, out: task.text, err: "" };
    const code = await runOwn(task, {
      env,
      print: (text) => {
        out.push(text);
        onPrint?.(text);
      },
      note: (text) => err.push(text),
      ask: answers === undefined ? null : ask,
      catchInterrupt: () => signal,
    });
    return ended(code);
  } catch (cause) {
    if (!(cause instanceof Refusal)) throw cause;
    err.push(...cause.lines);
    return ended(cause.exitCode);
  }
}
