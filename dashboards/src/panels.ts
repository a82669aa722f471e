// Panels as all dashboards have them: one look, and no way to leave out the unit or the sentence
// that says what it shows.
import { PanelBuilder as BarGaugeBuilder } from "@grafana/grafana-foundation-sdk/bargauge";
import {
  BarGaugeDisplayMode,
  BigValueColorMode,
  BigValueGraphMode,
  BigValueTextMode,
  GraphDrawStyle,
  GraphThresholdsStyleConfigBuilder,
  GraphThresholdsStyleMode,
  LegendDisplayMode,
  LegendPlacement,
  LineInterpolation,
  ReduceDataOptionsBuilder,
  SortOrder,
  StackingConfigBuilder,
  StackingMode,
  TooltipDisplayMode,
  VisibilityMode,
  VizLegendOptionsBuilder,
  VizOrientation,
  VizTextDisplayOptionsBuilder,
  VizTooltipOptionsBuilder,
} from "@grafana/grafana-foundation-sdk/common";
import {
  type DynamicConfigValue,
  FieldColorBuilder,
  FieldColorModeId,
  MappingType,
  RowBuilder,
  type Threshold,
  ThresholdsConfigBuilder,
  ThresholdsMode,
  type ValueMap,
} from "@grafana/grafana-foundation-sdk/dashboard";
import { DataqueryBuilder, PromQueryFormat } from "@grafana/grafana-foundation-sdk/prometheus";
import { PanelBuilder as StatBuilder } from "@grafana/grafana-foundation-sdk/stat";
import { PanelBuilder as TableBuilder } from "@grafana/grafana-foundation-sdk/table";
import { PanelBuilder as TimeseriesBuilder } from "@grafana/grafana-foundation-sdk/timeseries";

export const DATASOURCE = { type: "prometheus", uid: "${datasource}" } as const;

const COLUMNS = 24;
const STAT_HEIGHT = 4;
const GRAPH_HEIGHT = 8;
const REFS = "ABCDEFGHIJKLMNOP";
/** Has some scrapes in it, as an increase needs. */
const BAR_INTERVAL = "1m";
/** Points: by default Grafana fills the panel with them. */
const BAR_TEXT = { title: 14, value: 18 };

interface Query {
  readonly expr: string;
  /** Text, with labels as `{{name}}`. */
  readonly legend: string;
}

/** From which value on which colour; the first one holds below all bounds. */
type Steps = readonly [first: string, ...rest: (readonly [from: number, color: string])[]];

export interface Common {
  readonly title: string;
  /** What it shows, and what to make of it: the panel's help. */
  readonly says: string;
  readonly queries: readonly Query[];
  readonly unit: string;
  readonly width: number;
  readonly height?: number;
  readonly decimals?: number;
  readonly steps?: Steps;
}

export interface Graph extends Common {
  readonly isStacked?: boolean;
  readonly isBars?: boolean;
  readonly isStepped?: boolean;
  /** Draws the thresholds. */
  readonly hasLines?: boolean;
  readonly isLogarithmic?: boolean;
  readonly max?: number;
  /** Colours by the series's name, where a colour means something. */
  readonly colors?: Readonly<Record<string, string>>;
}

export interface Stat extends Common {
  readonly texts?: Readonly<Record<string, readonly [text: string, color: string]>>;
  readonly hasName?: boolean;
  readonly noValue?: string;
}

export interface Table extends Omit<Common, "unit"> {
  /**
   * Columns in their order, by label or reference of the query, with the title; a query's value is
   * `Value #A`.
   */
  readonly columns: readonly Column[];
}

interface Column {
  readonly field: string;
  readonly title: string;
  /** In points; else an equal share. */
  readonly width?: number;
  readonly unit?: string;
  readonly texts?: Stat["texts"];
  readonly steps?: Steps;
}

export type Panel = TimeseriesBuilder | StatBuilder | BarGaugeBuilder | TableBuilder;

export function graph(of: Graph): Panel {
  const built = new TimeseriesBuilder();
  describe(built, of, GRAPH_HEIGHT);
  for (const [index, query] of of.queries.entries()) {
    const asked = target(query, index).range();
    built.withTarget(of.isBars === true ? asked.interval(BAR_INTERVAL) : asked);
  }
  built
    .unit(of.unit)
    .min(0)
    .lineWidth(1)
    .fillOpacity(of.isStacked === true ? 30 : 4)
    .showPoints(VisibilityMode.Never)
    .colorScheme(new FieldColorBuilder().mode(FieldColorModeId.PaletteClassic))
    .legend(legend(of.width))
    .tooltip(new VizTooltipOptionsBuilder().mode(TooltipDisplayMode.Multi).sort(SortOrder.Descending));
  if (of.isStepped === true) built.lineInterpolation(LineInterpolation.StepAfter);
  if (of.isBars === true) built.drawStyle(GraphDrawStyle.Bars).fillOpacity(80);
  if (of.isStacked === true) built.stacking(new StackingConfigBuilder().mode(StackingMode.Normal).group("A"));
  if (of.decimals !== undefined) built.decimals(of.decimals);
  if (of.max !== undefined) built.max(of.max);
  if (of.steps !== undefined) built.thresholds(thresholds(of.steps));
  if (of.hasLines === true)
    built.thresholdsStyle(new GraphThresholdsStyleConfigBuilder().mode(GraphThresholdsStyleMode.Dashed));
  for (const [name, color] of Object.entries(of.colors ?? {}))
    built.overrideByName(name, [{ id: "color", value: { mode: "fixed", fixedColor: color } }]);
  return built;
}

