// Draws the measured lines as one SVG: a panel for each metric, a line for each process. Written by
// hand, because it is short and needs no library.
import type { Point } from "./growth.ts";

export interface Panel {
  readonly title: string;
  readonly unit: string;
  readonly lines: ReadonlyMap<string, readonly Point[]>;
}

/** A period that is shaded in every panel. */
export interface Shade {
  readonly fromS: number;
  readonly untilS: number;
  readonly label: string;
}

const WIDTH = 1_100;
const PANEL = { height: 230, left: 70, right: 190, top: 34, bottom: 40 };
const INNER = {
  width: WIDTH - PANEL.left - PANEL.right,
  height: PANEL.height - PANEL.top - PANEL.bottom,
};
const HEAD = 46;
const TICKS = 4;
const MAX_POINTS = 600;
/** Distinguishable for people with colour blindness, too (Okabe and Ito). */
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#888888"];

export function plot(title: string, panels: readonly Panel[], shades: readonly Shade[]): string {
  const shown = panels.filter(({ lines }) => lines.size > 0);
  const untilS = Math.max(
    1,
    ...shown.flatMap(({ lines }) => [...lines.values()].map((line) => line.at(-1)?.atS ?? 0)),
  );
  const height = HEAD + shown.length * PANEL.height;
  const body = shown.map((panel, at) => panelOf(panel, HEAD + at * PANEL.height, { untilS, shades }));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${String(WIDTH)}" height="${String(height)}" font-family="sans-serif" font-size="12">`,
    `<rect width="100%" height="100%" fill="#fff"/>`,
    `<text x="${String(PANEL.left)}" y="26" font-size="18">${escape(title)}</text>`,
    ...body,
    "</svg>",
    "",
  ].join("\n");
}

function panelOf(
  { title, unit, lines }: Panel,
  top: number,
  { untilS, shades }: { readonly untilS: number; readonly shades: readonly Shade[] },
): string {
  const highest = Math.max(...[...lines.values()].flatMap((line) => line.map(({ value }) => value)));
  const { step, max } = scaleOf(highest);
  const x = (atS: number): number => PANEL.left + (INNER.width * atS) / untilS;
  const y = (value: number): number => top + PANEL.top + INNER.height * (1 - value / max);
  const right = PANEL.left + INNER.width;
  const bottom = top + PANEL.top + INNER.height;
  const parts = [
    `<text x="${String(PANEL.left)}" y="${String(top + 22)}" font-weight="bold">${escape(title)}</text>`,
  ];
  for (const { fromS, untilS: end, label } of shades)
    parts.push(
      `<rect x="${px(x(fromS))}" y="${String(top + PANEL.top)}" width="${px(Math.max(1, x(end) - x(fromS)))}" height="${String(INNER.height)}" fill="#f3e6d0"><title>${escape(label)}</title></rect>`,
    );
  for (let value = 0; value <= max * 1.001; value += step)
    parts.push(
      `<line x1="${String(PANEL.left)}" x2="${String(right)}" y1="${px(y(value))}" y2="${px(y(value))}" stroke="#ddd"/>`,
      `<text x="${String(PANEL.left - 6)}" y="${px(y(value) + 4)}" text-anchor="end">${numberText(value)}</text>`,
    );
  const everyS = scaleOf(untilS).step;
  for (let atS = 0; atS <= untilS; atS += everyS)
    parts.push(
      `<text x="${px(x(atS))}" y="${String(bottom + 16)}" text-anchor="middle">${numberText(atS)}</text>`,
    );
  parts.push(
    `<text x="${String(right)}" y="${String(bottom + 32)}" text-anchor="end">seconds</text>`,
    `<text transform="translate(14 ${String(top + PANEL.top + INNER.height / 2)}) rotate(-90)" text-anchor="middle">${escape(unit)}</text>`,
  );
  for (const [at, [name, points]] of [...lines].entries()) {
    const colour = COLOURS[at % COLOURS.length] ?? "#000";
    parts.push(`<path d="${pathOf(points, x, y)}" fill="none" stroke="${colour}" stroke-width="1.4"/>`);
    const line = top + PANEL.top + 10 + 16 * at;
    parts.push(
      `<rect x="${String(right + 12)}" y="${String(line - 6)}" width="14" height="4" fill="${colour}"/>`,
      `<text x="${String(right + 32)}" y="${String(line)}">${escape(name)}</text>`,
    );
  }
  return parts.join("\n");
}

/** A restarted process begins a new stroke. */
function pathOf(points: readonly Point[], x: (atS: number) => number, y: (value: number) => number): string {
  const every = Math.max(1, Math.ceil(points.length / MAX_POINTS));
  let life: number | null = null;
  const strokes: string[] = [];
  for (const [at, point] of points.entries()) {
    if (at % every !== 0 && point.life === life) continue;
    strokes.push(`${point.life === life ? "L" : "M"}${px(x(point.atS))} ${px(y(point.value))}`);
    life = point.life;
  }
  return strokes.join("");
}

/** About four round steps from zero, because a cut axis would exaggerate growth. */
export function scaleOf(highest: number): { readonly step: number; readonly max: number } {
  const rough = Math.max(highest, 1e-6) / TICKS;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 2.5, 5, 10].find((each) => each * power >= rough) ?? 10) * power;
  return { step, max: step * Math.ceil(highest / step || 1) };
}

const px = (value: number): string => String(Math.round(10 * value) / 10);
const numberText = (value: number): string => value.toLocaleString("en-US", { maximumFractionDigits: 3 });

function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}
