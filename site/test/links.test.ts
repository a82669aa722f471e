// Goal: the check of the built site finds what is broken. Method: a folder of small pages with one fault each.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { checkSite } from "../check/links.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "highwater-site-"));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const RIGHT: Readonly<Record<string, string>> = {
  "index.html": `<a href="/there/#part">x</a> <a href="there/">y</a> <a href="https://elsewhere.example/">z</a> <script>'<a href="/no/">'</script>`,
  "there/index.html": `<h2 id="part">x</h2><a href="#part"></a><img src="../a.svg"><link rel="canonical" href="https://x.example/">`,
  "a.svg": "<svg/>",
  "a.css": `@import "b.css"; a { background: url(data:image/png;base64,AA) }`,
  "b.css": "",
};

function faultsWith(changed: Readonly<Record<string, string>> = {}): readonly string[] {
  for (const [path, text] of Object.entries({ ...RIGHT, ...changed })) {
    mkdirSync(join(folder, dirname(path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return checkSite(folder).faults;
}

test("a site whose links all lead somewhere has no fault", () => {
  assert.deepEqual(faultsWith(), []);
  const { pages, links } = checkSite(folder);
  assert.deepEqual({ pages, links }, { pages: 2, links: 4 });
});

for (const [what, path, text, fault] of [
  [
    "a link to a page that is missing",
    "index.html",
    `<a href="/gone/">`,
    "/index.html: /gone/ leads nowhere",
  ],
  [
    "a link to an anchor that is missing",
    "index.html",
    `<a href=/there/#no>`,
    "/index.html: /there/#no has no such anchor",
  ],
  ["an image that is missing", "index.html", `<img src='x.png'>`, "/index.html: x.png leads nowhere"],
  [
    "a script from elsewhere",
    "index.html",
    `<script src="https://cdn.example/x.js"></script>`,
    "/index.html loads https://cdn.example/x.js",
  ],
  [
    "a style sheet from elsewhere",
    "index.html",
    `<link rel="stylesheet" href="//cdn.example/x.css">`,
    "/index.html loads //cdn.example/x.css",
  ],
  [
    "a font from elsewhere",
    "a.css",
    `@font-face { src: url("https://fonts.example/x.woff2") }`,
    "/a.css loads https://fonts.example/x.woff2",
  ],
] as const)
  test(`a fault: ${what}`, () => {
    assert.deepEqual(faultsWith({ [path]: text }), [fault]);
  });
