// Goal: the built site is whole, needs no other server, and fits phone, tablet and desktop. Method: make it as make site does, serve it
// from a plain server of files, and open pages in Chromium at three widths, where a request elsewhere is refused and counted.
import assert from "node:assert/strict";
import { mkdir, readFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { type AddressInfo } from "node:net";
import { extname, join } from "node:path";
import { after, before, test } from "node:test";
import { type DevBrowser, launchBrowser, type Page, whyNoBrowser } from "@highwater/lab-tools/browser";
import { buildSite, DIST } from "../build.ts";

/** Where a run leaves pictures of the pages, for a person to look at. */
const PICTURES = process.env["HIGHWATER_SITE_PICTURES"];
const WIDTHS = { phone: 390, tablet: 820, desktop: 1440 };
const PAGES = {
  first: "/",
  guide: "/guide/choosing-levels/",
  api: "/api/gateway/",
};
const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".css": "text/css",
  ".js": "text/javascript",
  ".svg": "image/svg+xml",
  ".json": "application/json",
};
/** Installed here alone. */
const REDOCLY: string = "@redocly/openapi-core";
/** Rules of Redocly's recommended set that do not fit, and where. */
const UNFIT = [
  // Calls without a caller and without parameters have no error of the caller.
  /^operation-4xx-response #\/paths\/~1(errors|healthz|readyz|metrics)\/get\/responses$/,
  // Each item of a batch is judged on its own, so no schema refers to it.
  /^no-unused-components #\/components\/schemas\/Ticket(End|Request)$/,
  // An example of an error.
  /^no-invalid-parameter-examples #\/paths\/.+\/examples\/wrong\/value$/,
];
const skip = whyNoBrowser();

let server: Server;
let launched: DevBrowser;
let origin = "";

before(async () => {
  if (skip !== false) return;
  const { pages, links, faults } = await buildSite();
  assert.deepEqual(faults, []);
  assert.ok(pages > 250 && links > 10_000, `${String(pages)} pages, ${String(links)} links`);
  server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url ?? "/", "http://site").pathname);
    readFile(join(DIST, path.endsWith("/") ? `${path}index.html` : path)).then(
      (body) => {
        const type = TYPES[extname(path) === "" ? ".html" : extname(path)] ?? "application/octet-stream";
        response.writeHead(200, { "content-type": type }).end(body);
      },
      () => response.writeHead(404).end(),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
  launched = await launchBrowser();
});

after(async () => {
  if (skip !== false) return;
  await launched.close();
  server.close();
});

interface Opened {
  readonly page: Page;
  /** Errors of the page, requests to other servers, and answers that are none. */
  readonly faults: string[];
}

async function open(width: number, path: string): Promise<Opened> {
  const context = await launched.browser.newContext({ viewport: { width, height: 900 } });
  const page = await context.newPage();
  const faults: string[] = [];
  await context.route(
    (url) => url.origin !== origin && /^(?:https?|wss?):$/.test(url.protocol),
    (route) => {
      faults.push(`a request to ${route.request().url()}`);
      return route.abort();
    },
  );
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error") faults.push(message.text());
  });
  page.on("response", (response) => {
    if (response.status() >= 400) faults.push(`${String(response.status())} ${response.url()}`);
  });
  await page.goto(`${origin}${path}`, { waitUntil: "networkidle" });
  return { page, faults };
}

for (const [size, width] of Object.entries(WIDTHS))
  for (const [name, path] of Object.entries(PAGES))
    test(`the page ${path} fits a ${size}, without errors and requests elsewhere`, { skip }, async () => {
      const { page, faults } = await open(width, path);
      const excess = await page.evaluate("document.documentElement.scrollWidth - window.innerWidth");
      assert.ok(Number(excess) <= 0, `${String(excess)} pixels too wide`);
      assert.deepEqual(faults, []);
      if (PICTURES !== undefined) {
        await mkdir(PICTURES, { recursive: true });
        await page.screenshot({ path: join(PICTURES, `${name}-${size}.png`) });
      }
      await page.context().close();
    });

test("a chosen language counts for all pairs of code, and for the next page", { skip }, async () => {
  const { page, faults } = await open(WIDTHS.desktop, PAGES.guide);
  const shown = (): Promise<unknown> =>
    page.evaluate(
      `[...document.querySelectorAll('[role="tabpanel"]:not([hidden])')].map((panel) => panel.dataset.language)`,
    );
  assert.deepEqual(await shown(), ["TypeScript", "TypeScript", "TypeScript"]);
  await page.getByRole("tab", { name: "Python" }).nth(1).click();
  assert.deepEqual(await shown(), ["Python", "Python", "Python"]);
  await page.goto(`${origin}/guide/handling-loss/`, { waitUntil: "networkidle" });
  const next = (await shown()) as string[];
  assert.ok(next.length > 0 && next.every((language) => language === "Python"), next.join());
  assert.deepEqual(faults, []);
  await page.context().close();
});

test("the search finds an error code and leads to its page", { skip }, async () => {
  const { page, faults } = await open(WIDTHS.desktop, PAGES.first);
  await page.getByRole("button", { name: "Search" }).first().click();
  await page.locator("dialog input").fill("exposure_limit");
  const link = page.locator('dialog a[href="/errors/exposure_limit/"]').first();
  await link.waitFor();
  await link.click();
  await page.waitForURL(`${origin}/errors/exposure_limit/`);
  assert.equal(await page.locator("h1").innerText(), "exposure_limit");
  assert.deepEqual(faults, []);
  await page.context().close();
});

interface Redocly {
  readonly createConfig: (options: object) => Promise<unknown>;
  readonly lint: (options: {
    readonly ref: string;
    readonly config: unknown;
  }) => Promise<readonly { readonly ruleId: string; readonly location: readonly { pointer?: string }[] }[]>;
}

for (const name of ["openapi.json", "tracker-openapi.json"])
  test(`${name} passes Redocly's recommended rules`, async () => {
    const { createConfig, lint } = (await import(REDOCLY)) as Redocly;
    const ref = join(import.meta.dirname, "../../docs/reference", name);
    const problems = await lint({ ref, config: await createConfig({ extends: ["recommended"] }) });
    const found = problems.map(({ ruleId, location }) => `${ruleId} ${location[0]?.pointer ?? ""}`);
    assert.deepEqual(
      found.filter((one) => !UNFIT.some((known) => known.test(one))),
      [],
    );
  });
