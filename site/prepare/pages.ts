// Which files are on the site, and at which address: the root's README, all pages of docs, the
// pages of other folders that these link to, and the files that any of them link to.
import { existsSync, globSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { anchorOf } from "@highwater/lab-tools/markdown";
import { changeLinks, linksIn, type SitePage, splitTitle, withoutComments } from "./markdown.ts";

/** The first page, which home.ts makes. */
export const README = "README.md";

/** Documents from which api.ts makes pages. */
export const APIS: Readonly<Record<string, string>> = {
  "docs/reference/openapi.json": "/api/gateway/",
  "docs/reference/tracker-openapi.json": "/api/tracker/",
};

export interface Sources {
  /** Markdown by its path from the root. A folder without a README has a list of its files. */
  readonly pages: ReadonlyMap<string, string>;
  /** Paths of the files that the site offers as they are. */
  readonly files: ReadonlySet<string>;
}

const isOutside = (target: string): boolean => /^[a-z]+:/.test(target);

/** Errors: a page links to something that does not exist. */
export function readSources(root: string): Sources {
  const pages = new Map<string, string>();
  const files = new Set(Object.keys(APIS));
  const waiting = [README, ...globSync("docs/**/*.md", { cwd: root }).sort()];
  for (let path = waiting.shift(); path !== undefined; path = waiting.shift()) {
    if (pages.has(path)) continue;
    const text = path.endsWith("/") ? listOf(root, path) : readFileSync(join(root, path), "utf8");
    pages.set(path, text);
    for (const target of linksIn(text)) {
      if (isOutside(target) || target.startsWith("#")) continue;
      const to = pathOf(root, path, target);
      if (isPage(to)) waiting.push(to);
      else files.add(to);
    }
  }
  return { pages, files };
}

const isPage = (path: string): boolean => path.endsWith(".md") || path.endsWith("/");

/** The path that a page's link leads to. A folder is its README, or has a slash at its end. */
function pathOf(root: string, from: string, target: string): string {
  const [link = ""] = target.split("#");
  const path = normalize(join(dirname(from.endsWith("/") ? `${from}x` : from), link)).replace(/\/$/, "");
  if (!existsSync(join(root, path))) throw new Error(`${from} links to ${target}, which does not exist`);
  if (!statSync(join(root, path)).isDirectory()) return path;
  const readme = join(path, "README.md");
  return existsSync(join(root, readme)) ? readme : `${path}/`;
}

function listOf(root: string, folder: string): string {
  const names = readdirSync(join(root, folder), { withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.startsWith("."))
    .map(({ name }) => name);
  return `# Files of ${folder}\n\n${names.map((name) => `- [${name}](${name})`).join("\n")}\n`;
}

/** Where the site has a page, or a file as it is. */
export function addressOf(path: string): string {
  const api = APIS[path];
  if (api !== undefined) return api;
  if (!isPage(path)) return `/files/${path}`;
  if (path === README) return "/";
  const name = (path.startsWith("docs/") ? path.slice("docs/".length) : `repository/${path}`)
    .replace(/(?:^|\/)README\.md$|\.md$|\/$/, "")
    .toLowerCase();
  return `/${name}/`;
}

/** A page with the site's links. */
export function renderPage(root: string, path: string, sources: Sources): SitePage {
  const { title, body } = splitTitle(withoutComments(sources.pages.get(path) ?? ""));
  return { address: addressOf(path), title, body: withSiteLinks(root, path, body, sources) };
}

/** Markdown that stands in the file at the path. */
export function withSiteLinks(root: string, path: string, markdown: string, { pages }: Sources): string {
  return changeLinks(markdown, (target) => {
    if (isOutside(target) || target.startsWith("#")) return target;
    const to = pathOf(root, path, target);
    const [, anchor] = target.split("#");
    const page = pages.get(to);
    // The title is not in the page's text: its address is the page's.
    const isTitle = anchor !== undefined && page !== undefined && anchor === anchorOf(splitTitle(page).title);
    return `${addressOf(to)}${anchor === undefined || isTitle ? "" : `#${anchor}`}`;
  });
}
