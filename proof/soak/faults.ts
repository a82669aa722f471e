// Light faults throughout the run, one after another, always in the same order, so that each third
// of the run has the same ones. One gateway and one tracker never restart: memory that they keep
// shows as growth.
import { setTimeout as pause } from "node:timers/promises";
import type { SoakSystem } from "./soak-system.ts";

export interface FaultLine {
  readonly kind: string;
  readonly target: string;
  readonly fromS: number;
  readonly untilS: number;
  /** The error, if the fault did not take effect. */
  readonly error: string | null;
}

const DOWN_MS = 3_000;
const CUT_MS = 4_000;

type Fault = (soak: SoakSystem, round: number) => Promise<string>;

const pick = (from: readonly string[], round: number): string => from[round % from.length] ?? "";

/** Never in the last region, whose services do not restart. */
async function killService(soak: SoakSystem, round: number, which: "gateway" | "tracker"): Promise<string> {
  const { system } = soak;
  const region = pick(system.regions.slice(0, -1), round);
  await system[which](region).kill();
  await pause(DOWN_MS);
  await system.restartService(region, which);
  return region;
}

async function primaryOf(soak: SoakSystem): Promise<string> {
  const status = await soak.cluster.status();
  const primary = status.find(({ state }) => state === "primary");
  if (primary === undefined) throw new Error(`no primary: ${JSON.stringify(status)}`);
  return primary.id;
}

function othersThan(soak: SoakSystem, node: string): string[] {
  return soak.cluster.nodes.map(({ id }) => id).filter((id) => id !== node);
}

async function crashBackend(soak: SoakSystem): Promise<string> {
  const primary = await primaryOf(soak);
  await soak.cluster.crashBackend(primary);
  return primary;
}

async function restartReplica(soak: SoakSystem, round: number): Promise<string> {
  const replica = pick(othersThan(soak, await primaryOf(soak)), round);
  await soak.cluster.restart(replica);
  return replica;
}

async function cutLink(soak: SoakSystem, round: number): Promise<string> {
  const primary = await primaryOf(soak);
  const other = pick(othersThan(soak, primary), round);
  const link = soak.cluster.link(primary, other);
  await link.cut();
  await pause(CUT_MS);
  await link.heal();
  return `${primary}/${other}`;
}

/**
 * Switches over as an operator does: stops the primary cleanly, so that the replicas have
 * everything, and promotes the best one.
 */
async function switchOver(soak: SoakSystem): Promise<string> {
  const { cluster } = soak;
  const old = await primaryOf(soak);
  await cluster.waitForStreaming();
  await cluster.stop(old);
  const next = await cluster.mostAdvancedReplica();
  await cluster.promote(next);
  await cluster.rejoin(old);
  return `${old} to ${next}`;
}

const FAULTS: readonly (readonly [string, Fault])[] = [
  ["kill_tracker", (soak, round) => killService(soak, round, "tracker")],
  ["crash_backend", crashBackend],
  ["cut_link", cutLink],
  ["kill_gateway", (soak, round) => killService(soak, round, "gateway")],
  ["restart_replica", restartReplica],
  ["switchover", switchOver],
];

/** Runs until stopped. Each fault is healed and the system ready before the next one. */
export async function harass(
  soak: SoakSystem,
  options: { readonly everyMs: number; readonly signal: AbortSignal; readonly elapsedS: () => number },
): Promise<FaultLine[]> {
  const { everyMs, signal, elapsedS } = options;
  const lines: FaultLine[] = [];
  for (let n = 0; !signal.aborted; n++) {
    const nextMs = performance.now() + everyMs;
    const [kind, fault] = FAULTS[n % FAULTS.length] ?? [];
    if (kind === undefined || fault === undefined) break;
    const fromS = elapsedS();
    let [target, error]: [string, string | null] = ["", null];
    try {
      target = await fault(soak, Math.floor(n / FAULTS.length));
      await soak.cluster.waitForStreaming();
      await soak.system.ready();
    } catch (cause) {
      error = cause instanceof Error ? cause.message : String(cause);
    }
    lines.push({ kind, target, fromS, untilS: elapsedS(), error });
    await unlessAborted(nextMs - performance.now(), signal);
  }
  return lines;
}

async function unlessAborted(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted || ms <= 0) return;
  const over = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => {
    over.resolve(undefined);
  }, ms);
  const stop = (): void => {
    over.resolve(undefined);
  };
  signal.addEventListener("abort", stop, { once: true });
  await over.promise;
  clearTimeout(timer);
  signal.removeEventListener("abort", stop);
}
