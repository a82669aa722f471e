// The figures, drawn beside the papers': what is on which axis, and one vocabulary of colours for
// all of them. Vega-Lite draws SVG without a browser; the same points give the same picture, byte
// for byte.
import * as vega from "vega";
import { compile, type TopLevelSpec } from "vega-lite";
import type { Point, Result } from "./figures.ts";
import { SUBJECT_TITLES } from "./load/target.ts";
import { NEAR_MS } from "./experiment.ts";

/** A point with its labels beside its figures, as Vega-Lite wants it. */
type Datum = Readonly<Record<string, string | number | null>>;

export interface Figure {
  readonly name: string;
  /** Under the picture, and instead of it for who cannot see it. */
  readonly title: string;
  readonly spec: TopLevelSpec;
}

/** Told apart by people who see colours otherwise, too (Okabe and Ito). */
const COLOURS = {
  "Highwater, fast": "#009e73",
  "Highwater, safe": "#0072b2",
  "PostgreSQL, off": "#e69f00",
  "PostgreSQL, local": "#cc79a7",
  "PostgreSQL, on": "#d55e00",
} as const;
const PALETTE = ["#009e73", "#0072b2", "#d55e00", "#e69f00", "#cc79a7", "#56b4e9"];
const ALL = "all transactions";

const titles: Readonly<Record<string, string>> = { ...SUBJECT_TITLES, all: ALL };

export async function draw(spec: TopLevelSpec): Promise<string> {
  const { spec: compiled } = compile(spec);
  const view = new vega.View(vega.parse(compiled), { renderer: "none" });
  const svg = await view.toSVG();
  view.finalize();
  return `${svg}\n`;
}

function dataOf(points: readonly Point[]): Datum[] {
  return points.map(({ labels, subject, kind, cores: _, ...figures }) => ({
    ...figures,
    ...labels,
    kind,
    subject: titles[subject] ?? subject,
  }));
}

const subjectColour = {
  field: "subject",
  type: "nominal",
  title: null,
  scale: { domain: Object.keys(COLOURS), range: Object.values(COLOURS) },
} as const;
const wayColour = (field: string) =>
  ({ field, type: "nominal", title: null, scale: { range: PALETTE } }) as const;

interface Axes {
  readonly data: readonly Datum[];
  readonly x: string;
  readonly xTitle: string;
  readonly y: string;
  readonly yTitle: string;
  readonly colour: ReturnType<typeof wayColour> | typeof subjectColour;
  readonly column?: string;
  readonly log?: boolean;
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

function lines({ data, x, xTitle, y, yTitle, colour, column, log }: Axes): TopLevelSpec {
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
        ...(log === true && { scale: { type: "symlog", constant: 0.01 } }),
      },
      color: usedColours(colour, data),
      ...(column !== undefined && { column: { field: column, type: "nominal", title: null } }),
    },
  };
}

/** Only what is in the picture is in its legend. */
function usedColours(colour: Axes["colour"], data: readonly Datum[]): object {
  if (colour.field !== "subject") return colour;
  const used = Object.entries({ ...COLOURS, [ALL]: "#000000" }).filter(([title]) =>
    data.some(({ subject }) => subject === title),
  );
  return {
    ...colour,
    scale: { domain: used.map(([title]) => title), range: used.map(([, value]) => value) },
  };
}

export function figuresOf(result: Result): Figure[] {
  return (FIGURES[result.experiment] ?? (() => []))(dataOf(result.points), result);
}

const near = (data: readonly Datum[]): Datum[] => data.filter((each) => each["link_ms"] === NEAR_MS);

