// JSON in which every number keeps the digits that were sent: int8 and numeric must not pass
// through a float.

/**
 * ECMAScript's JSON.parse with source text access; the library that the compiler is given does not
 * have it yet.
 */
interface SourceTextJson {
  readonly rawJSON: (text: string) => object;
  readonly isRawJSON: (value: unknown) => boolean;
  readonly parse: (
    text: string,
    reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ) => unknown;
}

const sourceText = JSON as unknown as SourceTextJson;

/**
 * Reviving costs several times the plain parsing, and what the driver sends has no numbers outside
 * of texts.
 */
const MAY_HAVE_NUMBER = /(?:^|[[:,])\s*-?[0-9]/;

/**
 * As JSON.parse, but a number that a float would write in another way is an object for which
 * `isExactNumber` holds and which JSON.stringify writes as it came. Throws SyntaxError.
 */
export function parseExactly(text: string): unknown {
  if (!MAY_HAVE_NUMBER.test(text)) return JSON.parse(text) as unknown;
  return sourceText.parse(text, (_key, value, { source }) =>
    typeof value === "number" && source !== undefined && String(value) !== source
      ? sourceText.rawJSON(source)
      : value,
  );
}

export function isExactNumber(value: unknown): boolean {
  return sourceText.isRawJSON(value);
}
