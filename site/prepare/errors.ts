// A page for each error code, at the path that the field `type` of an error response has. All of
// it comes from docs/reference/errors.md.
import { sectionsOf, type SitePage } from "./markdown.ts";

const ROW =
  /^\| \[`(?<code>\w+)`\]\(#\w+\) \| (?<status>\d+) \| (?<outcome>\w+) \| (?<retry>\w+) \| (?<title>.*) \|$/gm;

/** `markdown`: the reference, with the site's links. */
export function errorPages(markdown: string): SitePage[] {
  const sections = new Map(sectionsOf(markdown).map(({ heading, text }) => [heading, text]));
  const pages = [...markdown.matchAll(ROW)].map(({ groups = {} }): SitePage => {
    const { code = "", status = "", outcome = "", retry = "", title = "" } = groups;
    const section = sections.get(`\`${code}\``);
    if (section === undefined) throw new Error(`the reference has no section of the error ${code}`);
    const table = `| status | outcome | retry |\n| --- | --- | --- |\n| ${status} | \`${outcome}\` | \`${retry}\` |`;
    const more = `[All errors](/reference/errors/), with what each outcome and retry means.`;
    const body = `${title}\n\n${table}\n\n${section.trim()}\n\n${more}\n`;
    return { address: `/errors/${code}/`, title: code, body };
  });
  if (pages.length !== sections.size - 1)
    throw new Error(
      `the table has ${String(pages.length)} errors, and there are ${String(sections.size - 1)} sections`,
    );
  return pages;
}
