// Writes into .tmp what Astro builds the site from: pages with their front matter, files that are
// offered as they are, and the sidebar.
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { apiPage, type OpenApi } from "./api.ts";
import { errorPages } from "./errors.ts";
import { homePage } from "./home.ts";
import { pairLanguages } from "./languages.ts";
import { fileOf, type SitePage } from "./markdown.ts";
import { APIS, README, readSources, renderPage, type Sources, withSiteLinks } from "./pages.ts";
import { sidebarOf } from "./sidebar.ts";

export const SITE = join(import.meta.dirname, "..");
const ROOT = join(SITE, "..");
const OUT = join(SITE, ".tmp");
const ERRORS = "/reference/errors/";

/** All pages by address. Errors: two with one address, or a link that leads nowhere. */
export function makePages(sources: Sources): Map<string, SitePage> {
  const pages = new Map<string, SitePage>();
  const add = (page: SitePage): void => {
    if (pages.has(page.address)) throw new Error(`two pages have the address ${page.address}`);
    pages.set(page.address, page);
  };
  for (const path of sources.pages.keys()) if (path !== README) add(renderPage(ROOT, path, sources));
  const readme = withSiteLinks(ROOT, README, sources.pages.get(README) ?? "", sources);
  add(homePage(readme, readFileSync(join(SITE, "problem.svg"), "utf8")));
  for (const [path, address] of Object.entries(APIS)) {
    const document = JSON.parse(readFileSync(join(ROOT, path), "utf8")) as OpenApi;
    add(apiPage(document, address, `/files/${path}`));
  }
  for (const page of errorPages(pages.get(ERRORS)?.body ?? "")) add(page);
  return pages;
}

/** Replaces everything that an earlier run wrote. */
export function prepare(): void {
  const sources = sourcesHere();
  const pages = makePages(sources);
  rmSync(OUT, { recursive: true, force: true });
  for (const page of pages.values()) {
    const name = page.address === "/" ? "index" : page.address.slice(1, -1);
    write(`content/${name}.md`, fileOf({ ...page, body: pairLanguages(page.body) }));
  }
  write("sidebar.json", JSON.stringify(sidebarOf(pages)));
  cpSync(join(SITE, "public"), join(OUT, "public"), { recursive: true });
  for (const path of sources.files) {
    const to = join(OUT, "public/files", path);
    mkdirSync(dirname(to), { recursive: true });
    cpSync(join(ROOT, path), to);
  }
}

function write(path: string, text: string): void {
  mkdirSync(dirname(join(OUT, path)), { recursive: true });
  writeFileSync(join(OUT, path), text);
}

/** What the pages are made from, in this repository. */
export function sourcesHere(): Sources {
  return readSources(ROOT);
}
