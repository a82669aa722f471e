// The lines of a response, which arrives in chunks of any size.

/**
 * Yields the lines of the body; each ends at LF or CRLF. A rest without an end is dropped.
 * Throws RangeError if a line is longer than `charsMax`.
 */
export async function* linesOf(response: Response, charsMax = Infinity): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const reader = response.body?.getReader();
  let rest = "";
  // Not every platform can iterate over a stream, and not every response is one.
  for (let isDone = false; !isDone;) {
    const chunk = await reader?.read();
    isDone = chunk?.done ?? true;
    const bytes = reader ? chunk?.value : await response.arrayBuffer();
    const text = decoder.decode(bytes, { stream: true });
    rest += text;
    // A long line has many chunks: do not go through all of them each time.
    if (text.includes("\n")) {
      const lines = rest.split(/\r?\n/);
      rest = lines.pop() ?? "";
      yield* lines;
    }
    if (rest.length > charsMax) throw new RangeError("line too long");
  }
}
