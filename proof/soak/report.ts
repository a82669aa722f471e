// Writes the results of a soak: figures as JSON, lines as SVG and CSV, and a summary.
import { writeFile } from "node:fs/promises";
import { type Bar, verdictOf } from "../../loadtests/rounds/bars.ts";
import type { Overload } from "./overload.ts";
import { METRIC_NAMES, METRICS } from "./metrics.ts";
import { record, RESULTS } from "../../loadtests/record.ts";
import { plot } from "./plot.ts";
import type { Recorder } from "./recorder.ts";
import type { Steady } from "./steady.ts";
import type { TrackerDown } from "./tracker-down.ts";

export interface Report {
  readonly steady?: Steady;
  readonly tracker_down?: TrackerDown;
  readonly overload?: Overload;
  /** The machine's load, which shows other work on it. */
  readonly load_average: { readonly cores: number; readonly before: number; readonly after: number };
}

export async function writeReport(report: Report, recorder: Recorder | null): Promise<void> {
  record("soak", report);
  if (recorder === null || report.steady === undefined) return;
  await writeFile(new URL("soak.svg", RESULTS), svgOf(report.steady, recorder));
  await writeFile(new URL("soak.csv", RESULTS), csvOf(recorder));
}

function svgOf({ durationS, rate, faults }: Steady, recorder: Recorder): string {
  return plot(
    `${String(durationS)} s at ${String(rate)} transactions a second; shaded: faults`,
    METRIC_NAMES.map((name) => ({ ...METRICS[name], lines: recorder.of(name) })),
    faults.map(({ kind, target, fromS, untilS }) => ({ label: `${kind} ${target}`, fromS, untilS })),
  );
}

/** Every measured point. */
function csvOf(recorder: Recorder): string {
  const rows = METRIC_NAMES.flatMap((metric) =>
    [...recorder.of(metric)].flatMap(([line, points]) =>
      points.map(
        ({ atS, value, life }) => `${metric},${line},${String(life)},${atS.toFixed(1)},${String(value)}`,
      ),
    ),
  );
  return ["metric,line,life,at_s,value", ...rows, ""].join("\n");
}

export function barsOf(report: Report): Bar[] {
  return [report.steady, report.tracker_down, report.overload].flatMap((part) => part?.bars ?? []);
}

export function textOf(report: Report): string {
  const { steady, tracker_down: down, overload } = report;
  return [
    ...(steady === undefined ? [] : steadyText(steady)),
    ...(down === undefined ? [] : downText(down)),
    ...(overload === undefined ? [] : overloadText(overload)),
    ...barsOf(report).map(verdictOf),
  ].join("\n");
}

function steadyText({ durationS, rate, tally, faults, judged }: Steady): string[] {
  const kinds = Map.groupBy(faults, ({ kind }) => kind);
  const counted = [...kinds].map(([kind, all]) => `${kind} ${String(all.length)}`).join(", ");
  const rows = judged.map(({ metric, line, middle, last, allowed, perHour, isGrowing }) => {
    const { unit } = METRICS[metric];
    const change = `${short(middle)} -> ${short(last)} ${unit}, may grow by ${short(allowed)}`;
    return `  ${isGrowing ? "GROWING" : "flat   "} ${metric.padEnd(18)} ${line.padEnd(18)} ${change}; slope ${short(perHour)} per hour`;
  });
  return [
    `steady: ${String(durationS)} s at ${String(rate)} transactions a second; ${String(faults.length)} faults (${counted})`,
    `  ${JSON.stringify(tally)}`,
    "  middle third -> last third (medians)",
    ...rows,
  ];
}

function downText(down: TrackerDown): string[] {
  const { others, gatewayMib } = down;
  return [
    `tracker down: ${short(down.downS)} s at ${short(down.committedPerS)} commits a second, ${String(down.committedWhileDown)} meanwhile`,
    `  back: ready after ${short(down.readyMs)} ms, its marks after ${short(down.marksMs)} ms, the gateways' announcements after ${short(down.announcementsMs)} ms`,
    `  the gateway kept ${String(down.keptAnnouncements)} announcements for it; its memory ${short(gatewayMib.before)} / ${short(gatewayMib.down)} / ${short(gatewayMib.back)} MiB (before / down / back)`,
    `  verdicts for all ${String(down.committed)}: ${JSON.stringify(down.verdicts)} in ${short(down.verdictsMs)} ms`,
    ...others.map(
      ({ region, durableP50Ms: p50, durableP99Ms: p99 }) =>
        `  ${region}: to a promise p50 ${short(p50.before)} / ${short(p50.down)} / ${short(p50.back)} ms, p99 ${short(p99.before)} / ${short(p99.down)} / ${short(p99.back)} ms (before / down / back)`,
    ),
  ];
}

function overloadText({ sustainablePerS, phases }: Overload): string[] {
  return [
    `overload: ${short(sustainablePerS)} transactions a second are sustainable`,
    ...phases.map(
      (phase) =>
        `  ${phase.name.padEnd(10)} offered ${short(phase.offeredPerS)}/s, committed ${short(phase.committedPerS)}/s (p50 ${short(phase.commitP50Ms)} ms, p99 ${short(phase.commitP99Ms)} ms), refused ${JSON.stringify(phase.refused)} (p50 ${short(phase.refusedP50Ms)} ms, p99 ${short(phase.refusedP99Ms)} ms), gateway ${short(phase.gatewayMib)} MiB, heap ${short(phase.gatewayHeapMib)} MiB`,
    ),
  ];
}

function short(value: number | null): string {
  return value === null
    ? "-"
    : value.toLocaleString("en-US", { maximumFractionDigits: 1, useGrouping: false });
}
