// One run: a script drawn from a seed, played to its end, with every word held against the truth; and the same script made
// small, if it shows a fault.
import { configOf } from "../test/support/core.ts";
import { type CoreConfig } from "../src/core/index.ts";
import { OPS } from "./ops.ts";
import { Play, type Setting } from "./play.ts";
import { Random } from "./random.ts";
import { SCENES, settleDown } from "./scenes.ts";
import { type Habits, HONEST } from "./world.ts";

interface Op {
  readonly name: string;
  readonly seed: number;
}

export interface Script {
  readonly setting: Setting;
  readonly ops: readonly Op[];
}

const ACTS = { ...OPS, ...SCENES };
const DRAWN = Object.entries(ACTS).flatMap(([name, [weight]]) => Array.from({ length: weight }, () => name));
const SHORTEST = 20;
const LONGEST = 110;

/** What kind of runs: all by default. */
export interface Bounds {
  /** Words are lost on their way. */
  readonly loses: boolean;
  /** Ledgers are torn. */
  readonly tears: boolean;
  /** See Setting. */
  readonly hasLongPositions?: true;
  /** Clients of the PostgreSQL wire commit between the other operations, which stay the same. */
  readonly wires?: true;
}

export const ANYTHING: Bounds = { loses: true, tears: true };
export const WITH_LONG_POSITIONS: Bounds = { ...ANYTHING, wires: true, hasLongPositions: true };
export const WITH_WIRE: Bounds = { ...ANYTHING, wires: true };
const WIRE_PERCENT = 20;

export function draw(seed: number, bounds: Bounds = ANYTHING): Script {
  const random = new Random(seed);
  const isCalm = random.chance(25);
  const setting: Setting = {
    gateways: 1 + random.below(2),
    trackers: 1 + random.below(3),
    unfit: random.chance(15) ? (random.pick(["b", "d"]) ?? null) : null,
    weather: {
      late: isCalm ? 0 : random.below(40),
      lost: isCalm || !bounds.loses ? 0 : random.below(25),
      twice: isCalm ? 0 : random.below(15),
    },
    tears: bounds.tears && random.chance(20),
    ...(bounds.hasLongPositions === true ? { hasLongPositions: true } : {}),
  };
  const length = SHORTEST + random.below(LONGEST - SHORTEST);
  const ops = Array.from({ length }, (): Op => ({ name: random.pick(DRAWN) ?? "rest", seed: random.bits() }));
  if (bounds.wires !== true) return { setting, ops };
  const withWire = ops.flatMap((op): Op[] =>
    random.chance(WIRE_PERCENT) ? [op, { name: "wire", seed: random.bits() }] : [op],
  );
  return { setting, ops: withWire };
}

/** The n-th run of a series: every second one has clients of the wire. */
export function drawNth(series: number, n: number): Script {
  return draw(seedOf(series, n), n % 2 === 0 ? ANYTHING : WITH_WIRE);
}

const simConfig = (): CoreConfig => configOf({ batch: 3 });

export interface Outcome {
  readonly failure: Error | null;
  readonly play: Play;
}

export async function playScript(
  script: Script,
  habits: Habits = HONEST,
  isLogged = false,
): Promise<Outcome> {
  const play = new Play(simConfig(), script.setting, habits, isLogged);
  try {
    for (const op of script.ops) {
      play.random = new Random(op.seed);
      play.timeMs++;
      await ACTS[op.name]?.[1](play);
      await play.rest();
      play.check();
    }
    play.random = new Random(1);
    const ruler = await settleDown(play);
    play.checker.checkEnd(play.trackers, ruler);
    return { failure: null, play };
  } catch (cause) {
    return { failure: cause instanceof Error ? cause : new Error(String(cause)), play };
  }
}

/** The smallest script that still fails: halves, quarters and so on are left out for as long as that works. */
export async function shrink(script: Script, habits: Habits = HONEST): Promise<Script> {
  const wanted = whereOf((await playScript(script, habits)).failure);
  const fails = async (candidate: Script): Promise<boolean> => {
    const { failure } = await playScript(candidate, habits);
    return failure !== null && whereOf(failure) === wanted;
  };
  let { setting, ops } = script;
  for (const simpler of simplerSettings(setting))
    if (await fails({ setting: { ...setting, ...simpler }, ops })) setting = { ...setting, ...simpler };
  for (let part = ops.length >> 1; part >= 1;) {
    let isSmaller = false;
    for (let from = 0; from < ops.length;) {
      const rest = [...ops.slice(0, from), ...ops.slice(from + part)];
      if (await fails({ setting, ops: rest })) {
        ops = rest;
        isSmaller = true;
      } else from += part;
    }
    if (part === 1 && !isSmaller) break;
    if (part > 1) part >>= 1;
  }
  return { setting, ops };
}

/** The check that failed: a history is not made small by finding another fault in a part of it. */
function whereOf(failure: Error | null): string {
  const frames = failure?.stack?.split("\n").filter((line) => line.includes("    at ")) ?? [];
  return frames[0]?.replace(/^ *at ([^ ]+).*$/, "$1") ?? "";
}

function simplerSettings(setting: Setting): Partial<Setting>[] {
  const { late, lost, twice } = setting.weather;
  return [
    { trackers: 1 },
    { gateways: 1 },
    { unfit: null },
    { tears: false },
    { weather: { late: 0, lost: 0, twice: 0 } },
    { weather: { late, lost, twice: 0 } },
    { weather: { late, lost: 0, twice: 0 } },
    { weather: { late: 0, lost, twice: 0 } },
    { weather: { late: 0, lost: 0, twice } },
  ];
}

/** Seed of the n-th run of a series. */
export const seedOf = (series: number, n: number): number => (Math.imul(series, 0x9e3779b1) + n) >>> 0;
