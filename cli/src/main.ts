#!/usr/bin/env node
// The command `highwater`: arguments, environment, standard streams and exit codes; nothing else.
import { createInterface } from "node:readline/promises";
import { Refusal } from "./refusal.ts";
import { runOwn, taskOf } from "./program.ts";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

const print = (text: string): void => void process.stdout.write(`${text}\n`);
const note = (text: string): void => void process.stderr.write(`${text}\n`);

async function ask(question: string): Promise<string> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  // On a terminal, readline receives Ctrl-C as a key.
  terminal.once("SIGINT", () => process.kill(process.pid, "SIGINT"));
  try {
    return await terminal.question(question);
  } finally {
    terminal.close();
  }
}

function catchInterrupt(): AbortSignal {
  const ending = new AbortController();
  for (const name of SIGNALS)
    process.once(name, () => {
      ending.abort();
    });
  return ending.signal;
}

/** Other programs take this process over: its id, streams, signals and exit code are theirs. */
function become(args: readonly string[]): never {
  const env = Object.entries(process.env).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value] as const],
  );
  process.execve?.(process.execPath, [process.execPath, ...args], Object.fromEntries(env));
  throw new Error(`Node cannot start other programs on ${process.platform}`);
}

async function main(): Promise<number> {
  const task = taskOf(process.argv.slice(2));
  if (task.kind === "program") become(task.arguments);
  if (task.kind === "print") {
    print(task.text);
    return 0;
  }
  const isPerson = process.stdin.isTTY && process.stderr.isTTY;
  return runOwn(task, { env: process.env, print, note, ask: isPerson ? ask : null, catchInterrupt });
}

try {
  process.exitCode = await main();
} catch (cause) {
  if (!(cause instanceof Refusal)) throw cause;
  for (const line of cause.lines) note(`highwater: ${line}`);
  process.exitCode = cause.exitCode;
}
