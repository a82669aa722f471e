// Makes the JSON text of an answer in pieces, so that a large one never exists as a whole. The text
// equals that of JSON.stringify.
import { isExactNumber } from "../neon/exact-json.ts";

export const PIECE_CHARS = 64 * 1_024;

export function* jsonPieces(value: unknown): Generator<string, void> {
  let text = "";
  for (const part of partsOf(value)) {
    text += part;
    if (text.length < PIECE_CHARS) continue;
    yield text;
    text = "";
  }
  if (text !== "") yield text;
}

function* partsOf(value: unknown): Generator<string, void> {
  if (typeof value === "string" && value.length > PIECE_CHARS) yield* partsOfText(value);
  else if (typeof value !== "object" || value === null || isExactNumber(value) || isSmallRow(value))
    yield JSON.stringify(value);
  else if (Array.isArray(value)) {
    let before = "[";
    for (const item of value) {
      yield before;
      yield* partsOf(item ?? null);
      before = ",";
    }
    yield value.length === 0 ? "[]" : "]";
  } else {
    let before = "{";
    for (const [name, item] of Object.entries(value)) {
      if (item === undefined) continue;
      yield `${before}${JSON.stringify(name)}:`;
      yield* partsOf(item);
      before = ",";
    }
    yield before === "{" ? "{}" : "}";
  }
}

/** Most of a large result is rows of short values. */
function isSmallRow(value: object): boolean {
  if (!Array.isArray(value)) return false;
  let chars = value.length;
  for (const item of value as readonly unknown[]) {
    if (item === undefined || (typeof item === "object" && item !== null)) return false;
    if (typeof item === "string") chars += item.length;
    if (chars > PIECE_CHARS) return false;
  }
  return true;
}

function* partsOfText(text: string): Generator<string, void> {
  yield '"';
  for (let at = 0; at < text.length;) {
    let end = Math.min(at + PIECE_CHARS, text.length);
    // The two halves of a character stay together.
    if (end < text.length && isHighSurrogate(text.charCodeAt(end - 1))) end--;
    yield JSON.stringify(text.slice(at, end)).slice(1, -1);
    at = end;
  }
  yield '"';
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}
