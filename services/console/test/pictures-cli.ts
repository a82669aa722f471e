// `make console-pictures`: draws the views of the console in Chromium, before and after the loss of
// a region. `--out FOLDER`, `--widths 1280,768,360`, `--schemes light,dark`. With `--docs` it draws
// only the pictures of docs/guide/console.md. Ids and times are those of the run, all else is the
// same in every run.
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import { launchBrowser } from "@highwater/lab-tools/browser";
import { readOptions } from "@highwater/lab-tools/process";
import { drawn, openConsole, Scene, show, signIn, WEST } from "./scene.ts";

const HEIGHT = 800;
const LIMIT_MS = 120_000;
/** So long the plots get values. */
const LOAD_MS = 20_000;
const ORDER_EVERY_MS = 150;
const AT_RISK = 4;
const DOCS = fileURLToPath(new URL("../../../docs/guide/pictures", import.meta.url));
/** Of the pictures of the docs, in which text stays legible beside other text. */
const DOCS_WIDTH = 1_120;
const DOCS_QUALITY = 60;
/** By the views that the docs show. */
const DOCS_NAMES: Readonly<Record<string, string>> = {
  "at-risk": "console-now",
  lost: "console-transaction",
  after: "console-after",
  before: "console-before",
  keys: "console-keys",
};

const { values } = readOptions(import.meta.filename, {
  options: {
    out: { type: "string", default: fileURLToPath(new URL("../../../.tmp/console", import.meta.url)) },
    widths: { type: "string", default: "1280,768,360" },
    schemes: { type: "string", default: "light,dark" },
    docs: { type: "boolean", default: false },
  },
});
const widths = values.widths.split(",").map(Number);
const schemes = values.schemes.split(",").filter((name) => name === "light" || name === "dark");
const folder = values.docs ? DOCS : values.out;
await mkdir(folder, { recursive: true });
await using scene = await Scene.start();
await using launched = await launchBrowser();
const faults: string[] = [];
const page = await openConsole(launched.browser, { url: scene.url, faults });
page.setDefaultTimeout(LIMIT_MS);

async function draw(name: string): Promise<void> {
  if (values.docs) {
    const docsName = DOCS_NAMES[name];
    if (docsName !== undefined) await drawForDocs(docsName);
    return;
  }
  for (const colorScheme of schemes) {
    await page.emulateMedia({ colorScheme });
    for (const width of widths) {
      await page.setViewportSize({ width, height: HEIGHT });
      await drawn(page);
      const path = join(folder, `${name}-${colorScheme}-${String(width)}.png`);
      await page.screenshot({ path, fullPage: true });
      console.log(path);
    }
  }
}

/** Playwright writes no WebP, which takes a third of a PNG. */
async function drawForDocs(name: string): Promise<void> {
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: DOCS_WIDTH, height: HEIGHT });
  await drawn(page);
  const height = await page.evaluate<number>("document.documentElement.scrollHeight");
  await page.setViewportSize({ width: DOCS_WIDTH, height });
  await drawn(page);
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: DOCS_QUALITY });
  await session.detach();
  const path = join(folder, `${name}.webp`);
  const picture = Buffer.from(data, "base64");
  await writeFile(path, picture);
  console.log(`${path}: ${String(picture.length)} bytes`);
}

async function showTransaction(text: string): Promise<void> {
  await show(page, "A transaction");
  await page.getByLabel("Token or id of a transaction").fill(text);
  await page.keyboard.press("Enter");
}

await page.getByLabel("API key or token").waitFor();
await draw("sign-in");
await signIn(page, scene.key);
const parcel = await scene.makeParcel();
let last = await scene.order("1000");
for (let at = 1; at < LOAD_MS / ORDER_EVERY_MS; at++) {
  last = await scene.order(String(1_000 + at));
  await sleep(ORDER_EVERY_MS);
}
await draw("now");
await showTransaction(last.token);
await page.getByText("Durable at global").waitFor();
await draw("transaction");
await scene.makeKeys();
await show(page, "Keys and limits");
await page.getByRole("rowheader", { name: "crane's orders" }).waitFor();
await page.getByRole("rowheader", { name: "us-west" }).first().waitFor();
await draw("keys");
await scene.makeWebhook();
await show(page, "Webhooks");
await page.getByRole("button", { name: /^Send a test message/ }).click();
await page.getByRole("link", { name: "https://127.0.0.1:9/orders" }).click();
await page.getByRole("button", { name: /^Show the attempts/ }).click();
await page.getByRole("cell", { name: "connection" }).first().waitFor();
await draw("webhooks");
await show(page, "Now");
await scene.starve();
for (let at = 0; at < AT_RISK; at++) last = await scene.order(String(2_000 + at));
await scene.ship(parcel, "Porto");
await scene.untilPending(AT_RISK + 1);
await page.getByText("Stalled: region").waitFor();
await draw("at-risk");
await show(page, "Before a failover");
await page.getByText("most advanced").waitFor();
await draw("before");
await scene.loseRegion();
await showTransaction(last.token);
await page.getByText("Lost at region", { exact: true }).waitFor();
await page.getByText("Reported as lost").waitFor();
await draw("lost");
await show(page, "After a failover");
await page.getByRole("row").filter({ hasText: "transaction.lost" }).first().waitFor();
// The losses alone: events of the system would make the picture of the docs long.
if (values.docs) await page.getByLabel("Type").selectOption("transaction.lost");
await scene.ship(parcel, "Faro", WEST);
await page.getByRole("button", { name: "Dry run of all" }).click();
await page.getByText("would be replayed").first().waitFor();
await draw("after");
for (const fault of faults) console.error(fault);
process.exitCode = faults.length === 0 ? 0 : 1;
