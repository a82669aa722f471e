// A live plot of some values, one for each level. uPlot draws it on a canvas; the legend beside it
// says the newest values as text.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { formatTime } from "./format.ts";
import type { Point } from "./live.ts";

const HEIGHT = 180;
/** In the style sheet. */
const COLOURS = 5;
const POWERS = Array.from({ length: 50 }, (_, exponent) => 2 ** exponent);

/** The time of day without milliseconds. */
const timeText = (second: number): string => formatTime(second * 1_000).slice(0, "00:00:00".length);

export interface PlotProps {
  readonly title: string;
  /** A level each; and, behind them, what is beside them. */
  readonly lines: readonly string[];
  readonly points: readonly Point[];
  readonly valuesOf: (point: Point) => readonly (number | null)[];
  readonly format: (value: number) => string;
  /** Of the numbers at the axis. */
  readonly base: 2 | 10;
}

export function Plot({ title, lines, points, valuesOf, format, base }: PlotProps) {
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const data: uPlot.AlignedData = [
    points.map(({ atMs }) => atMs / 1_000),
    ...lines.map((_, at) => points.map((point) => valuesOf(point)[at] ?? null)),
  ];
  const newest = useRef(data);
  newest.current = data;
  const names = lines.join("\n");

  useEffect(() => {
    const element = frame.current;
    if (element === null || names === "") return undefined;
    const draw = (): void => {
      plot.current?.destroy();
      plot.current = new uPlot(
        optionsFor(element, names.split("\n"), { format, base }),
        newest.current,
        element,
      );
    };
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const resized = new ResizeObserver(() => {
      plot.current?.setSize({ width: element.clientWidth, height: HEIGHT });
    });
    draw();
    resized.observe(element);
    scheme.addEventListener("change", draw);
    return () => {
      resized.disconnect();
      scheme.removeEventListener("change", draw);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [names]);

  useEffect(() => {
    plot.current?.setData(data);
  }, [points]);

  const last = points.at(-1);
  return (
    <figure class="plot">
      <figcaption>{title}</figcaption>
      <div ref={frame} class="canvas" role="img" aria-label={`${title} in the last five minutes`} />
      <ul class="legend">
        {lines.map((name, at) => {
          const value = last === undefined ? null : (valuesOf(last)[at] ?? null);
          return (
            <li key={name}>
              <span class={`swatch level-${String(at % COLOURS)}`} aria-hidden="true" />
              {name} <strong>{value === null ? "none" : format(value)}</strong>
            </li>
          );
        })}
      </ul>
    </figure>
  );
}

function optionsFor(
  element: HTMLElement,
  lines: readonly string[],
  { format, base }: Pick<PlotProps, "format" | "base">,
): uPlot.Options {
  const style = getComputedStyle(element);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const axis = {
    stroke: colour("--muted"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { stroke: colour("--line"), width: 1 },
    font: "12px system-ui, sans-serif",
  };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: { y: { range: (_plot, _min, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [
      { ...axis, space: 90, values: (_plot, splits) => splits.map((second) => timeText(second)) },
      {
        ...axis,
        size: 70,
        values: (_plot, splits) => splits.map((value) => format(value)),
        ...(base === 2 ? { incrs: POWERS } : {}),
      },
    ],
    series: [
      {},
      ...lines.map((label, at) => ({
        label,
        stroke: colour(`--level-${String(at % COLOURS)}`),
        width: 2,
        points: { size: 4 },
      })),
    ],
  };
}
