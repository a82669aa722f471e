// PostgreSQL's text of an array to a nested list. Linear in the text: one value may be as large as
// a whole result.

/**
 * Throws when the text is not an array as the server writes it. Bounds in front (`[0:1]={…}`) have
 * no place in a list.
 */
export function parseArray(text: string, decode: (element: string) => unknown): unknown[] {
  const outermost: unknown[] = [];
  const open: unknown[][] = [outermost];
  let at = text.startsWith("[") ? text.indexOf("=") + 1 : 0;
  while (at < text.length) {
    const list = open.at(-1);
    const char = text[at];
    if (list === undefined || (list === outermost && char !== "{")) throw notAnArray();
    if (char === "{") {
      const inner: unknown[] = [];
      list.push(inner);
      open.push(inner);
      at++;
    } else if (char === "}") {
      open.pop();
      at++;
    } else if (char === ",") {
      at++;
    } else if (char === '"') {
      const { value, end } = readQuoted(text, at + 1);
      list.push(decode(value));
      at = end;
    } else {
      const end = endOfBare(text, at);
      const bare = text.slice(at, end);
      list.push(bare === "NULL" ? null : decode(bare));
      at = end;
    }
  }
  const [array] = outermost;
  if (open.length !== 1 || outermost.length !== 1 || !Array.isArray(array)) throw notAnArray();
  return array;
}

/** A backslash stands before a character that is to be taken as it is. */
function readQuoted(text: string, from: number): { value: string; end: number } {
  let value = "";
  let start = from;
  for (let at = from; at < text.length; at++) {
    const char = text[at];
    if (char === '"') return { value: value + text.slice(start, at), end: at + 1 };
    if (char !== "\\") continue;
    value += text.slice(start, at);
    at++;
    start = at;
  }
  throw notAnArray();
}

function endOfBare(text: string, from: number): number {
  let at = from;
  while (at < text.length && text[at] !== "," && text[at] !== "}") at++;
  return at;
}

function notAnArray(): Error {
  return new Error("the server's text is not an array");
}
