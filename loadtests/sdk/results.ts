// From turns to the result of `make bench-sdk`: each SDK as a multiple of the client by hand.
import type { Result } from "../rounds/bars.ts";
import { cellsOf, compared } from "../rounds/figures.ts";
import type { Turn } from "../rounds/turns.ts";
import type { Way } from "./protocol.ts";
import { type Language, LANGUAGES } from "./subject.ts";

/** What runs alone has nothing to share. */
export const COMMITS: Readonly<
  Record<string, { readonly concurrency: number; readonly ways: readonly Way[] }>
> = {
  "one commit at a time": { concurrency: 1, ways: ["bare", "sdk"] },
  "64 commits at a time": { concurrency: 64, ways: ["bare", "sdk", "unshared"] },
};
export const PROMISES = "10,000 promises";

export const COLUMNS = {
  figures: ["per_second", "cpu_us", "settle_ms", "settle_cpu_ms", "bytes", "streams", "asked"],
  parts: [],
};

export function workloadOf(language: Language, part: string): string {
  return `${language}, ${part}`;
}

export function summarize(turns: readonly Turn[]): Result {
  const measured = LANGUAGES.filter((language) =>
    turns.some(({ workload }) => workload.startsWith(`${language}, `)),
  );
  const ratios = measured.flatMap((language) => {
    const ratio = (part: string, of: Way, figure: string): [string, number] => {
      const workload = workloadOf(language, part);
      const name = `${workload}: ${figure.replaceAll("_", " ")} of ${of} to bare`;
      return [name, compared(turns, { workload, of, to: "bare", figure })];
    };
    return [
      ...Object.entries(COMMITS).flatMap(([part, { ways }]) =>
        ways.filter((way) => way !== "bare").map((way) => ratio(part, way, "cpu_us")),
      ),
      ...["settle_ms", "settle_cpu_ms", "bytes"].map((figure) => ratio(PROMISES, "sdk", figure)),
    ];
  });
  return { cells: cellsOf(turns), ratios: Object.fromEntries(ratios), bars: [], turns };
}
