// The code of a Markdown page.

/** A block of code; its groups: `kind`, `text`. */
export const BLOCK = /^```(?<kind>\w+)\n(?<text>.*?)^```$/gms;

/** The blocks of one kind, each by itself. */
export function blocksOf(kind: string, markdown: string): string[] {
  return [...markdown.matchAll(BLOCK)].flatMap(({ groups = {} }) =>
    groups["kind"] === kind ? [groups["text"] ?? ""] : [],
  );
}
