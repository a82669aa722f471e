// Code in TypeScript and Python that stands side by side becomes one pair, which the site shows
// with a tab for each language. The pages do not say that: two blocks are a pair if nothing but
// empty lines stands between them.

const NAMES = { ts: "TypeScript", python: "Python" } as const;
const PAIR = /^```(ts|python)\n(.*?)^```\n\n+```(ts|python)\n(.*?)^```$/gms;

export function pairLanguages(markdown: string): string {
  return markdown.replaceAll(PAIR, (whole, ...groups: string[]) => {
    const [one = "", oneCode = "", other = "", otherCode = ""] = groups;
    if (one === other) return whole;
    const panels = [panelOf(one, oneCode), panelOf(other, otherCode)];
    return `<div class="languages">\n${panels.join("\n")}\n</div>`;
  });
}

/** The empty lines make the block Markdown again inside of HTML. */
function panelOf(kind: string, code: string): string {
  const name = NAMES[kind as keyof typeof NAMES];
  return `<div data-language="${name}">\n\n\`\`\`${kind}\n${code}\`\`\`\n\n</div>`;
}