export function stat(of: Stat): Panel {
  const built = new StatBuilder();
  describe(built, of, STAT_HEIGHT);
  for (const [index, query] of of.queries.entries()) built.withTarget(target(query, index).range());
  built
    .unit(of.unit)
    .colorMode(
      of.steps === undefined && of.texts === undefined ? BigValueColorMode.None : BigValueColorMode.Value,
    )
    // The graphs are below: a small one behind the number only makes it hard to read.
    .graphMode(BigValueGraphMode.None)
    .textMode(of.hasName === true ? BigValueTextMode.ValueAndName : BigValueTextMode.Value)
    .reduceOptions(new ReduceDataOptionsBuilder().calcs(["lastNotNull"]))
    .thresholds(thresholds(of.steps ?? ["text"]));
  if (of.decimals !== undefined) built.decimals(of.decimals);
  if (of.noValue !== undefined) built.noValue(of.noValue);
  if (of.texts !== undefined) built.mappings([mapping(of.texts)]);
  return built;
}

/** One bar for each series, against the largest that there may be. */
export function bars(of: Common & { readonly max: number }): Panel {
  const built = new BarGaugeBuilder();
  describe(built, of, GRAPH_HEIGHT);
  for (const [index, query] of of.queries.entries()) built.withTarget(target(query, index).range());
  built
    .unit(of.unit)
    .min(0)
    .max(of.max)
    .displayMode(BarGaugeDisplayMode.Basic)
    .text(new VizTextDisplayOptionsBuilder().titleSize(BAR_TEXT.title).valueSize(BAR_TEXT.value))
    .orientation(VizOrientation.Horizontal)
    .reduceOptions(new ReduceDataOptionsBuilder().calcs(["lastNotNull"]))
    .thresholds(thresholds(of.steps ?? ["green"]));
  if (of.decimals !== undefined) built.decimals(of.decimals);
  return built;
}

/**
 * One row for each combination of labels that the first column names, and a column for each query.
 */
export function table(of: Table): Panel {
  const built = new TableBuilder();
  describe(built, of, GRAPH_HEIGHT);
  for (const [index, query] of of.queries.entries())
    built.withTarget(target(query, index).instant().format(PromQueryFormat.Table));
  const names = Object.fromEntries(of.columns.map(({ field, title }) => [field, title]));
  built
    .withTransformation({ id: "merge", options: {} })
    .withTransformation({
      id: "organize",
      options: {
        excludeByName: { Time: true },
        indexByName: Object.fromEntries(of.columns.map(({ field }, index) => [field, index])),
        renameByName: names,
      },
    })
    .thresholds(thresholds(["text"]));
  for (const column of of.columns) {
    const properties: DynamicConfigValue[] = [];
    if (column.width !== undefined) properties.push({ id: "custom.width", value: column.width });
    if (column.unit !== undefined) properties.push({ id: "unit", value: column.unit });
    if (column.texts !== undefined) properties.push({ id: "mappings", value: [mapping(column.texts)] });
    if (column.steps !== undefined)
      properties.push({ id: "thresholds", value: thresholds(column.steps).build() });
    if (column.texts !== undefined || column.steps !== undefined)
      properties.push({ id: "custom.cellOptions", value: { type: "color-text" } });
    if (properties.length > 0) built.overrideByName(column.title, properties);
  }
  return built;
}

export const row = (title: string): RowBuilder => new RowBuilder(title);

function describe(built: Panel, of: Omit<Common, "unit">, height: number): void {
  built
    .title(of.title)
    .description(of.says)
    .datasource(DATASOURCE)
    .span(of.width)
    .height(of.height ?? height);
}

/**
 * A table with numbers where there is room for all of it beside the graph; else only the names
 * below.
 */
function legend(width: number): VizLegendOptionsBuilder {
  const built = new VizLegendOptionsBuilder().showLegend(true);
  if (width < COLUMNS / 2)
    return built.displayMode(LegendDisplayMode.List).placement(LegendPlacement.Bottom).calcs([]);
  return built
    .displayMode(LegendDisplayMode.Table)
    .placement(LegendPlacement.Right)
    .calcs(["lastNotNull", "max"]);
}

function target({ expr, legend }: Query, index: number): DataqueryBuilder {
  return new DataqueryBuilder()
    .refId(REFS[index] ?? "")
    .datasource(DATASOURCE)
    .expr(expr)
    .legendFormat(legend);
}

function thresholds([first, ...rest]: Steps): ThresholdsConfigBuilder {
  // Grafana wants the first step without a value, which the SDK's type writes as null.
  const steps: Threshold[] = [
    { value: null, color: first },
    ...rest.map(([value, color]) => ({ value, color })),
  ];
  return new ThresholdsConfigBuilder().mode(ThresholdsMode.Absolute).steps(steps);
}

function mapping(texts: NonNullable<Stat["texts"]>): ValueMap {
  return {
    type: MappingType.ValueToText,
    options: Object.fromEntries(
      Object.entries(texts).map(([value, [text, color]], index) => [value, { text, color, index }]),
    ),
  };
}
