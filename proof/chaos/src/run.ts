// One chaos run: starts a system, a workload and a nemesis, heals the system, settles everything,
// and judges the history. Owns the order of the steps, time limits and kept files; knows nothing of
// the faults.
import { cp, mkdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { TemporaryFolder } from "@highwater/lab-tools/process";
import { nowMs, reasonOf, within } from "./clock.ts";
import { FaultFile } from "./fault-log.ts";
import { judge, type Judgement } from "./judge.ts";
import { type Target, type Workload, type WorkloadOptions } from "./parts.ts";
import { type Rig } from "./system.ts";

const START_LIMIT_MS = 120_000;
/** Faults that began within the time still have to end. */
const FAULTS_GRACE_MS = 300_000;
const HEAL_LIMIT_MS = 180_000;
const STOP_LIMIT_MS = 120_000;
/** On a busy machine thousands of outcomes are open, and each is asked about on its own. */
const SETTLE_LIMIT_MS = 900_000;
const CLOSE_LIMIT_MS = 60_000;
const PROGRESS_MS = 5_000;

export interface ChaosOptions {
  readonly seed: number;
  readonly durationMs: number;
  /** Approximate number of transactions a second. */
  readonly rate: number;
  /** Where history and logs are kept. Default: a folder that is removed if the run is clean. */
  readonly keep?: string;
  readonly startRig: () => Promise<Rig>;
  readonly startWorkload: (options: WorkloadOptions) => Promise<Workload>;
  readonly say: (line: string) => void;
}

export interface ChaosResult {
  /** The version of the servers; null if they did not start. */
  readonly postgres: string | null;
  readonly faults: Readonly<Record<string, number>>;
  /** Faults that did not take effect. */
  readonly failedFaults: readonly string[];
  readonly judgement: Judgement | null;
  /** Why the run broke off; null if it did not. */
  readonly error: string | null;
  /** Where history and logs are; null if they were not kept. */
  readonly kept: string | null;
}

/** True when the run ended without violations and pending verdicts. */
export function isClean({ judgement, error }: ChaosResult): boolean {
  return error === null && judgement?.violations === 0 && judgement.pending === 0;
}

export async function runChaos(options: ChaosOptions): Promise<ChaosResult> {
  const folder = options.keep === undefined ? await TemporaryFolder.make("highwater-chaos-") : null;
  const dir = options.keep ?? folder?.path ?? "";
  const history = join(dir, "history");
  await mkdir(history, { recursive: true });
  const log = new FaultFile(history, "nemesis");
  let postgres: string | null = null;
  let judgement: Judgement | null = null;
  let error: string | null = null;
  const onStarted = async ({ system }: Rig): Promise<void> => {
    postgres = await versionOf(system.target);
  };
  try {
    await underFaults({ ...options, onStarted }, { dir, history, log });
    judgement = await judge(history);
  } catch (cause) {
    error = fullReasonOf(cause);
    options.say(`the run broke off: ${error}`);
  }
  log.close();
  const result = { postgres, faults: log.counts, failedFaults: log.failed, judgement, error, kept: dir };
  if (options.keep !== undefined || !isClean(result)) {
    await folder?.keep();
    return result;
  }
  await folder?.remove();
  return { ...result, kept: null };
}

interface Folders {
  readonly dir: string;
  readonly history: string;
  readonly log: FaultFile;
}

async function underFaults(
  options: ChaosOptions & { readonly onStarted: (rig: Rig) => Promise<void> },
  folders: Folders,
): Promise<void> {
  const { seed, rate, durationMs } = options;
  const startedAtMs = nowMs();
  const say = (line: string): void => {
    const seconds = ((nowMs() - startedAtMs) / 1_000).toFixed(1).padStart(6);
    options.say(`${seconds} s  ${line}`);
  };
  say("starts the system");
  const rig = await within("the system starts", START_LIMIT_MS, options.startRig());
  const { system } = rig;
  let workload: Workload | undefined;
  let ticker: NodeJS.Timeout | undefined;
  try {
    await options.onStarted(rig);
    const { target, levels } = system;
    const starting = options.startWorkload({ target, seed, dir: folders.history, levels, rate });
    workload = await within("the workload starts", START_LIMIT_MS, starting);
    const running = workload;
    ticker = setInterval(() => {
      const { invoked, committed, unknown, lost } = running.progress;
      say(
        `${String(folders.log.total)} faults; ${String(invoked)} invoked, ${String(committed)} committed, ` +
          `${String(unknown)} unknown, ${String(lost)} lost`,
      );
    }, PROGRESS_MS);
    const nemesis = rig.nemesis({ seed, log: folders.log, say });
    await within("the faults end", durationMs + FAULTS_GRACE_MS, nemesis.run(durationMs));
    const primary = await within("the system is healed", HEAL_LIMIT_MS, nemesis.heal());
    say("no new transactions");
    await within("the clients stop", STOP_LIMIT_MS, workload.stop());
    say("settling");
    await within("everything is settled", SETTLE_LIMIT_MS, workload.settle(primary));
    say("everything is settled");
  } finally {
    clearInterval(ticker);
    await workload?.close().catch((cause: unknown) => {
      say(`the workload does not end: ${reasonOf(cause)}`);
    });
    for (const evidence of system.evidence)
      await cp(evidence, join(folders.dir, basename(evidence)), { recursive: true }).catch(
        (cause: unknown) => {
          say(`${evidence} cannot be kept: ${reasonOf(cause)}`);
        },
      );
    await within("the system ends", CLOSE_LIMIT_MS, system.close());
  }
}

/** For example "18.4". */
async function versionOf(target: Target): Promise<string> {
  const sql = "SELECT split_part(current_setting('server_version'), ' ', 1) AS version";
  const [row] = await target.query(target.regions[0] ?? "", sql);
  return String(row?.["version"]);
}

/** The error's message and those of its causes. */
function fullReasonOf(cause: unknown): string {
  const reasons: string[] = [];
  for (let at: unknown = cause; at !== undefined; at = at instanceof Error ? at.cause : undefined)
    reasons.push(reasonOf(at));
  return reasons.join(": ");
}
