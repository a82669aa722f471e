// From what Prometheus answers to Grafana's data frames, as its Prometheus data source makes them,
// with the panel's field settings and overrides applied by Grafana's own code.
import {
  applyFieldOverrides,
  cacheFieldDisplayNames,
  createTheme,
  type DataFrame,
  FieldConfigOptionsRegistry,
  type FieldConfigPropertyItem,
  type FieldConfigSource,
  FieldType,
  standardTransformers,
  standardTransformersRegistry,
  toDataFrame,
  transformDataFrame,
} from "@grafana/data";
import { firstValueFrom } from "rxjs";
import { type PanelData, type PanelJson, type SeriesJson } from "./shapes.ts";

export const theme = createTheme({ colors: { mode: "dark" } });

const PLAIN = ["unit", "min", "max", "decimals", "displayName", "thresholds", "mappings", "color", "noValue"];
const CUSTOM = [
  ...["drawStyle", "lineWidth", "lineInterpolation", "fillOpacity", "showPoints", "spanNulls", "stacking"],
  ...["thresholdsStyle", "gradientMode", "axisPlacement", "cellOptions", "width", "align"],
];

/** Grafana's server registers what each panel may set; these are those that our panels set. */
const registry = new FieldConfigOptionsRegistry(() =>
  [
    ...PLAIN.map((path) => ({ id: path, path, isCustom: false })),
    ...CUSTOM.map((path) => ({ id: `custom.${path}`, path, isCustom: true })),
  ].map(
    (item) =>
      ({
        ...item,
        name: item.path,
        shouldApply: () => true,
        process: (value: unknown) => value,
      }) as unknown as FieldConfigPropertyItem,
  ),
);

// The two that our tables use.
standardTransformersRegistry.setInit(
  () =>
    [standardTransformers.mergeTransformer, standardTransformers.organizeFieldsTransformer].map(
      (transformation) => ({
        id: transformation.id,
        name: transformation.name,
        editor: () => null,
        transformation: () => transformation,
        imageDark: "",
        imageLight: "",
      }),
    ) as never,
);

/** The first step of thresholds has no value in JSON. */
function revive(fieldConfig: FieldConfigSource): FieldConfigSource {
  return JSON.parse(JSON.stringify(fieldConfig), (key, value: unknown) =>
    key === "steps" && Array.isArray(value)
      ? value.map((step: { value: number | null }) => ({ ...step, value: step.value ?? -Infinity }))
      : value,
  ) as FieldConfigSource;
}

const legendOf = (format: string, labels: Readonly<Record<string, string>>): string =>
  format.replaceAll(/\{\{\s*(\w+)\s*\}\}/g, (_, label: string) => labels[label] ?? "");

const seriesFrame = (refId: string, legend: string, series: SeriesJson, stepMs: number): DataFrame =>
  toDataFrame({
    refId,
    name: legendOf(legend, series.labels),
    fields: [
      {
        name: "Time",
        type: FieldType.time,
        config: { interval: stepMs },
        values: series.points.map(([seconds]) => seconds * 1_000),
      },
      {
        name: "Value",
        type: FieldType.number,
        labels: series.labels,
        values: series.points.map(([, value]) => value),
        config: { displayNameFromDS: legendOf(legend, series.labels) },
      },
    ],
  });

function tableFrame(refId: string, all: readonly SeriesJson[], isOnly: boolean): DataFrame {
  const labels = [...new Set(all.flatMap((series) => Object.keys(series.labels)))];
  return toDataFrame({
    refId,
    fields: [
      {
        name: "Time",
        type: FieldType.time,
        values: all.map(({ points }) => (points.at(-1)?.[0] ?? 0) * 1_000),
      },
      ...labels.map((name) => ({
        name,
        type: FieldType.string,
        config: { filterable: true },
        values: all.map((series) => series.labels[name] ?? ""),
      })),
      {
        name: isOnly ? "Value" : `Value #${refId}`,
        type: FieldType.number,
        values: all.map(({ points }) => points.at(-1)?.[1] ?? null),
      },
    ],
  });
}

export async function framesOf(panel: PanelJson, data: PanelData, stepMs: number): Promise<DataFrame[]> {
  const isTable = panel.type === "table";
  const frames = data.flatMap(({ refId, legend, series }) =>
    isTable
      ? [tableFrame(refId, series, data.length === 1)]
      : series.map((one) => seriesFrame(refId, legend, one, stepMs)),
  );
  const transformed = await firstValueFrom(
    transformDataFrame(panel.transformations ?? [], frames, { interpolate: (text: string) => text }),
  );
  const done = applyFieldOverrides({
    data: transformed,
    fieldConfig: revive(panel.fieldConfig),
    theme,
    timeZone: "utc",
    replaceVariables: (text: string) => text,
    fieldConfigRegistry: registry,
  });
  cacheFieldDisplayNames(done);
  return done;
}