const FIGURES: Readonly<Record<string, (data: readonly Datum[], result: Result) => Figure[]>> = {
  latency: (data) => [
    {
      name: "latency",
      title: "Mean latency of an update by placement of the replica, one client",
      spec: bars({
        data: data.filter(({ part }) => part === "alone"),
        x: "link_ms",
        xTitle: "round trip to the replica, ms",
        y: "mean_ms",
        yTitle: "mean latency, ms",
        colour: subjectColour,
      }),
    },
    {
      name: "latency-together",
      title: "Mean latency of updates and reads, four clients at once",
      spec: bars({
        data: data.filter(({ part }) => part === "together"),
        x: "link_ms",
        xTitle: "round trip to the replica, ms",
        y: "mean_ms",
        yTitle: "mean latency, ms",
        colour: subjectColour,
        column: "kind",
      }),
    },
  ],
  mixed: (data) => [
    {
      name: "mixed",
      title: "Mean latency of inserts at a fixed rate by the share of fast ones, 16 ms",
      spec: lines({
        data: near(data).map((each) => ({
          ...each,
          system: each["system"] === "highwater" ? "Highwater" : "PostgreSQL",
        })),
        x: "share_fast",
        xTitle: "share of fast (PostgreSQL: asynchronous) transactions",
        y: "mean_ms",
        yTitle: "mean latency, ms",
        colour: subjectColour,
        column: "system",
      }),
    },
  ],
  contention: (data) => {
    const closed = near(data).filter(({ offered }) => offered === 0);
    return [
      {
        name: "aborts",
        title: "Aborted attempts for each transaction by contention, 128 clients, 16 ms",
        spec: lines({
          data: closed.filter(({ pattern }) => pattern === "skewed"),
          x: "contention",
          xTitle: "contention level",
          y: "aborts_per_transaction",
          yTitle: "aborted attempts for each transaction",
          colour: subjectColour,
          column: "isolation",
          log: true,
        }),
      },
      {
        name: "throughput",
        title: "Highest throughput under contention, 128 clients, serializable, 16 ms",
        spec: bars({
          data: closed
            .filter(
              ({ isolation, pattern, contention }) =>
                isolation === "serializable" && (pattern === "uniform" || contention === 0.95),
            )
            .map((each) => ({
              ...each,
              rows: each["pattern"] === "uniform" ? "256 rows, uniform" : "250 rows, contention 0.95",
            })),
          x: "rows",
          xTitle: "",
          y: "per_second",
          yTitle: "committed per second",
          colour: subjectColour,
        }),
      },
      {
        name: "offered",
        title: "Throughput while ever more is offered, 128 clients, serializable, 16 ms",
        spec: lines({
          data: near(data).filter(({ offered }) => offered !== 0),
          x: "offered",
          xTitle: "offered per second",
          y: "per_second",
          yTitle: "committed per second",
          colour: subjectColour,
          column: "pattern",
        }),
      },
    ];
  },
  tpcc: (data, { settings }) => {
    const [steady] = settings["offered"] as readonly number[];
    const colour = wayColour("configuration");
    const kinds = {
      x: "kind",
      xTitle: "",
      sort: ["new_order", "payment", "order_status", "delivery", "stock_level"],
    };
    return [
      {
        name: "tpcc-latency",
        title: `Mean latency of TPC-C's transactions at ${String(steady)} a second, 16 ms`,
        spec: bars({
          data: near(data).filter(({ offered }) => offered === steady),
          ...kinds,
          y: "mean_ms",
          yTitle: "mean latency, ms",
          colour,
        }),
      },
      {
        name: "tpcc-throughput",
        title: "TPC-C's transactions in a second, as fast as they are answered, 16 ms",
        spec: bars({
          data: near(data).filter(({ offered }) => offered === 0),
          ...kinds,
          y: "per_second",
          yTitle: "per second",
          colour,
        }),
      },
    ];
  },
  auction: (data) => [
    {
      name: "auction",
      title: "Mean time until a page has its ad",
      spec: bars({
        data: data.filter(({ kind }) => kind === "page"),
        x: "link_ms",
        xTitle: "round trip to the replica, ms",
        y: "mean_ms",
        yTitle: "ms from request to ad",
        colour: wayColour("configuration"),
      }),
    },
  ],
  groups: (data, result) => {
    const { flushes } = result as Result & {
      readonly flushes: readonly {
        readonly way: string;
        readonly clients: number;
        readonly perTransaction: number;
      }[];
    };
    return [
      {
        name: "groups",
        title: "Throughput of safe inserts by the number of clients",
        spec: lines({
          data,
          x: "clients",
          xTitle: "clients",
          y: "per_second",
          yTitle: "durable per second",
          colour: wayColour("way"),
        }),
      },
      {
        name: "groups-flushes",
        title: "Flushes of the primary's log for each transaction by the number of clients",
        spec: lines({
          data: flushes.map((each) => ({ ...each })),
          x: "clients",
          xTitle: "clients",
          y: "perTransaction",
          yTitle: "flushes for each transaction",
          colour: wayColour("way"),
        }),
      },
    ];
  },
};
