// The sidebar, from the index pages of docs: the guide's sections with the pages that they link to,
// in their order, then the runbooks and the decisions as their indexes list them. A page stands
// where it is named first. The pages that no index names follow by folder.
import { capital, linksIn, sectionsOf, type SitePage } from "./markdown.ts";

export type SidebarItem =
  | { readonly label: string; readonly link: string }
  | { readonly label: string; readonly collapsed: boolean; readonly items: readonly SidebarItem[] };

const GUIDE = "/guide/";
const REFERENCE = "Reference";
const LABEL_MAX = 40;
const NAME_MIN = 8;

/** `pages`: all pages of the site by address, with the site's links. */
export function sidebarOf(pages: ReadonlyMap<string, SitePage>): SidebarItem[] {
  const placed = new Set<string>(["/"]);
  const take = (addresses: readonly string[]): SidebarItem[] =>
    addresses.flatMap((address): SidebarItem[] => {
      const page = pages.get(address);
      if (page === undefined || placed.has(address)) return [];
      placed.add(address);
      return [{ label: labelOf(page), link: address }];
    });
  const linked = (text: string): string[] => linksIn(text).map((target) => target.replace(/#.*/, ""));
  const sections = (address: string): { heading: string; text: string }[] =>
    sectionsOf(pages.get(address)?.body ?? "");
  const left = (prefix: RegExp): string[] =>
    [...pages.keys()].filter((address) => prefix.test(address)).sort();

  const guide = sections(GUIDE).map(({ heading, text }) => ({
    label: heading,
    items: heading === "" ? take([GUIDE]) : take(linked(text)),
  }));
  const runbooks = take(linked(pages.get("/runbooks/")?.body ?? ""));
  const decisions = take(["/decisions/"]);
  for (const { heading, text } of sections("/decisions/")) {
    const items = take(linked(text));
    if (items.length > 0) decisions.push(group(heading, items, true));
  }
  const errors = take(left(/^\/errors\//));
  const reference = guide.find(({ label }) => label === REFERENCE);
  if (reference === undefined) throw new Error(`the guide has no section "${REFERENCE}"`);
  reference.items.push(...take(left(/^\/(?:reference|api)\//)), group("Errors by code", errors, true));
  const [index, ...groups] = guide;
  groups[0]?.items.unshift(...(index?.items ?? []));
  return [
    ...groups.map(({ label, items }) => group(label, items, false)),
    group("Runbooks", runbooks, true),
    group("The project", take(left(/^\/[^/]+\/$/)), true),
    group("Folders of the repository", take(left(/^\/repository\//)), true),
    group("Decisions", decisions, true),
  ];
}

function group(label: string, items: readonly SidebarItem[], collapsed: boolean) {
  return { label, collapsed, items };
}

/**
 * A title that is too long for a sidebar is cut at its colon. One short word before it, such as
 * "Example", is not a name: then the rest is.
 */
function labelOf({ title }: SitePage): string {
  const [name = title, ...rest] = title.split(": ");
  if (title.length <= LABEL_MAX || rest.length === 0) return title;
  return capital(name.length < NAME_MIN ? rest.join(": ") : name);
}
