// Splits bytes that arrive in chunks of any size into lines of text. No I/O.

export class LineSplitter {
  readonly #decoder = new TextDecoder();
  /** An incomplete line. */
  rest = "";
  #isAfterCr = false;

  /** Returns the lines that these bytes complete. A line ends at CR, LF or CRLF. */
  push(bytes: Uint8Array): string[] {
    const text = this.#decoder.decode(bytes, { stream: true });
    // If a chunk ends between CR and LF, that LF does not end a line.
    this.rest += this.#isAfterCr ? text.replace(/^\n/, "") : text;
    if (text) this.#isAfterCr = text.endsWith("\r");
    // A long line has many chunks: do not go through all of them each time.
    if (!/[\r\n]/.test(text)) return [];
    const lines = this.rest.split(/\r\n|\r|\n/);
    this.rest = lines.pop() ?? "";
    return lines;
  }
}
