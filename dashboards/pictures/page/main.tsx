// Draws one dashboard as Grafana would: its own frame, graphs, big numbers, bars and tables, in the
// grid of the JSON. `window.draw` resolves when everything is on the page.
import {
  type AbsoluteTimeRange,
  type DataFrame,
  dateTime,
  type DisplayValue,
  EventBusSrv,
  getDisplayValueAlignmentFactors,
  getFieldDisplayValues,
  type TimeRange,
  VizOrientation,
} from "@grafana/data";
import {
  BarGauge,
  BigValue,
  GlobalStyles,
  PanelChrome,
  PanelContextProvider,
  ThemeContext,
  TimeSeries,
  type UPlotConfigBuilder,
  VizRepeater,
} from "@grafana/ui";
import { TableNG } from "@grafana/ui/unstable";
import { type ReactNode } from "react";
import { createRoot } from "react-dom/client";
import { framesOf, theme } from "./frames.ts";
import { type AnnotationJson, type BoardJson, type PanelJson } from "./shapes.ts";
import "uplot/dist/uPlot.min.css";

const CELL_HEIGHT = 30;
const MARGIN = 8;
const COLUMNS = 24;
const FRAMES_MIN = 20;
const FRAMES_MAX = 1_000;

declare global {
  interface Window {
    draw: (board: BoardJson) => Promise<void>;
  }
}

interface Drawn {
  readonly panel: PanelJson;
  readonly frames: DataFrame[];
  readonly size: { readonly width: number; readonly height: number };
  readonly board: BoardJson;
}

const rangeOf = ({ fromMs, toMs }: BoardJson): TimeRange => {
  const [from, to] = [dateTime(fromMs), dateTime(toMs)];
  return { from, to, raw: { from, to } };
};

/**
 * Grafana's plug-in for annotations is not in its packages: the line and the mark below are drawn
 * here.
 */
