// Goal: a browser starts wherever the tests run, draws text, and leaves nothing behind. If there is
// no browser, the message says why. Method: the real browser, and the function that chooses one,
// for other kinds of machines.
import assert from "node:assert/strict";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { findBrowser, launchBrowser, whyNoBrowser } from "../src/browser/index.ts";

const skip = whyNoBrowser();

test("it opens a page, draws letters, and leaves neither process nor file", { skip }, async (context) => {
  const folder = await mkdtemp(join(tmpdir(), "highwater-browser-test-"));
  context.after(() => rm(folder, { recursive: true, force: true }));
  const before = process.env["TMPDIR"];
  process.env["TMPDIR"] = folder;
  context.after(() => {
    if (before === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = before;
  });
  {
    await using launched = await launchBrowser();
    const page = await launched.browser.newPage();
    await page.setContent(`<span style="font: 40px sans-serif">letters</span>`);
    const width = await page.evaluate<number>(`document.querySelector("span").getBoundingClientRect().width`);
    assert.ok(width > 40, "there is a font");
    assert.equal(await page.evaluate("typeof ReadableStream"), "function");
    assert.ok((await readdir(folder)).length > 0, "all that it writes is there");
  }
  assert.deepEqual(await readdir(folder), []);
});

test("which one is chosen, and why there is none", () => {
  const machine = (
    platform: string,
    env: Record<string, string>,
    ...files: string[]
  ): Parameters<typeof findBrowser>[0] => ({
    ...{ platform, env, exists: (path) => files.includes(path) },
  });
  assert.equal(findBrowser(machine("linux x64", { PATH: "/usr/bin" }, "/usr/bin/chromium")), "packed");
  const named = { HIGHWATER_CHROMIUM: "/opt/mine", PATH: "/usr/bin" };
  assert.deepEqual(findBrowser(machine("linux x64", named)), { path: "/opt/mine" });
  const path = { PATH: "/usr/bin:/usr/local/bin" };
  assert.deepEqual(findBrowser(machine("darwin arm64", path, "/usr/local/bin/chromium")), {
    path: "/usr/local/bin/chromium",
  });
  assert.match(
    String(whyNoBrowser(machine("linux arm64", path))),
    /^no browser: none is packed for linux arm64/,
  );
  assert.equal(whyNoBrowser(machine("linux x64", {})), false);
});
