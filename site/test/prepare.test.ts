// Goal: the site has the repository's pages as they stand. Method: the preparation runs on the real pages and on made-up ones; no page
// is built.
import assert from "node:assert/strict";
import { test } from "node:test";
import { anchorOf } from "@highwater/lab-tools/markdown";
import { ERRORS } from "@highwater/protocol";
import { pairLanguages } from "../prepare/languages.ts";
import { changeLinks, fileOf, sectionsOf, splitTitle, withoutComments } from "../prepare/markdown.ts";
import { addressOf } from "../prepare/pages.ts";
import { makePages, sourcesHere } from "../prepare/prepare.ts";
import { type SidebarItem, sidebarOf } from "../prepare/sidebar.ts";

const sources = sourcesHere();
const pages = makePages(sources);

test("every page of docs is on the site, and under its title", () => {
  const docs = [...sources.pages.keys()].filter((path) => path.startsWith("docs/"));
  assert.ok(docs.length > 150, String(docs.length));
  for (const path of docs) assert.ok(pages.has(addressOf(path)), path);
  assert.equal(pages.get("/guide/choosing-levels/")?.title, "Choosing a level");
});

test("every error code has a page at the path that error responses name", () => {
  for (const [code, { title }] of Object.entries(ERRORS)) {
    const page = pages.get(`/errors/${code}/`);
    assert.equal(page?.title, code);
    assert.ok(page.body.startsWith(title) && page.body.includes("**Fix.**"), code);
  }
});

test("the calls and schemas of both services have sections", () => {
  assert.match(pages.get("/api/gateway/")?.body ?? "", /^### `POST \/v1\/transactions`$/m);
  assert.match(pages.get("/api/tracker/")?.body ?? "", /^### MarksResponse$/m);
});

test("the first page has the picture, four lines of code, and when not to use Highwater", () => {
  const { body = "", extra } = pages.get("/") ?? {};
  assert.match(JSON.stringify(extra?.["hero"]), /<svg/);
  const places = ["await tx.durable(", "## When not to use it", "txn-gateway", "## Try it"].map((part) =>
    body.indexOf(part),
  );
  assert.deepEqual(
    places,
    places.toSorted((one, other) => one - other),
  );
  assert.ok(
    places.every((place) => place >= 0),
    places.join(),
  );
  const [, code = ""] = /```typescript\n(.*?)\n```/s.exec(body) ?? [];
  assert.equal(code.split("\n").length, 4);
});

test("the sidebar has every page once, and begins as the guide's index does", () => {
  const linksOf = (items: readonly SidebarItem[]): string[] =>
    items.flatMap((item) => ("link" in item ? [item.link] : linksOf(item.items)));
  const sidebar = sidebarOf(pages);
  const links = linksOf(sidebar);
  assert.deepEqual(links.toSorted(), [...pages.keys()].filter((address) => address !== "/").sort());
  const titles = sectionsOf(pages.get("/guide/")?.body ?? "").map(({ heading }) => heading);
  assert.deepEqual(sidebar.map(({ label }) => label).slice(0, titles.length - 1), titles.slice(1));
  assert.equal(links[0], "/guide/");
});

test("blocks of TypeScript and Python side by side are a pair, and others are not", () => {
  const [ts, python, text] = ["ts", "python", "text"].map((kind) => `\`\`\`${kind}\ncode\n\`\`\``);
  const pair = pairLanguages(`${ts ?? ""}\n\n${python ?? ""}`);
  assert.match(
    pair,
    /^<div class="languages">\n<div data-language="TypeScript">\n\n```ts\ncode\n```\n\n<\/div>/,
  );
  assert.match(pair, /<div data-language="Python">/);
  for (const alone of [
    `${ts ?? ""}\n\n${text ?? ""}`,
    `${ts ?? ""}\n\n${ts ?? ""}`,
    `${ts ?? ""}\n\nor\n\n${python ?? ""}`,
  ])
    assert.equal(pairLanguages(alone), alone);
  const guide = pairLanguages(pages.get("/guide/choosing-levels/")?.body ?? "");
  assert.equal(guide.match(/class="languages"/g)?.length, 3);
});

test("links and comments change in prose alone", () => {
  const page = "[`a](b)`](c#d)\n<!-- said -->\n```sh\n[e](f) <!-- kept -->\n```\n`[g](h)`\n";
  assert.equal(
    withoutComments(changeLinks(page, (target) => target.toUpperCase())),
    "[`a](b)`](C#D)\n```sh\n[e](f) <!-- kept -->\n```\n`[g](h)`\n",
  );
});

test("a page's title leaves its text, and becomes a field of its file", () => {
  const { title, body } = splitTitle('# The `"x"`: y\n\n## z\n');
  assert.equal(fileOf({ address: "/x/", title, body }), '---\ntitle: "The \\"x\\": y"\n---\n\n## z\n');
  assert.equal(anchorOf("Where is `lost` decided?"), "where-is-lost-decided");
  assert.throws(() => splitTitle("no heading"), /no heading/);
});
