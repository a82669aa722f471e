/** Behind the page's one line that begins a table's body; what is not a row stays. */
export function withRows(page: string, rows: readonly string[]): string {
  const lines = page.split("\n");
  const heads = lines.flatMap((line, at) => (/^\| --- /.test(line) ? [at] : []));
  const [head] = heads;
  if (head === undefined || heads.length > 1) throw new Error("the page must have exactly one table");
  let end = head + 1;
  while (lines[end]?.startsWith("|") === true) end++;
  return [...lines.slice(0, head + 1), ...rows, ...lines.slice(end)].join("\n");
}
