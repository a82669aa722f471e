/**
 * JSON for files that people compare: down to `depth`, objects and lists have one line per member;
 * below it each is on one line. Ends with a line break.
 */
export function jsonLines(value: unknown, depth: number): string {
  return `${write(value, depth, "")}\n`;
}

function write(value: unknown, depth: number, indent: string): string {
  if (typeof value !== "object" || value === null || depth === 0) return JSON.stringify(value);
  const inner = `${indent} `;
  const isList = Array.isArray(value);
  const members = isList
    ? value.map((each) => write(each ?? null, depth - 1, inner))
    : Object.entries(value)
        .filter(([, each]) => each !== undefined)
        .map(([name, each]) => `${JSON.stringify(name)}: ${write(each, depth - 1, inner)}`);
  const lines = members.length === 0 ? "" : `\n${members.map((each) => inner + each).join(",\n")}\n${indent}`;
  return isList ? `[${lines}]` : `{${lines}}`;
}
