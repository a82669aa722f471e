// From the samples to the result: medians over the rounds, and ratios that are taken within each
// round, whose segments lie close together, so that a slow minute slows both sides.
import { median } from "../rounds/figures.ts";
import type { Way } from "./protocol.ts";
import { type Language, LANGUAGES } from "./subject.ts";

export interface CommitSample {
  readonly language: Language;
  readonly way: Way;
  readonly concurrency: number;
  readonly round: number;
  readonly cpuUs: number;
}

export interface PromiseSample {
  readonly language: Language;
  readonly way: Way;
  readonly round: number;
  readonly bytesEach: number;
  readonly elapsedMs: number;
  readonly cpuMs: number;
  readonly streams: number;
}

export interface BatchSample {
  readonly language: Language;
  readonly way: Way;
  readonly round: number;
  readonly tps: number;
  readonly clientCpuUs: number;
  readonly gatewayCpuUs: number;
  readonly databaseCpuUs: number;
}
export type Batching = readonly BatchSample[];

export interface Measured {
  readonly commits: readonly CommitSample[];
  readonly promises: readonly PromiseSample[];
  readonly batching: Batching;
  readonly load_average: { readonly before: number; readonly after: number };
}

/** By hand, by the SDK, and the SDK's as a multiple of that by hand. */
interface Compared {
  readonly bare: number;
  readonly sdk: number;
  readonly ratio: number;
}

interface CommitCost extends Compared {
  /** What the SDK takes above the bare client. */
  readonly added: number;
  /** By the SDK in batches. */
  readonly batched?: number;
  readonly batched_ratio?: number;
}

interface LanguageResult {
  readonly commit_cpu_us: { readonly c1: CommitCost; readonly c64: CommitCost };
  readonly settle_10000_ms: Compared;
  readonly settle_10000_cpu_ms: Compared;
  readonly pending_promise_bytes: Compared;
  /** Streams that were open while all promises were pending. */
  readonly streams: number;
}

interface BatchCost {
  readonly tps: number;
  readonly client_cpu_us: number;
  readonly gateway_cpu_us: number;
  readonly database_cpu_us: number;
}

/** 64 under way at a time, each in a request of its own (`single`), and with `batched`. */
interface BatchResult {
  readonly single: BatchCost;
  readonly batched: BatchCost;
  /** Batched to single. */
  readonly ratios: BatchCost;
}

export interface Result {
  readonly typescript?: LanguageResult;
  readonly python_async?: LanguageResult;
  readonly python_sync?: LanguageResult;
  readonly batching: { readonly [Each in Language]?: BatchResult };
  readonly load_average: Measured["load_average"];
}

export function summarize(measured: Measured): Result {
  const languages = LANGUAGES.filter((language) =>
    measured.commits.some((sample) => sample.language === language),
  );
  const results = languages.map((language) => [language, resultOf(measured, language)] as const);
  const batched = languages.filter((language) =>
    measured.batching.some((sample) => sample.language === language),
  );
  return {
    ...(Object.fromEntries(results) as { [Each in Language]?: LanguageResult }),
    batching: Object.fromEntries(
      batched.map((language) => [
        language,
        batchResultOf(measured.batching.filter((sample) => sample.language === language)),
      ]),
    ),
    load_average: measured.load_average,
  };
}

interface Rounds {
  readonly way: Way;
  readonly round: number;
}

function middle<T extends Rounds>(samples: readonly T[], way: Way, value: (sample: T) => number): number {
  const own = samples.filter((sample) => sample.way === way).map(value);
  if (own.length === 0) throw new Error(`nothing was measured of ${way}`);
  return rounded(median(own));
}

/** The median of the ratios of the rounds. */
function ratio<T extends Rounds>(
  samples: readonly T[],
  { of, to }: { readonly of: Way; readonly to: Way },
  value: (sample: T) => number,
): number {
  const ratios = samples.flatMap((sample) => {
    const other = samples.find((each) => each.way === to && each.round === sample.round);
    return sample.way !== of || other === undefined ? [] : [value(sample) / value(other)];
  });
  return rounded(median(ratios), 3);
}

