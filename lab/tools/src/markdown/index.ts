// Reads the code blocks of a Markdown page.

/** A code block; its groups: `kind`, `text`. */
export const BLOCK = /^```(?<kind>\w+)\n(?<text>.*?)^```$/gms;

/** The blocks of one kind. */
export function blocksOf(kind: string, markdown: string): string[] {
  return [...markdown.matchAll(BLOCK)].flatMap(({ groups = {} }) =>
    groups["kind"] === kind ? [groups["text"] ?? ""] : [],
  );
}
