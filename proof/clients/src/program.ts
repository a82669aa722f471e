// Runs a client program in another language and reads its results.
import { spawn } from "node:child_process";
import { readTranscript, type Transcript } from "./compare.ts";

/** Long, because a busy machine is slow. A program that takes longer hangs. */
const LIMIT_MS = 600_000;

export interface Ended {
  readonly code: number | null;
  readonly output: string;
  readonly errors: string;
}

export interface ProgramOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly input?: string;
  readonly limitMs?: number;
}

export function runProgram(
  [program, ...args]: readonly [program: string, ...args: string[]],
  { env = {}, cwd, input = "", limitMs = LIMIT_MS }: ProgramOptions = {},
): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      ...(cwd !== undefined && { cwd }),
      env: { ...process.env, ...env },
      timeout: limitMs,
      killSignal: "SIGKILL",
    });
    let [output, errors] = ["", ""];
    child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
    child.once("error", reject);
    child.once("close", (code) => {
      resolve({ code, output, errors });
    });
    // The program may end before it has read all input.
    child.stdin.on("error", () => undefined);
    child.stdin.end(input);
  });
}

/** Runs a program that takes the address as DATABASE_URL and prints its transcript. */
export async function transcriptOf(
  command: readonly [program: string, ...args: string[]],
  url: string,
  options: ProgramOptions = {},
): Promise<Transcript> {
  const { code, output, errors } = await runProgram(command, {
    ...options,
    env: { ...options.env, DATABASE_URL: url },
  });
  if (code !== 0) throw new Error(`${command.join(" ")} ended with ${String(code)}:\n${output}${errors}`);
  const transcript = readTranscript(output);
  if (transcript.size === 0) throw new Error(`${command.join(" ")} printed no cases:\n${output}${errors}`);
  return transcript;
}
