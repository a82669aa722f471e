// Runs a command line tool to its end, such as those of the tests' Python environment.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";

export interface Ran {
  readonly code: number | null;
  readonly output: string;
}

/** The tool may write into `cwd`. SCHEMATHESIS_OUTPUT in the environment shows its output. */
export async function runTool(
  command: string,
  args: readonly string[],
  { cwd, env = {} }: { readonly cwd: string; readonly env?: Readonly<Record<string, string>> },
): Promise<Ran> {
  assert.ok(existsSync(command), `${command} is missing: run make setup`);
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  if (process.env["SCHEMATHESIS_OUTPUT"] !== undefined) process.stderr.write(output);
  return { code, output };
}
