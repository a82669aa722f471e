// One run of stock pgbench: what ended within a window behind its warm-up, from its own log of all
// transactions.
import { once } from "node:events";
import { globSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { requirePostgresProgram } from "@highwater/lab-tools/postgres";
import { endGuarded, spawnGuarded } from "@highwater/lab-tools/process";
import { cpuOfChildren } from "../rounds/cpu.ts";
import { quantile } from "../rounds/figures.ts";
import { type Machine, machineBetween, type ProcessorTimes, readMachine } from "../rounds/machine.ts";
import type { Figures } from "../rounds/turns.ts";

/** pgbench's threads; more would only take processors from the servers. */
const THREADS_MAX = 2;
/** From the window's end to the run's: pgbench counts whole seconds from its own start. */
const SLACK_S = 2;
/** So long behind its time pgbench may still wait for answers, or for its connections before. */
const STALLED_S = 60;
const OUTPUT_CHARS = 4_000;

export interface Job {
  readonly url: string;
  /** The file of a script, or the name of a built-in one behind an `@`. */
  readonly script: string;
  readonly clients: number;
  /** For the connection's start-up packet, as PGOPTIONS has them. */
  readonly options: string;
  /** 1: nothing is tried again. */
  readonly triesMax: number;
  readonly warmUpS: number;
  readonly windowS: number;
  /** For pgbench's log. */
  readonly folder: string;
  /** What the server does, for the error about a run that does not end. */
  readonly activity: () => Promise<string>;
}

export interface Ran {
  readonly figures: Figures;
  readonly machine: Machine;
  /** From start to end, also outside the window. */
  readonly committed: number;
}

/**
 * A line of the log: client, number, microseconds or `failed`, script, the second and microsecond
 * at which it ended, and how often it was tried again.
 */
interface Ended {
  /** Null: given up. */
  readonly latencyMs: number | null;
  readonly atMs: number;
  readonly retries: number;
}

/**
 * Errors: pgbench's last words, if it breaks off or a client of it does; or what the server does,
 * if it does not end.
 */
export async function runPgbench(job: Job, parts: ProcessorTimes): Promise<Ran> {
  const program = requirePostgresProgram("pgbench");
  const prefix = join(job.folder, "pgbench");
  const child = spawnGuarded(["env", `PGOPTIONS=${job.options}`, program, ...argumentsOf(job, prefix)], {
    stdout: "pipe",
    stderr: "pipe",
  });
  let output = "";
  const started = Promise.withResolvers<void>();
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding("utf8").on("data", (text: string) => {
      output += text;
      // The first comes a second after all connections were made.
      if (/^progress: /m.test(output)) started.resolve();
    });
  let stall = "";
  const limitS = secondsOf(job) + STALLED_S;
  const limit = setTimeout(() => {
    void job
      .activity()
      .catch(String)
      .then((activity) => {
        stall = `pgbench has not ended within ${String(limitS)} s: ${activity}\n`;
        return endGuarded(child);
      });
  }, 1_000 * limitS);
  const closed = once(child, "close").then(([code]) => {
    clearTimeout(limit);
    if (code !== 0) throw new Error(`${stall}pgbench broke off: ${output.slice(-OUTPUT_CHARS)}`);
  });
  await Promise.race([started.promise, closed]);
  const all = { ...parts, pgbench: () => cpuOfChildren(child.pid ?? 0) };
  await Promise.race([sleep(1_000 * job.warmUpS), closed]);
  const [from, before] = [wallMs(), readMachine(all)];
  await Promise.race([sleep(1_000 * job.windowS), closed]);
  const [to, after] = [wallMs(), readMachine(all)];
  await closed;
  const ended = globSync(`${prefix}.*`).flatMap((file) => {
    const lines = readFileSync(file, "latin1").trimEnd().split("\n");
    rmSync(file);
    return lines.filter((line) => line !== "").map(endedOf);
  });
  const within = ended.filter(({ atMs }) => atMs >= from && atMs < to);
  const machine = machineBetween(before, after);
  return {
    figures: figuresOf(within, machine.seconds),
    machine,
    committed: ended.filter(({ latencyMs }) => latencyMs !== null).length,
  };
}

function secondsOf({ warmUpS, windowS }: Job): number {
  return 1 + warmUpS + windowS + SLACK_S;
}

function argumentsOf(job: Job, prefix: string): string[] {
  return [
    ...["-n", "-M", "simple", "-P", "1", "-l", `--log-prefix=${prefix}`, "-T", String(secondsOf(job))],
    ...["-c", String(job.clients), "-j", String(Math.min(THREADS_MAX, job.clients))],
    ...(job.triesMax > 1 ? [`--max-tries=${String(job.triesMax)}`] : []),
    ...(job.script.startsWith("@") ? ["-b", job.script.slice(1)] : ["-f", job.script]),
    job.url,
  ];
}

export function endedOf(line: string): Ended {
  const [, , latency = "", , second, microsecond, retries = "0"] = line.split(" ");
  return {
    latencyMs: /^[0-9]+$/.test(latency) ? Number(latency) / 1_000 : null,
    atMs: 1_000 * Number(second) + Number(microsecond) / 1_000,
    retries: Number(retries),
  };
}

/** Latencies are of those that committed, with all that they were tried. */
export function figuresOf(ended: readonly Ended[], seconds: number): Figures {
  const latencies = ended.flatMap(({ latencyMs }) => (latencyMs === null ? [] : [latencyMs]));
  latencies.sort((a, b) => a - b);
  const tries = ended.reduce((sum, { retries }) => sum + 1 + retries, 0);
  return {
    per_second: latencies.length / seconds,
    p50_ms: quantile(latencies, 0.5),
    p99_ms: quantile(latencies, 0.99),
    given_up: 1 - latencies.length / Math.max(1, ended.length),
    failed_tries: 1 - latencies.length / Math.max(1, tries),
  };
}

function wallMs(): number {
  return performance.timeOrigin + performance.now();
}
