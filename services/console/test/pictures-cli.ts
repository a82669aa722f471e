// `make console-pictures`: draws the views of the console in Chromium, before and after the loss of
// a region. `--out FOLDER`, `--widths 1280,820,390`, `--schemes light,dark`.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import { launchBrowser, type Page } from "@highwater/lab-tools/browser";
import { readOptions } from "@highwater/lab-tools/process";
import { openConsole, Scene, show, signIn } from "./scene.ts";

const HEIGHT = 800;
const LIMIT_MS = 120_000;
/** So long the plots get values. */
const LOAD_MS = 20_000;
const ORDER_EVERY_MS = 150;
const AT_RISK = 12;

const { values } = readOptions(import.meta.filename, {
  options: {
    out: { type: "string", default: fileURLToPath(new URL("../../../.tmp/console", import.meta.url)) },
    widths: { type: "string", default: "1280,820,390" },
    schemes: { type: "string", default: "light,dark" },
  },
});
const widths = values.widths.split(",").map(Number);
const schemes = values.schemes.split(",").filter((name) => name === "light" || name === "dark");
await mkdir(values.out, { recursive: true });
await using scene = await Scene.start();
await using launched = await launchBrowser();
const faults: string[] = [];
const page = await openConsole(launched.browser, { url: scene.url, faults });
page.setDefaultTimeout(LIMIT_MS);

async function draw(on: Page, name: string): Promise<void> {
  for (const colorScheme of schemes) {
    await on.emulateMedia({ colorScheme });
    for (const width of widths) {
      await on.setViewportSize({ width, height: HEIGHT });
      // Two frames: the plots take their new size in the first.
      await on.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))");
      const path = join(values.out, `${name}-${colorScheme}-${String(width)}.png`);
      await on.screenshot({ path, fullPage: true });
      console.log(path);
    }
  }
}

async function showTransaction(text: string): Promise<void> {
  await show(page, "A transaction");
  await page.getByLabel("Token or id of a transaction").fill(text);
  await page.keyboard.press("Enter");
}

await page.getByLabel("API key or token").waitFor();
await draw(page, "sign-in");
await signIn(page, scene.key);
let last = await scene.order("1000");
for (let at = 1; at < LOAD_MS / ORDER_EVERY_MS; at++) {
  last = await scene.order(String(1_000 + at));
  await sleep(ORDER_EVERY_MS);
}
await draw(page, "now");
await showTransaction(last.token);
await page.getByText("Durable at global").waitFor();
await draw(page, "transaction");
await show(page, "Now");
await scene.starve();
for (let at = 0; at < AT_RISK; at++) last = await scene.order(String(2_000 + at));
await scene.untilPending(AT_RISK);
await page.getByText("Stalled: region").waitFor();
await draw(page, "at-risk");
await show(page, "Before a failover");
await page.getByText("most advanced").waitFor();
await draw(page, "before");
await scene.loseRegion();
await showTransaction(last.token);
await page.getByText("Reported as lost").waitFor();
await draw(page, "lost");
await show(page, "After a failover");
await page.getByRole("row").filter({ hasText: "transaction.lost" }).first().waitFor();
await draw(page, "after");
for (const fault of faults) console.error(fault);
process.exitCode = faults.length === 0 ? 0 : 1;
