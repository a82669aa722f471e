// Parts of Markdown pages: code blocks, anchors of headings, tables.

/** A code block; its groups: `kind`, `text`. */
export const BLOCK = /^```(?<kind>\w+)\n(?<text>.*?)^```$/gms;

/** The blocks of one kind. */
export function blocksOf(kind: string, markdown: string): string[] {
  return [...markdown.matchAll(BLOCK)].flatMap(({ groups = {} }) =>
    groups["kind"] === kind ? [groups["text"] ?? ""] : [],
  );
}

/** As a host of Git names a heading in an address. */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(" ", "-");
}

/** A table. Each cell is one line. */
export function tableOf(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}
