// What the page is given: a dashboard as it is committed, and what Prometheus answered for each of
// its panels.
import { type DataTransformerConfig, type FieldConfigSource } from "@grafana/data";
import {
  type BarGaugeDisplayMode,
  type BigValueColorMode,
  type BigValueGraphMode,
  type BigValueJustifyMode,
  type BigValueTextMode,
  type ReduceDataOptions,
  type VizLegendOptions,
  type VizTextDisplayOptions,
} from "@grafana/schema";

export interface SeriesJson {
  readonly labels: Readonly<Record<string, string>>;
  readonly points: readonly (readonly [seconds: number, value: number | null])[];
}

export type PanelData = readonly {
  readonly refId: string;
  readonly legend: string;
  readonly series: readonly SeriesJson[];
}[];

/** Each type of panel has some of these. */
interface Options {
  readonly legend: VizLegendOptions;
  readonly reduceOptions: ReduceDataOptions;
  readonly displayMode: BarGaugeDisplayMode;
  readonly colorMode: BigValueColorMode;
  readonly graphMode: BigValueGraphMode;
  readonly justifyMode: BigValueJustifyMode;
  readonly textMode: BigValueTextMode;
  readonly text?: VizTextDisplayOptions;
}

export interface PanelJson {
  readonly id?: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly options: Options;
  readonly fieldConfig: FieldConfigSource;
  readonly transformations?: DataTransformerConfig[];
}

export interface AnnotationJson {
  readonly atMs: number;
  readonly title: string;
  readonly color: string;
}

export interface BoardJson {
  readonly title: string;
  readonly panels: readonly PanelJson[];
  /** By the place of the panel in `panels`. */
  readonly data: Readonly<Record<number, PanelData>>;
  readonly annotations: readonly AnnotationJson[];
  readonly fromMs: number;
  readonly toMs: number;
  readonly stepMs: number;
  readonly width: number;
}
