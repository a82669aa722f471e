// Goal: links inside the documentation lead somewhere. Method: every relative link in any page of the repository names a file that
// exists, and every anchor a heading of it. A page that uses a term of the glossary links to the glossary.
import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync, statSync } from "node:fs";
import { test } from "node:test";
import { anchorOf } from "@highwater/lab-tools/markdown";

const ROOT = new URL("../../", import.meta.url);
const PAGES = globSync("**/*.md", {
  cwd: ROOT,
  exclude: (name) => name === "node_modules" || name.startsWith("."),
}).sort();

/** As headings are named in an address; of several that read the same, the second ends in -1. */
function anchorsOf(markdown: string): string[] {
  const seen = new Map<string, number>();
  const prose = markdown.replaceAll(/^```.*?^```$/gms, "");
  return [...prose.matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) => {
    const name = anchorOf(title);
    const before = seen.get(name) ?? 0;
    seen.set(name, before + 1);
    return before === 0 ? name : `${name}-${String(before)}`;
  });
}

const anchors = new Map<string, string[]>();

function hasAnchor(file: URL, anchor: string): boolean {
  if (statSync(file).isDirectory()) return false;
  const known = anchors.get(file.href) ?? anchorsOf(readFileSync(file, "utf8"));
  anchors.set(file.href, known);
  return known.includes(anchor);
}

test("links lead somewhere", () => {
  const broken: string[] = [];
  let count = 0;
  for (const path of PAGES) {
    const page = new URL(path, ROOT);
    for (const [, link = ""] of readFileSync(page, "utf8").matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(link)) continue;
      count += 1;
      const target = new URL(link, page);
      const anchor = target.hash.slice(1);
      const file = new URL(target.pathname, target);
      const isThere = existsSync(file) && (anchor === "" || hasAnchor(file, anchor));
      if (!isThere) broken.push(`${path}: ${link}`);
    }
  }
  assert.deepEqual(broken, []);
  assert.ok(count > 50, `${String(count)} links were looked at`);
});

// Pages of a folder's own words, or made from the code.
const WITHOUT_TERMS = /decisions|terraform|sdk-(?:python|typescript)|glossary|SECURITY|CONTRIBUTING/;
const TERM = /\b(?:epoch|verdict|exposure|receipt|tombstone|ledger|fork offset)s?\b/;

test("a page that uses a word of the glossary links to it", () => {
  const unlinked = PAGES.filter((path) => !WITHOUT_TERMS.test(path)).filter((path) => {
    const text = readFileSync(new URL(path, ROOT), "utf8");
    const prose = text.replaceAll(/^```.*?^```$|`[^`]*`|\]\([^)]*\)/gms, "");
    return TERM.test(prose) && !text.includes("glossary.md");
  });
  assert.deepEqual(unlinked, []);
});

test("the index of decisions lists each one", () => {
  const index = readFileSync(new URL("docs/decisions/README.md", ROOT), "utf8");
  const missing = PAGES.filter((path) => path.startsWith("docs/decisions/"))
    .map((path) => path.slice("docs/decisions/".length))
    .filter((name) => name !== "README.md" && !index.includes(`](${name})`));
  assert.deepEqual(missing, []);
});