function markEpochs(config: UPlotConfigBuilder, annotations: readonly AnnotationJson[]): null {
  config.addHook("draw", (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    for (const { atMs, color } of annotations) {
      const x = Math.round(plot.valToPos(atMs, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.strokeStyle = theme.visualization.getColorByName(color);
      ctx.fillStyle = ctx.strokeStyle;
      ctx.setLineDash([4, 4]);
      ctx.lineWidth = 2;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.beginPath();
      ctx.moveTo(x - 6, bbox.top + bbox.height + 8);
      ctx.lineTo(x + 6, bbox.top + bbox.height + 8);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.fill();
    }
    ctx.restore();
  });
  return null;
}

function Graph({ panel, frames, size, board }: Drawn): ReactNode {
  const drawn = new Set<UPlotConfigBuilder>();
  return (
    <TimeSeries
      frames={frames}
      timeRange={rangeOf(board) as TimeRange & AbsoluteTimeRange}
      timeZone="utc"
      legend={panel.options.legend}
      options={{}}
      width={size.width}
      height={size.height}
    >
      {(config: UPlotConfigBuilder) => {
        if (!drawn.has(config)) markEpochs(config, board.annotations);
        drawn.add(config);
        return null;
      }}
    </TimeSeries>
  );
}

function Values({ panel, frames, size }: Drawn): ReactNode {
  const isBars = panel.type === "bargauge";
  const { options } = panel;
  const values = getFieldDisplayValues({
    fieldConfig: panel.fieldConfig,
    reduceOptions: options.reduceOptions,
    data: frames,
    replaceVariables: (text: string) => text,
    theme,
    timeZone: "utc",
    sparkline: !isBars,
  });
  const named = (display: DisplayValue): DisplayValue =>
    isBars || options.textMode === "value_and_name" || values.length > 1
      ? display
      : { ...display, title: undefined };
  return (
    <VizRepeater
      source={frames}
      renderCounter={1}
      width={size.width}
      height={size.height}
      orientation={isBars ? VizOrientation.Horizontal : VizOrientation.Auto}
      itemSpacing={isBars ? 8 : 3}
      minVizHeight={isBars ? 16 : undefined}
      maxVizHeight={isBars ? 300 : undefined}
      getValues={() => values}
      getAlignmentFactors={(all) => getDisplayValueAlignmentFactors(all)}
      renderValue={({ value, width, height, alignmentFactors, orientation, count }) =>
        isBars ? (
          <BarGauge
            value={named(value.display)}
            field={value.field}
            display={value.view?.getFieldDisplayProcessor(value.colIndex ?? 0)}
            theme={theme}
            displayMode={options.displayMode}
            text={options.text}
            orientation={orientation}
            width={width}
            height={height}
            itemSpacing={4}
            alignmentFactors={alignmentFactors}
            showUnfilled
          />
        ) : (
          <BigValue
            value={named(value.display)}
            count={count}
            sparkline={options.graphMode === "none" ? undefined : value.sparkline}
            colorMode={options.colorMode}
            graphMode={options.graphMode}
            justifyMode={options.justifyMode}
            textMode={options.textMode}
            alignmentFactors={alignmentFactors}
            theme={theme}
            width={width}
            height={height}
          />
        )
      }
    />
  );
}

function Content(drawn: Drawn): ReactNode {
  const { panel, frames, size } = drawn;
  if (!frames.some(({ length }) => length > 0))
    return <div style={{ color: theme.colors.text.secondary, padding: 16 }}>No data</div>;
  if (panel.type === "timeseries") return <Graph {...drawn} />;
  if (panel.type === "stat" || panel.type === "bargauge") return <Values {...drawn} />;
  if (panel.type === "table" && frames[0] !== undefined)
    return (
      <TableNG data={frames[0]} width={size.width} height={size.height} fieldConfig={panel.fieldConfig} />
    );
  return <div>this kind of panel cannot be drawn here: {panel.type}</div>;
}

function Framed(of: Omit<Drawn, "size">): ReactNode {
  const { panel, board } = of;
  const column = (board.width - MARGIN) / COLUMNS;
  const { x, y, w, h } = panel.gridPos;
  const place = {
    position: "absolute" as const,
    left: MARGIN + x * column,
    top: 48 + y * (CELL_HEIGHT + MARGIN),
    width: w * column - MARGIN,
    height: h * (CELL_HEIGHT + MARGIN) - MARGIN,
  };
  if (panel.type === "row")
    return (
      <div style={{ ...place, ...theme.typography.h5, color: theme.colors.text.primary }}>
        ⌄ {panel.title}
      </div>
    );
  return (
    <div style={place} data-panel={panel.title}>
      <PanelChrome
        title={panel.title}
        width={place.width}
        height={place.height}
        padding={panel.type === "table" ? "none" : "md"}
      >
        {(width: number, height: number) => <Content {...of} size={{ width, height }} />}
      </PanelChrome>
    </div>
  );
}

window.draw = async (board: BoardJson): Promise<void> => {
  const all = await Promise.all(
    board.panels.map(async (panel, index) => ({
      panel,
      frames: panel.type === "row" ? [] : await framesOf(panel, board.data[index] ?? [], board.stepMs),
    })),
  );
  const bottom = Math.max(...board.panels.map(({ gridPos }) => gridPos.y + gridPos.h));
  const root = document.createElement("div");
  document.body.replaceChildren(root);
  const height = 48 + bottom * (CELL_HEIGHT + MARGIN) + MARGIN;
  const eventBus = new EventBusSrv();
  createRoot(root).render(
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <PanelContextProvider value={{ eventsScope: "pictures", eventBus }}>
        <div
          id="board"
          style={{
            position: "relative",
            width: board.width,
            height,
            background: theme.colors.background.canvas,
          }}
        >
          <div style={{ ...theme.typography.h4, color: theme.colors.text.primary, padding: "12px 8px" }}>
            {board.title}
          </div>
          {all.map(({ panel, frames }, index) => (
            <Framed key={index} panel={panel} frames={frames} board={board} />
          ))}
        </div>
      </PanelContextProvider>
    </ThemeContext.Provider>,
  );
  // Graphs are drawn in the frames that follow, after texts were measured; a table when it knows
  // its size.
  const tables = all.filter(
    ({ panel, frames }) => panel.type === "table" && frames.some(({ length }) => length > 0),
  );
  for (let frame = 0; frame < FRAMES_MAX; frame++) {
    await new Promise(requestAnimationFrame);
    const filled = document.querySelectorAll("[role=grid]:has([role=gridcell])").length;
    if (frame >= FRAMES_MIN && filled >= tables.length) return;
  }
  throw new Error(`${board.title}: a table is not drawn`);
};
