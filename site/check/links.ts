// Reads the built pages: every link inside the site leads to a page, a file or an anchor that is
// there, and no page loads anything from another origin.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface Findings {
  readonly pages: number;
  readonly links: number;
  readonly faults: readonly string[];
}

const TAG = /<(?<name>[a-z][a-z0-9-]*)(?<attributes>[^>]*)>/gi;
const ATTRIBUTE = /([a-z-]+)=(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))/gi;
/** Where a style sheet loads something. */
const STYLE_ADDRESS = /@import\s+["']([^"']+)|url\(\s*["']?([^"')]+)/g;
/** Relations of <link> that load nothing. */
const PASSIVE = /\b(?:canonical|alternate|prev|next|sitemap)\b/;
const OUTSIDE = /^(?:[a-z][a-z0-9+.-]*:)?\/\//i;

interface Page {
  readonly ids: ReadonlySet<string>;
  readonly links: readonly string[];
  readonly loads: readonly string[];
}

export function checkSite(folder: string): Findings {
  const names = new Set(
    globSync("**/*", { cwd: folder, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => `/${join(entry.parentPath, entry.name).slice(folder.length).replace(/^\//, "")}`),
  );
  const pages = new Map<string, Page>();
  const faults: string[] = [];
  for (const name of names) {
    const text = (): string => readFileSync(join(folder, name), "utf8");
    if (name.endsWith(".html")) pages.set(name, readPage(text()));
    if (!name.endsWith(".css")) continue;
    for (const [, imported, url] of text().matchAll(STYLE_ADDRESS))
      if (OUTSIDE.test(imported ?? url ?? "")) faults.push(`${name} loads ${imported ?? url ?? ""}`);
  }
  let links = 0;
  for (const [name, page] of pages) {
    for (const load of page.loads) if (OUTSIDE.test(load)) faults.push(`${name} loads ${load}`);
    for (const link of [...page.links, ...page.loads]) {
      if (/^[a-z][a-z0-9+.-]*:/i.test(link) || OUTSIDE.test(link)) continue;
      links += 1;
      const fault = faultOf(name, link, { names, pages });
      if (fault !== null) faults.push(`${name}: ${link} ${fault}`);
    }
  }
  return { pages: pages.size, links, faults };
}

function faultOf(
  name: string,
  link: string,
  { names, pages }: { readonly names: ReadonlySet<string>; readonly pages: ReadonlyMap<string, Page> },
): string | null {
  const target = new URL(link, `http://site${name}`);
  const path = decodeURIComponent(target.pathname);
  const file = [path, `${path}index.html`].find((one) => names.has(one));
  if (file === undefined) return "leads nowhere";
  const anchor = decodeURIComponent(target.hash.slice(1));
  const page = pages.get(file);
  return anchor === "" || page === undefined || page.ids.has(anchor) ? null : "has no such anchor";
}

function readPage(html: string): Page {
  const ids = new Set<string>();
  const links: string[] = [];
  const loads: string[] = [];
  for (const { groups = {} } of html
    .replaceAll(/<(script|style)\b([^>]*)>.*?<\/\1>/gis, "<$1$2>")
    .matchAll(TAG)) {
    const attributes = new Map(
      [...(groups["attributes"] ?? "").matchAll(ATTRIBUTE)].map(([, key = "", one, two, three]) => [
        key.toLowerCase(),
        (one ?? two ?? three ?? "").replaceAll("&amp;", "&").replaceAll("&#38;", "&"),
      ]),
    );
    const tag = (groups["name"] ?? "").toLowerCase();
    const id = attributes.get("id");
    if (id !== undefined) ids.add(id);
    const href = attributes.get("href");
    if (href !== undefined)
      (tag === "link" && !PASSIVE.test(attributes.get("rel") ?? "") ? loads : links).push(href);
    const source = attributes.get("src");
    if (source !== undefined) loads.push(source);
  }
  return { ids, links, loads };
}
