// Wildcards in policies: each needs a comment in the line above that says why it is not narrower. By lines, because a parser keeps no
// comments; policies as HCL (`actions = […]`) and as JSON in HCL (`Action = "…"`) are both seen.

/** An attribute of a policy by which it says what may be done, to what and by whom. */
const ATTRIBUTE = /^\s*"?(?:not_?)?(?:actions?|resources?|identifiers|principals?|AWS)"?\s*[=:]/i;
/** A star in a string. That of a condition's value is in `values`, and narrows. */
const STAR = /"[^"]*\*[^"]*"/;
const COMMENT = /^\s*(?:#|\/\/)\s*\S/;

/** `FILE:LINE` and the line, for each wildcard that nothing defends. */
export function undefendedStars(file: string, text: string): string[] {
  const lines = text.split("\n");
  const found = lines.flatMap((line, at) => {
    if (!ATTRIBUTE.test(line)) return [];
    const end = endOf(lines, at);
    return lines.slice(at, end + 1).flatMap((inner, offset) => {
      const here = at + offset;
      const isDefended = COMMENT.test(lines[here - 1] ?? "") || COMMENT.test(lines[at - 1] ?? "");
      if (COMMENT.test(inner) || !STAR.test(inner) || isDefended) return [];
      return [`${file}:${String(here + 1)}: ${inner.trim()}`];
    });
  });
  // An attribute within another is seen twice.
  return [...new Set(found)];
}

/** The last line of the attribute that begins at `at`: where its brackets close. */
function endOf(lines: readonly string[], at: number): number {
  let depth = 0;
  for (let here = at; here < lines.length; here++) {
    const bare = (lines[here] ?? "").replaceAll(/"[^"]*"/g, "").replace(/#.*$/, "");
    depth += (bare.match(/[[({]/g) ?? []).length - (bare.match(/[\])}]/g) ?? []).length;
    if (depth <= 0) return here;
  }
  return lines.length - 1;
}