function compared<T extends Rounds>(samples: readonly T[], value: (sample: T) => number): Compared {
  return {
    bare: middle(samples, "bare", value),
    sdk: middle(samples, "sdk", value),
    ratio: ratio(samples, { of: "sdk", to: "bare" }, value),
  };
}

function resultOf({ commits, promises }: Measured, language: Language): LanguageResult {
  const own = promises.filter((sample) => sample.language === language);
  const commit = (concurrency: number): CommitCost => {
    const samples = commits.filter(
      (sample) => sample.language === language && sample.concurrency === concurrency,
    );
    const cpu = ({ cpuUs }: CommitSample): number => cpuUs;
    const both = compared(samples, cpu);
    return {
      ...both,
      added: rounded(both.sdk - both.bare),
      ...(samples.some(({ way }) => way === "batched") && {
        batched: middle(samples, "batched", cpu),
        batched_ratio: ratio(samples, { of: "batched", to: "bare" }, cpu),
      }),
    };
  };
  return {
    commit_cpu_us: { c1: commit(1), c64: commit(64) },
    settle_10000_ms: compared(own, ({ elapsedMs }) => elapsedMs),
    settle_10000_cpu_ms: compared(own, ({ cpuMs }) => cpuMs),
    pending_promise_bytes: compared(own, ({ bytesEach }) => bytesEach),
    streams: Math.max(...own.filter(({ way }) => way === "sdk").map(({ streams }) => streams)),
  };
}

function batchResultOf(samples: Batching): BatchResult {
  const each = (value: (read: (sample: BatchSample) => number) => number): BatchCost => ({
    tps: value(({ tps }) => tps),
    client_cpu_us: value(({ clientCpuUs }) => clientCpuUs),
    gateway_cpu_us: value(({ gatewayCpuUs }) => gatewayCpuUs),
    database_cpu_us: value(({ databaseCpuUs }) => databaseCpuUs),
  });
  return {
    single: each((read) => middle(samples, "sdk", read)),
    batched: each((read) => middle(samples, "batched", read)),
    ratios: each((read) => ratio(samples, { of: "batched", to: "sdk" }, read)),
  };
}

function rounded(value: number, digits = 1): number {
  return Number(value.toFixed(digits));
}

const HEAD = ["", "bare", "sdk", "ratio", "batched"];

export function tableOf(result: Result): string {
  const rows: string[][] = [HEAD];
  for (const language of LANGUAGES) {
    const found = result[language];
    if (found === undefined) continue;
    const { commit_cpu_us, settle_10000_ms, settle_10000_cpu_ms, pending_promise_bytes } = found;
    const add = (what: string, { bare, sdk, ratio: times }: Compared, batched?: number): void => {
      const numbers = [bare, sdk, times, ...(batched === undefined ? [] : [batched])].map(String);
      rows.push([`${language}: ${what}`, ...numbers]);
    };
    add("cpu µs of a commit, one at a time", commit_cpu_us.c1);
    add("cpu µs of a commit, 64 at a time", commit_cpu_us.c64, commit_cpu_us.c64.batched);
    add("ms until one mark has kept all promises", settle_10000_ms);
    add("cpu ms of that", settle_10000_cpu_ms);
    add("bytes of a pending promise", pending_promise_bytes);
  }
  const widths = HEAD.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  const table = rows.map((row) =>
    row.map((text, at) => (at === 0 ? text.padEnd(widths[at] ?? 0) : text.padStart(widths[at] ?? 0))),
  );
  const batches = Object.entries(result.batching).map(
    ([language, { single, batched, ratios }]) =>
      `${language}, 64 at a time on a real gateway: ${String(single.tps)} to ${String(batched.tps)} tps in batches, ` +
      `processor time of client, gateway, database times ${String(ratios.client_cpu_us)}, ${String(ratios.gateway_cpu_us)}, ${String(ratios.database_cpu_us)}`,
  );
  return [...table.map((row) => row.join("  ")), ...batches].join("\n");
}
