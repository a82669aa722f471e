// Runs stages one after another and records each that has ended in docs/verification.json with its
// commit, so that another machine can go on once that file is committed. A result counts until a
// commit changes something that the stage runs. Logs of every attempt are in
// `.tools/verify/COMMIT`. An interrupted stage leaves no record, and a failed one runs again next
// time.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { jsonLines } from "@highwater/lab-tools/json";
import { eventually, isRunning, processesWith } from "@highwater/lab-tools/process";
import { type Outcome, outcomeOf, type Stage } from "./stages.ts";

export const PAGE = "docs/verification.md";
export const VERSIONS_PAGE = "docs/reference/postgresql-versions.md";
export const RECORD = "docs/verification.json";
/** Written by a run, so changes of these do not count as changes of the tree. */
const WRITTEN = [PAGE, VERSIONS_PAGE, RECORD];
const GRACE_MS = 60_000;
const MINUTE_MS = 60_000;

export interface Done extends Outcome {
  readonly commit: string;
  readonly attempt: number;
  readonly startedAt: string;
  readonly seconds: number;
  /** Relative to the project's folder. */
  readonly log: string;
  readonly machine: string;
}

export type Recorded = Readonly<Record<string, Done>>;

export interface RunOptions {
  readonly machine: string;
  readonly say: (line: string) => void;
  /** Ends the stage that runs, and the run. */
  readonly signal: AbortSignal;
  readonly env?: NodeJS.ProcessEnv;
  /** How long a stage may take to end behind Ctrl-C before it is killed. */
  readonly graceMs?: number;
}

function git(root: string, ...args: readonly string[]): string {
  return execFileSync("git", args, { cwd: root, encoding: "utf8" }).trimEnd();
}

/** The newest commit that changed something that the stage runs. */
function commitOf(root: string, stage: Stage): string {
  const unread = ["*.md", RECORD, ...stage.unread].map((path) => `:!${path}`);
  return git(root, "log", "-1", "--format=%H", "--", ".", ...unread);
}

/** What is not committed, except what a run writes; empty if nothing is. */
function changesIn(root: string): string {
  return git(root, "status", "--porcelain", "--", ".", ...WRITTEN.map((path) => `:!${path}`));
}

/** The last result of each stage, at whichever commit. */
export function readRecord(root: string): Recorded {
  const file = join(root, RECORD);
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Recorded) : {};
}

/** Null also if the result is of what the stage ran at an earlier commit. */
export function readDone(root: string, stage: Stage): Done | null {
  const done = readRecord(root)[stage.name];
  return done?.commit === commitOf(root, stage) ? done : null;
}

/** Reads the record again first: another run may have added to it. */
function write(root: string, stage: Stage, done: Done): void {
  const recorded: Recorded = { ...readRecord(root), [stage.name]: done };
  writeFileSync(join(root, RECORD), jsonLines(recorded, 2));
}

/**
 * Answers whether each stage has been run, now or before, and has not failed. `root`: the project's
 * folder. Errors: the tree has changes that are not committed.
 */
export async function runStages(
  root: string,
  stages: readonly Stage[],
  options: RunOptions,
): Promise<boolean> {
  const { say, signal } = options;
  const before = changesIn(root);
  if (before !== "")
    throw new Error(
      `the working tree has changes, and a verification is of a commit; commit or stash them:\n${before}`,
    );
  mkdirSync(join(root, "docs"), { recursive: true });
  let areGood = true;
  for (const [at, stage] of stages.entries()) {
    const previous = readDone(root, stage);
    const title = `[${String(at + 1)}/${String(stages.length)}] ${stage.name}`;
    if (previous !== null && previous.result !== "failed") {
      say(`${title}: ${previous.result} before (to run it again, remove it from ${RECORD})`);
      continue;
    }
    const attempt = (previous?.attempt ?? 0) + 1;
    const commit = commitOf(root, stage);
    const folder = `.tools/verify/${commit.slice(0, 12)}`;
    mkdirSync(join(root, folder), { recursive: true });
    const log = `${folder}/${stage.name}.${String(attempt)}.log`;
    say(`${title}: ${stage.command} (at most ${String(stage.limitMinutes)} min; log: ${log})`);
    const startedAt = new Date().toISOString();
    const beganMs = performance.now();
    let outcome = await runStage(root, stage, { ...options, folder, log });
    if (outcome === null) {
      say(`${title}: interrupted`);
      return false;
    }
    const now = commitOf(root, stage);
    const changes = changesIn(root) + (now === commit ? "" : `the commit is ${now}`);
    if (changes !== "")
      outcome = { ...outcome, result: "failed", reason: `the tree was changed while it ran:\n${changes}` };
    const seconds = Math.round((performance.now() - beganMs) / 1_000);
    const done: Done = { ...outcome, commit, attempt, startedAt, seconds, log, machine: options.machine };
    write(root, stage, done);
    say(`${title}: ${done.result}${done.reason === null ? "" : `: ${done.reason}`} (${String(seconds)} s)`);
    areGood &&= done.result !== "failed";
    if (changes !== "") {
      say("the rest is not run: it would not be of the commit");
      return false;
    }
  }
  return areGood && !signal.aborted;
}

/** Null if it was interrupted. */
async function runStage(
  root: string,
  stage: Stage,
  {
    folder,
    log,
    signal,
    env = process.env,
    graceMs = GRACE_MS,
  }: RunOptions & { readonly folder: string; readonly log: string },
): Promise<Outcome | null> {
  const [program = "", ...args] = stage.command.split(" ");
  const run = randomUUID();
  const file = openSync(join(root, log), "w");
  const child = spawn(program, args, {
    cwd: root,
    stdio: ["ignore", file, file],
    // Its own group: Ctrl-C in the terminal reaches it through this process alone.
    detached: true,
    env: { ...env, HIGHWATER_VERIFY: run, HIGHWATER_RESULTS: join(root, folder, stage.name) },
  });
  closeSync(file);
  const ended = once(child, "exit") as Promise<[number | null]>;
  const over = new AbortController();
  const end = await Promise.race([
    ended,
    sleep(stage.limitMinutes * MINUTE_MS, null, { signal: over.signal }),
    signal.aborted ? null : once(signal, "abort", { signal: over.signal }).then(() => null),
  ]);
  over.abort();
  if (end === null) {
    await endStage(child, `HIGHWATER_VERIFY=${run}`, graceMs);
    await ended;
    if (signal.aborted) return null;
  }
  const outcome = outcomeOf(stage, end?.[0] ?? null, readFileSync(join(root, log), "utf8"));
  if (end !== null) return outcome;
  return { ...outcome, result: "failed", reason: `ended after ${String(stage.limitMinutes)} min, its limit` };
}

/**
 * As Ctrl-C in a terminal would. A process that is there after the grace is killed, in whichever
 * group it has put itself.
 */
async function endStage(child: ChildProcess, mark: string, graceMs: number): Promise<void> {
  const group = -(child.pid ?? Number.NaN);
  kill(group, "SIGINT");
  const isGone = (): boolean => !isRunning(child) && processesWith(mark).length === 0;
  await eventually("the stage ends", isGone, graceMs).catch(() => undefined);
  kill(group, "SIGKILL");
  for (const line of processesWith(mark)) kill(Number.parseInt(line, 10), "SIGKILL");
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "ESRCH") throw cause;
  }
}
