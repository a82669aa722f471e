// Draws a picture of each dashboard from live data: the whole product on this machine, under load,
// through the loss of a region. Grafana's own panel components draw them in a headless Chromium;
// there is no Grafana server. `--out FOLDER`, `--seconds N` of load before and after.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { readOptions } from "@highwater/lab-tools/process";
import { launchBrowser } from "@highwater/lab-tools/browser";
import { type DevPrometheus, type Series } from "@highwater/lab-tools/prometheus";
import { play, type Scene } from "../live/scenario.ts";
import { BOARDS } from "../src/files.ts";
import { fillIn, type PanelJson, readDashboard } from "../src/queries.ts";

const WIDTH = 1600;
const CELL_HEIGHT = 38;
const HEIGHT_MAX = 8_000;
const STEP_SECONDS = 1;
const RATE_SECONDS = 15;
const DRAW_LIMIT_MS = 120_000;

const { values } = readOptions(import.meta.filename, {
  options: {
    out: { type: "string", default: fileURLToPath(new URL("../../.tmp/dashboards", import.meta.url)) },
    seconds: { type: "string", default: "60" },
  },
});
const seconds = Number(values.seconds);
if (!(seconds >= 5 && seconds <= 3_600)) throw new Error("--seconds is 5 to 3600");

const jsonOf = (series: readonly Series[]) =>
  series.map(({ labels, points }) => ({
    labels,
    // JSON has neither NaN nor infinities; Grafana leaves a gap there.
    points: points.map(([at, value]) => [at, Number.isFinite(value) ? value : null]),
  }));

/** Of bars, each counts what came since the one before. */
const stepOf = (expr: string): number => (expr.includes("$__interval") ? RATE_SECONDS : STEP_SECONDS);

async function dataOf(prometheus: DevPrometheus, panel: PanelJson, scene: Scene) {
  const { fromSeconds, toSeconds } = scene;
  const rangeSeconds = Math.round(toSeconds - fromSeconds);
  return Promise.all(
    (panel.targets ?? []).map(async ({ refId, expr, legendFormat, instant }) => {
      const filled = fillIn(expr, { rateSeconds: RATE_SECONDS, rangeSeconds });
      const series =
        instant === true
          ? await prometheus.query(filled, toSeconds)
          : await prometheus.queryRange(filled, { fromSeconds, toSeconds, stepSeconds: stepOf(expr) });
      return { refId, legend: legendFormat, series: jsonOf(series) };
    }),
  );
}

async function annotationsOf(prometheus: DevPrometheus, name: string, { fromSeconds, toSeconds }: Scene) {
  const found = readDashboard(name).annotations.list.filter(({ expr }) => expr !== undefined);
  const all = await Promise.all(
    found.map(async ({ expr = "", iconColor }) => {
      const series = await prometheus.queryRange(expr, { fromSeconds, toSeconds, stepSeconds: STEP_SECONDS });
      return series.map(({ labels, points }) => ({
        atMs: Math.floor(points.at(-1)?.[1] ?? 0),
        color: iconColor ?? "purple",
        title: `${labels["cause"] ?? ""} ${labels["node"] ?? ""}`,
      }));
    }),
  );
  return all.flat();
}

const log = (line: string): void => {
  console.log(line);
};
await mkdir(values.out, { recursive: true });
await using scene = await play({ beforeMs: seconds * 1_000, afterMs: seconds * 1_000, log });
await using launched = await launchBrowser();
const page = await launched.browser.newPage({ viewport: { width: WIDTH, height: 1_000 }, locale: "en-US" });
page.on("pageerror", (error) => {
  console.error(`page: ${error.message}`);
  process.exitCode = 1;
});
// A page of an origin: without one there is no local storage. Nothing leaves the browser: Grafana
// would have fonts and icons there.
await page.route("http://dashboards.test/**", (route) =>
  route.request().url() === "http://dashboards.test/"
    ? route.fulfill({ contentType: "text/html", body: "<!doctype html><html><body></body></html>" })
    : route.abort(),
);
await page.goto("http://dashboards.test/");
for (const file of ["main.css", "main.js"]) {
  const path = fileURLToPath(new URL(`dist/${file}`, import.meta.url));
  await (file.endsWith(".css") ? page.addStyleTag({ path }) : page.addScriptTag({ path }));
}
for (const { name } of BOARDS) {
  const { title, panels } = readDashboard(name);
  const data = await Promise.all(panels.map((panel) => dataOf(scene.prometheus, panel, scene)));
  const board = {
    title,
    panels,
    data: Object.fromEntries(data.entries()),
    width: WIDTH,
    annotations: await annotationsOf(scene.prometheus, name, scene),
    fromMs: scene.fromSeconds * 1_000,
    toMs: scene.toSeconds * 1_000,
    stepMs: STEP_SECONDS * 1_000,
  };
  // All of it in view: what is out of sight is not drawn by everything.
  const bottom = Math.max(...panels.map(({ gridPos }) => gridPos.y + gridPos.h));
  await page.setViewportSize({ width: WIDTH, height: Math.min((bottom + 2) * CELL_HEIGHT, HEIGHT_MAX) });
  await page.evaluate(`window.draw(${JSON.stringify(board)})`);
  const path = join(values.out, `highwater-${name}.png`);
  await page.locator("#board").screenshot({ path, timeout: DRAW_LIMIT_MS });
  const empty = await page.getByText("No data").count();
  log(`${path}${empty === 0 ? "" : `: ${String(empty)} panels without data`}`);
}
