// Runs third-party programs for tests and development. Each ends with the process that started it,
// however that ended.
import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
import { basename } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export { unpackDebian } from "./debian.ts";
export { eventually } from "./eventually.ts";
export { TemporaryFolder } from "./folder.ts";
export { processesWith } from "./leftovers.ts";
export { readOptions } from "./options.ts";
export { type Ran, runTool } from "./tool.ts";

const POLL_MS = 20;
/**
 * The shell ends with the program and with its parent, whose end closes the pipe that `read` waits
 * on. (Background programs of a shell have no standard input, hence the copy.) Its exit code is the
 * program's.
 */
const GUARD =
  'exec 3<&0; "$@" & pid=$!; { read -r _ <&3; kill -9 $pid; } 2>/dev/null & wait $pid 2>/dev/null; code=$?; kill $! 2>/dev/null; exit $code';

export interface GuardedOptions {
  /** Standard output and standard error. Default: `ignore`. A pipe has to be read. */
  readonly stdout?: "pipe" | "inherit" | "ignore";
  readonly stderr?: "pipe" | "inherit" | "ignore";
  /**
   * True: a process group of its own, so that Ctrl-C in the terminal reaches it only through its
   * parent. Default: false.
   */
  readonly detached?: boolean;
}

/** The exit code of a program that a signal has ended: 130 for SIGINT, 143 for SIGTERM. */
export function exitCodeOf(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal];
}

/**
 * Starts it without waiting. Standard input belongs to the guard: `endGuarded` ends the program.
 */
export function spawnGuarded(
  [program, ...args]: readonly [program: string, ...args: string[]],
  { stdout = "ignore", stderr = "ignore", detached = false }: GuardedOptions = {},
): ChildProcess {
  const child = spawn("/bin/sh", ["-c", GUARD, basename(program), program, ...args], {
    stdio: ["pipe", stdout, stderr],
    detached,
  });
  // The guard may have ended before it gets the signal.
  child.stdin?.on("error", () => undefined);
  return child;
}

export function isRunning({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode === null && signalCode === null;
}

/** Kills it; resolves when it has ended. */
export async function endGuarded(child: ChildProcess): Promise<void> {
  if (!isRunning(child)) return;
  child.ref();
  const gone = new Promise((resolve) => child.once("exit", resolve));
  child.stdin?.end("end\n");
  await gone;
}

/**
 * Waits until `look` returns true. The error says whether the process or the time ended; the caller
 * adds what it waited for.
 */
export async function untilTrue(
  child: ChildProcess,
  look: () => Promise<boolean>,
  { limitMs, pollMs = POLL_MS }: { readonly limitMs: number; readonly pollMs?: number },
): Promise<void> {
  const deadline = performance.now() + limitMs;
  while (!(await look())) {
    if (!isRunning(child)) throw new Error("the process has ended");
    if (performance.now() > deadline) throw new Error("the wait took too long");
    await sleep(pollMs);
  }
}
export { applyPatch, patchSource, type SourcePatch } from "./patch.ts";
