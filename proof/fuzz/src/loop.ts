// The loop: picks an input, changes it, runs it, and keeps it if it reached something new. After a
// failure, makes the input small.
import { Coverage } from "./coverage.ts";
import { mutate } from "./mutate.ts";
import { Random } from "./random.ts";
import { type Fuzzed, type Target } from "./target.ts";

export interface LoopOptions {
  readonly seed: number;
  /** The run ends at the first of the two. */
  readonly runs: number;
  readonly seconds: number;
  /** Called before each run, so that the runner knows the input if this thread hangs. */
  readonly onInput: (input: Buffer) => void;
}

interface Failure {
  readonly input: Buffer;
  readonly error: string;
}

export interface LoopResult {
  readonly runs: number;
  /** Inputs that reached code that none before them had. */
  readonly kept: number;
  /** Characters of the product's source that ran. */
  readonly covered: number;
  readonly failure: Failure | null;
}

/**
 * How many inputs run between two looks at the coverage, since a look costs more than most inputs:
 * more of them if they are fast.
 */
const BATCH_MIN = 64;
const BATCH_MAX = 4_096;
/** Inputs run for this many times as long as a look takes. */
const ASKING_RATIO = 3;
const KEPT_PER_BATCH = 8;
/** The share of inputs that a target makes itself, if it does. The others are changed ones. */
const MADE = 0.75;
const LIMIT_MS = 10_000;
const MAX_BYTES = 8_192;
const MAX_CORPUS = 2_000;
const SHRINK_RUNS = 1_500;
const SHRINK_MS = 15_000;

export async function fuzz(target: Target, fuzzed: Fuzzed, options: LoopOptions): Promise<LoopResult> {
  const random = new Random(options.seed);
  const corpus: Buffer[] = target.seeds.map((seed) => Buffer.from(seed));
  const coverage = new Coverage();
  const untilMs = performance.now() + options.seconds * 1_000;
  /** How long the last look at the coverage took. */
  let askingMs = 0;
  const isEnough = (inputs: number, tookMs: number): boolean =>
    inputs >= BATCH_MAX || (inputs >= BATCH_MIN && tookMs >= ASKING_RATIO * askingMs);
  const runOne = (input: Buffer): Promise<string | null> => attempt(target, fuzzed, input, options.onInput);
  let runs = 0;
  let failure: Failure | null = null;
  const next = (): Buffer => {
    // First each example unchanged: a target that refuses its own examples tests nothing.
    const example = runs < target.seeds.length ? corpus[runs] : undefined;
    if (example !== undefined) return example;
    if (target.make !== undefined && random.chance(MADE)) return target.make(random);
    // New finds are chosen more often than the rest.
    const newest = corpus.slice(-8);
    const input = random.chance(0.3) ? random.pick(newest) : random.pick(corpus);
    return mutate(input, {
      random,
      words: target.words ?? [],
      other: random.pick(corpus),
      maxBytes: target.maxBytes ?? MAX_BYTES,
    });
  };
  try {
    while (failure === null && runs < options.runs && performance.now() < untilMs) {
      const batch: Buffer[] = [];
      const batchMs = performance.now();
      while (!isEnough(batch.length, performance.now() - batchMs) && runs < options.runs) {
        const input = next();
        batch.push(input);
        runs++;
        const error = await runOne(input);
        if (error !== null) failure = { input, error };
        if (failure !== null || performance.now() >= untilMs) break;
      }
      // Runs now what an input has left to run later.
      await nextTurn();
      if (failure !== null) continue;
      const askedMs = performance.now();
      const fresh = coverage.look();
      askingMs = performance.now() - askedMs;
      if (fresh.size > 0 && corpus.length < MAX_CORPUS)
        corpus.push(...(await whichWereNew(coverage, batch, runOne)));
      coverage.learn(fresh);
    }
    if (failure !== null) failure = await shrink(failure, runOne);
    else await fuzzed.after?.();
  } catch (cause) {
    failure = { input: Buffer.alloc(0), error: describe(cause) };
  }
  const { count: covered } = coverage;
  coverage.close();
  return { runs, kept: corpus.length - target.seeds.length, covered, failure };
}

/**
 * Finds the inputs that reach something new, by running halves of them again until single ones are
 * left.
 */
async function whichWereNew(
  coverage: Coverage,
  inputs: readonly Buffer[],
  runOne: (input: Buffer) => Promise<string | null>,
): Promise<Buffer[]> {
  const found: Buffer[] = [];
  const middle = inputs.length >> 1;
  for (const half of [inputs.slice(0, middle), inputs.slice(middle)]) {
    if (half.length === 0 || found.length >= KEPT_PER_BATCH) continue;
    for (const input of half) await runOne(input);
    const fresh = coverage.look();
    if (fresh.size === 0) continue;
    const [only] = half;
    if (half.length > 1) found.push(...(await whichWereNew(coverage, half, runOne)));
    else if (only !== undefined) {
      found.push(only);
      coverage.learn(fresh);
    }
  }
  return found;
}

async function attempt(
  target: Target,
  fuzzed: Fuzzed,
  input: Buffer,
  onInput: (input: Buffer) => void,
): Promise<string | null> {
  onInput(input);
  const { limitMs = LIMIT_MS } = target;
  let timer: NodeJS.Timeout | undefined;
  try {
    const running = fuzzed.run(input);
    if (running === undefined) return null;
    const limit = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        reject(new Error(`no answer within ${String(limitMs)} ms`));
      }, limitMs);
    });
    await Promise.race([running, limit]);
    await nextTurn();
    return null;
  } catch (cause) {
    return describe(cause);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Lets everything run that waits only for its turn. If it throws, the thread ends with this input
 * on record.
 */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function describe(cause: unknown): string {
  return cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
}

/** The fault without numbers and quoted texts, which differ between inputs. */
function kindOf(error: string): string {
  const [first = ""] = error.split("\n");
  return first.replaceAll(/\d+|"[^"]*"/g, "#").slice(0, 80);
}

function linesOf(input: Buffer): string[] {
  return input.toString("latin1").split("\n");
}

async function shrink(failure: Failure, runOne: (input: Buffer) => Promise<string | null>): Promise<Failure> {
  const kind = kindOf(failure.error);
  const untilMs = performance.now() + SHRINK_MS;
  let best = failure;
  let runs = 0;
  const better = async (input: Buffer): Promise<boolean> => {
    runs++;
    const error = await runOne(input);
    if (error === null || kindOf(error) !== kind) return false;
    best = { input, error };
    return true;
  };
  // Whole lines first: in an input of lines, a part of a line is invalid.
  for (let at = 0, lines = linesOf(best.input); at < lines.length && lines.length > 1;) {
    if (runs >= SHRINK_RUNS || performance.now() > untilMs) return best;
    const without = lines.toSpliced(at, 1);
    if (await better(Buffer.from(without.join("\n"), "latin1"))) lines = without;
    else at++;
  }
  for (let size = best.input.length >> 1; size >= 1; size >>= 1) {
    for (let at = 0; at < best.input.length;) {
      if (runs >= SHRINK_RUNS || performance.now() > untilMs) return best;
      const { input } = best;
      const shorter = Buffer.concat([input.subarray(0, at), input.subarray(at + size)]);
      if (!(await better(shorter))) at += size;
    }
  }
  return best;
}
