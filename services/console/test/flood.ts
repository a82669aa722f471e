// A minute of many events in a page with the console, and what the page holds before and after it.
import { eventually } from "@highwater/lab-tools/process";
import type { Browser, Page } from "@highwater/lab-tools/browser";
import { openConsole, show } from "./scene.ts";
import type { StandIn } from "./stand-in.ts";

/** More than the page keeps: from the start each new event takes the place of an old one. */
export const RECORDED = 21_000;
/** Until the page keeps as many durable transactions as it may. */
const WARM_UP = 3_000;

interface Held {
  readonly heapBytes: number;
  readonly nodes: number;
  readonly listeners: number;
}

interface Frames {
  readonly perSecond: number;
  /** The longest time between two frames. */
  readonly longestMs: number;
}

export interface Flooded {
  readonly before: Held;
  readonly after: Held;
  /** By view. */
  readonly frames: Readonly<Record<string, Frames>>;
  readonly faults: readonly string[];
}

const EVENTS = "After a failover";

/** Half of the events come while the page shows events, half while it shows marks and plots. */
export async function floodPage(
  standIn: StandIn,
  browser: Browser,
  { count, perSecond, limitMs }: { count: number; perSecond: number; limitMs: number },
): Promise<Flooded> {
  const faults: string[] = [];
  const page = await openConsole(browser, { url: standIn.url, faults });
  page.setDefaultTimeout(limitMs);
  await show(page, EVENTS);
  await page.getByLabel("Show as they become durable at").selectOption("region");
  await eventually("the page follows both streams", () => Promise.resolve(standIn.isFollowed));
  await untilShown(page, await standIn.flood(WARM_UP, perSecond));
  const before = await heldBy(page);
  const frames: Record<string, Frames> = {};
  let last = "";
  for (const view of [EVENTS, "Now"]) {
    await show(page, view);
    frames[view] = await countFrames(page, async () => {
      last = await standIn.flood(count / 2, perSecond);
    });
  }
  await show(page, EVENTS);
  await untilShown(page, last);
  const after = await heldBy(page);
  await page.context().close();
  return { before, after, frames, faults };
}

async function untilShown(page: Page, id: string): Promise<void> {
  await page.getByRole("row").filter({ hasText: id }).first().waitFor();
}

/** What is left after a collection of garbage. */
async function heldBy(page: Page): Promise<Held> {
  const session = await page.context().newCDPSession(page);
  // The second one frees what only finalizers of the first have let go.
  for (let turn = 0; turn < 2; turn++) await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  const { nodes, jsEventListeners } = await session.send("Memory.getDOMCounters");
  await session.detach();
  return { heapBytes: usedSize, nodes, listeners: jsEventListeners };
}

/** Of the frames that the page draws meanwhile. */
async function countFrames(page: Page, run: () => Promise<void>): Promise<Frames> {
  await page.evaluate(`
    window.frames = { times: [], isCounted: true };
    (function countFrom(frames) {
      requestAnimationFrame((atMs) => {
        if (!frames.isCounted) return;
        frames.times.push(atMs);
        countFrom(frames);
      });
    })(window.frames);
  `);
  await run();
  // A frame that is asked for already still comes, after the page has let go of the times.
  const times = await page.evaluate<number[]>("(frames.isCounted = false, frames.times)");
  await page.evaluate("delete window.frames");
  const gaps = times.slice(1).map((atMs, at) => atMs - (times[at] ?? atMs));
  const totalMs = (times.at(-1) ?? 0) - (times[0] ?? 0);
  return { perSecond: (1_000 * gaps.length) / totalMs, longestMs: Math.max(0, ...gaps) };
}
