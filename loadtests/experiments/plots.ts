// The figures, drawn beside the papers': what is on which axis, and one vocabulary of colours for
// all of them. Vega-Lite draws SVG without a browser; the same points give the same picture, byte
// for byte.
import * as vega from "vega";
import { compile, type TopLevelSpec } from "vega-lite";
import { NEAR_MS } from "./experiment.ts";
import { WAY_TITLES, type Way } from "./load/target.ts";
import type { LabelledCell, Result } from "./recorded.ts";
import { STEADY } from "./tpcc.ts";

/** A cell, or a part of it, with its labels beside its medians, as Vega-Lite wants it. */
type Datum = Readonly<Record<string, string | number | null>>;

export interface Figure {
  readonly name: string;
  /** Under the picture, and instead of it for who cannot see it. */
  readonly title: string;
  readonly spec: TopLevelSpec;
}

/** Told apart by people who see colours otherwise, too (Okabe and Ito). */
const PALETTE = ["#009e73", "#0072b2", "#d55e00", "#e69f00", "#cc79a7", "#56b4e9", "#f0e442", "#000000"];
/** The same colour for a way in every figure. */
const COLOURS: Readonly<Record<string, string>> = Object.fromEntries(
  (["fast", "safe", "direct_on", "direct_off", "direct_local", "pooled_on", "pgbouncer_on"] as const).map(
    (way, at) => [WAY_TITLES[way], PALETTE[at] ?? ""],
  ),
);

export async function draw(spec: TopLevelSpec): Promise<string> {
  const { spec: compiled } = compile(spec);
  const view = new vega.View(vega.parse(compiled), { renderer: "none" });
  const svg = await view.toSVG();
  view.finalize();
  return `${svg}\n`;
}

/** `kind`: the part of the row that the figures are of; empty for the whole row. */
function dataOf(cells: readonly LabelledCell[]): Datum[] {
  return cells.flatMap(({ labels, row, figures }) => {
    const kinds = new Map<string, Record<string, number>>();
    for (const [name, { median }] of Object.entries(figures)) {
      const at = name.lastIndexOf(" ");
      const kind = kinds.get(name.slice(0, Math.max(0, at))) ?? {};
      kinds.set(name.slice(0, Math.max(0, at)), { ...kind, [name.slice(at + 1)]: median });
    }
    const way = WAY_TITLES[labels["way"] as Way];
    return [...kinds].map(([kind, values]) => ({ ...values, ...labels, row, kind, way }));
  });
}

const wayColour = { field: "way", type: "nominal", title: null } as const;
const colourBy = (field: string) =>
  ({ field, type: "nominal", title: null, scale: { range: PALETTE } }) as const;

interface Axes {
  readonly data: readonly Datum[];
  readonly x: string;
  readonly xTitle: string;
  readonly y: string;
  readonly yTitle: string;
  readonly colour: ReturnType<typeof colourBy> | typeof wayColour;
  readonly column?: string;
  /** Of the x axis, in this order. */
  readonly sort?: readonly string[];
}

const COMMON = {
  $schema: "https://vega.github.io/schema/vega-lite/v6.json",
  background: "white",
  config: {
    font: "sans-serif",
    legend: { orient: "bottom", columns: 5, labelLimit: 300 },
    axis: { grid: true, labelLimit: 260 },
  },
} as const;

/** Bars side by side, each with its value above. */
function bars({ data, x, xTitle, y, yTitle, colour, column, sort }: Axes): TopLevelSpec {
  const position = {
    x: {
      field: x,
      type: "ordinal",
      title: xTitle,
      axis: { labelAngle: 0, grid: false },
      sort: sort === undefined ? null : [...sort],
    },
    xOffset: { field: colour.field, type: "nominal", sort: null },
    y: { field: y, type: "quantitative", title: yTitle },
  } as const;
  const used = usedColours(colour, data);
  const layered = {
    encoding: position,
    layer: [
      { mark: "bar", encoding: { color: used } },
      {
        mark: { type: "text", dy: -5, fontSize: 8 },
        encoding: { text: { field: y, type: "quantitative", format: ",.3~r" } },
      },
    ],
  } as const;
  const sized = { width: column === undefined ? 560 : 270, height: 220 };
  const values = { values: data.map((each) => ({ ...each })) };
  if (column === undefined)
    return { ...COMMON, data: values, ...sized, ...layered } as unknown as TopLevelSpec;
  return {
    ...COMMON,
    data: values,
    facet: { column: { field: column, type: "nominal", title: null } },
    spec: { ...sized, ...layered },
  } as unknown as TopLevelSpec;
}

function lines({ data, x, xTitle, y, yTitle, colour, column }: Axes): TopLevelSpec {
  return {
    ...COMMON,
    data: { values: data.map((each) => ({ ...each })) },
    width: column === undefined ? 560 : 270,
    height: 220,
    mark: { type: "line", point: true },
    encoding: {
      x: { field: x, type: "quantitative", title: xTitle },
      y: {
        field: y,
        type: "quantitative",
        title: yTitle,
      },
      color: usedColours(colour, data),
      ...(column !== undefined && { column: { field: column, type: "nominal", title: null } }),
    },
  };
}

/** Only what is in the picture is in its legend. */
function usedColours(colour: Axes["colour"], data: readonly Datum[]): object {
  if (colour.field !== "way") return colour;
  const used = Object.entries(COLOURS).filter(([title]) => data.some(({ way }) => way === title));
  return {
    ...colour,
    scale: { domain: used.map(([title]) => title), range: used.map(([, value]) => value) },
  };
}

