// Parameters of a query, as JSON has them, to PostgreSQL's text: null, scalars, arrays as array
// literals, objects as JSON.
import { isExactNumber } from "./exact-json.ts";

/** The text of a value from `parseExactly`. */
export function paramText(value: unknown): string | null {
  if (value === null) return null;
  if (typeof value === "string") return value;
  if (Array.isArray(value)) return arrayLiteral(value);
  return JSON.stringify(value);
}

/**
 * Strings are always quoted, so that "NULL", an empty one and one with a comma stay what they are.
 */
function arrayLiteral(values: readonly unknown[]): string {
  return `{${values.map(element).join(",")}}`;
}

function element(value: unknown): string {
  if (value === null) return "NULL";
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) return arrayLiteral(value);
  const text = JSON.stringify(value);
  return typeof value === "object" && !isExactNumber(value) ? quoted(text) : text;
}

/**
 * Not JSON's quoting: in an array literal a backslash only stands before the character that it
 * protects.
 */
function quoted(text: string): string {
  return `"${text.replace(/["\\]/g, "\\$&")}"`;
}
