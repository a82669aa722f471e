// The parts of a Markdown page that the site changes: its title, links and comments. Fenced blocks
// and code in a line stay as they are.

const FENCE = /^( *)```[^\n]*\n.*?^\1```$/gms;
const INLINE_CODE = /`[^`]*`/g;
const COMMENT = /<!--.*?-->\n?/gs;
const LINK = /\]\(([^)\s]+)\)/g;
const TITLE = /^# (.+)\n/m;

/** Applies the change to everything that no match of the pattern covers. */
function between(text: string, pattern: RegExp, change: (part: string) => string): string {
  let done = "";
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    done += change(text.slice(end, match.index)) + match[0];
    end = match.index + match[0].length;
  }
  return done + change(text.slice(end));
}

/** Applies the change to the prose: to everything outside fenced blocks. */
function changeProse(markdown: string, change: (prose: string) => string): string {
  return between(markdown, FENCE, change);
}

/** Gives each link's target the address that the function returns for it. */
export function changeLinks(markdown: string, change: (target: string) => string): string {
  return changeProse(markdown, (prose) =>
    between(prose, INLINE_CODE, (part) =>
      part.replaceAll(LINK, (_, target: string) => `](${change(target)})`),
    ),
  );
}

/** The targets of all links, in their order. */
export function linksIn(markdown: string): string[] {
  const found: string[] = [];
  changeLinks(markdown, (target) => {
    found.push(target);
    return target;
  });
  return found;
}

export function withoutComments(markdown: string): string {
  return changeProse(markdown, (prose) => prose.replaceAll(COMMENT, ""));
}

/** The first heading without its code marks, and the rest. Errors: a page without a heading. */
export function splitTitle(markdown: string): { readonly title: string; readonly body: string } {
  const match = TITLE.exec(markdown);
  if (match === null) throw new Error(`a page has no heading: ${markdown.slice(0, 60)}`);
  const body = markdown.slice(0, match.index) + markdown.slice(match.index + match[0].length);
  return { title: (match[1] ?? "").replaceAll("`", ""), body: body.trimStart() };
}

/** A page's parts: the text before the first heading of level two, and each such section. */
export function sectionsOf(markdown: string): { readonly heading: string; readonly text: string }[] {
  const starts: number[] = [0];
  const masked = markdown.replaceAll(FENCE, (block) => block.replaceAll("#", " "));
  for (const { index } of masked.matchAll(/^## /gm)) starts.push(index);
  return starts.map((start, at) => {
    const text = markdown.slice(start, starts[at + 1]);
    const heading = at === 0 ? "" : (/^## (.*)/.exec(text)?.[1] ?? "");
    return { heading, text: at === 0 ? text : text.slice(text.indexOf("\n") + 1) };
  });
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A page of the site: its address, such as `/guide/sessions/`, its title, and its Markdown. */
export interface SitePage {
  readonly address: string;
  readonly title: string;
  readonly body: string;
  /** More fields of the front matter, as JSON values. */
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** The page as the file that the site's builder reads. JSON is YAML. */
export function fileOf({ title, body, extra = {} }: SitePage): string {
  const fields = Object.entries({ title, ...extra }).map(
    ([name, value]) => `${name}: ${JSON.stringify(value)}`,
  );
  return `---\n${fields.join("\n")}\n---\n\n${body}`;
}