export function figuresOf(result: Result): Figure[] {
  return (FIGURES[result.experiment] ?? (() => []))(dataOf(result.cells), result);
}

const near = (data: readonly Datum[]): Datum[] => data.filter((each) => each["link_ms"] === NEAR_MS);
const whole = (data: readonly Datum[]): Datum[] => data.filter(({ kind }) => kind === "");

const FIGURES: Readonly<Record<string, (data: readonly Datum[], result: Result) => Figure[]>> = {
  latency: (data) => [
    {
      name: "latency",
      title: "Mean latency of an update by placement of the replica, one client",
      spec: bars({
        data: data.filter(({ part, way }) => part === "alone" && String(way) in COLOURS),
        x: "link_ms",
        xTitle: "round trip to the replica, ms",
        y: "mean_ms",
        yTitle: "mean latency, ms",
        colour: wayColour,
      }),
    },
    {
      name: "latency-together",
      title: "Mean latency of updates and reads, four clients at once",
      spec: bars({
        data: data.filter(({ part, kind }) => part === "together" && kind !== ""),
        x: "link_ms",
        xTitle: "round trip to the replica, ms",
        y: "mean_ms",
        yTitle: "mean latency, ms",
        colour: colourBy("kind"),
        column: "row",
      }),
    },
  ],
  mixed: (data) => [
    {
      name: "mixed",
      title: "Mean latency of inserts at a fixed rate by the share of fast ones, 16 ms",
      spec: lines({
        data: data.map((each) => ({ ...each, part: each["kind"] === "" ? "all" : String(each["kind"]) })),
        x: "share_fast",
        xTitle: "share of fast (PostgreSQL: asynchronous) transactions",
        y: "mean_ms",
        yTitle: "mean latency, ms",
        colour: colourBy("part"),
        column: "system",
      }),
    },
  ],
  contention: (data, { peaks = [] }) => [
    {
      name: "failed-tries",
      title: "Share of the tries that failed by contention, 128 clients, 16 ms",
      spec: lines({
        data: near(data).filter((each) => each["offered"] === 0 && "contention" in each && isOfCurve(each)),
        x: "contention",
        xTitle: "contention level",
        y: "failed_tries",
        yTitle: "share of the tries that failed",
        colour: wayColour,
        column: "isolation",
      }),
    },
    {
      name: "peaks",
      title: "Highest throughput of each way over all loads, 128 clients, serializable",
      spec: bars({
        data: peaks.flatMap(({ way, workload, per_second }) => {
          const title = WAY_TITLES[way as Way] as string | undefined;
          return title === undefined ? [] : [{ way: title, workload, per_second }];
        }),
        x: "workload",
        xTitle: "",
        y: "per_second",
        yTitle: "committed per second",
        colour: wayColour,
      }),
    },
    {
      name: "offered",
      title: "Throughput while ever more is offered, 128 clients, serializable, 16 ms",
      spec: lines({
        data: near(data).filter((each) => each["offered"] !== 0),
        x: "offered",
        xTitle: "offered per second",
        y: "per_second",
        yTitle: "committed per second",
        colour: wayColour,
        column: "pattern",
      }),
    },
  ],
  tpcc: (data) => {
    const axes = {
      x: "kind",
      xTitle: "",
      sort: ["new_order", "payment", "order_status", "delivery", "stock_level"],
      colour: colourBy("configuration"),
    };
    const kinds = near(data).filter(({ kind }) => kind !== "");
    return [
      {
        name: "tpcc-latency",
        title: `Mean latency of TPC-C's transactions at ${String(STEADY)} a second, 16 ms`,
        spec: bars({
          data: kinds.filter(({ offered }) => offered === STEADY),
          ...axes,
          y: "mean_ms",
          yTitle: "mean latency, ms",
        }),
      },
      {
        name: "tpcc-throughput",
        title: "TPC-C's transactions in a second, as fast as they are answered, 16 ms",
        spec: bars({
          data: kinds.filter(({ offered }) => offered === 0),
          ...axes,
          y: "per_second",
          yTitle: "per second",
        }),
      },
    ];
  },
  auction: (data) => [
    {
      name: "auction",
      title: "Mean time until a page has its ad",
      spec: bars({
        data: whole(data),
        x: "link_ms",
        xTitle: "round trip to the replica, ms",
        y: "mean_ms",
        yTitle: "ms from request to ad",
        colour: colourBy("configuration"),
      }),
    },
  ],
  groups: (data) => [
    {
      name: "groups",
      title: "Throughput of safe inserts by the number of clients",
      spec: lines({
        data,
        x: "clients",
        xTitle: "clients",
        y: "per_second",
        yTitle: "durable per second",
        colour: colourBy("name"),
      }),
    },
    {
      name: "groups-flushes",
      title: "Flushes of the primary's log for each transaction by the number of clients",
      spec: lines({
        data,
        x: "clients",
        xTitle: "clients",
        y: "flushes",
        yTitle: "flushes for each transaction",
        colour: colourBy("name"),
      }),
    },
  ],
};

/** Those that are measured at every level: without pools, or with the one of the gateway's size. */
function isOfCurve({ way, row }: Datum): boolean {
  return (
    [WAY_TITLES.safe, WAY_TITLES.direct_on].includes(String(way)) || /^pooled_on of 16,/.test(String(row))
  );
}
