// Builds the messages that the gateway itself sends to clients and servers.

/** The fields of an ErrorResponse or a NoticeResponse. */
export interface Report {
  readonly severity: "FATAL" | "ERROR" | "WARNING";
  /** SQLSTATE. */
  readonly code: string;
  readonly message: string;
  readonly detail?: string | undefined;
  readonly hint?: string | undefined;
}

const HEADER_BYTES = 5;

/** A message of this type; its body is the parts. */
export function message(type: string, ...parts: readonly (Buffer | string)[]): Buffer {
  const bodies = parts.map((part) => (typeof part === "string" ? Buffer.from(part) : part));
  const size = bodies.reduce((sum, { length }) => sum + length, 0);
  const header = Buffer.alloc(HEADER_BYTES);
  header.write(type, "latin1");
  header.writeInt32BE(size + HEADER_BYTES - 1, 1);
  return Buffer.concat([header, ...bodies]);
}

export function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeInt16BE(value);
  return bytes;
}

export function errorResponse(report: Report): Buffer {
  return message("E", reportBody(report));
}

export function noticeResponse(report: Report): Buffer {
  return message("N", reportBody(report));
}

function reportBody({ severity, code, message: text, detail, hint }: Report): string {
  const fields = [`S${severity}`, `V${severity}`, `C${code}`, `M${text}`];
  if (detail !== undefined) fields.push(`D${detail}`);
  if (hint !== undefined) fields.push(`H${hint}`);
  return `${fields.join("\0")}\0\0`;
}

export function parameterStatus(name: string, value: string): Buffer {
  return message("S", `${name}\0${value}\0`);
}

/** Prepares a statement without parameter types. `text` ends with a zero byte. */
export function parseHeader(name: string, textBytes: number): Buffer {
  const prefix = Buffer.from(`P\0\0\0\0${name}\0`, "latin1");
  prefix.writeInt32BE(prefix.length - 1 + textBytes + PARSE_TAIL.length, 1);
  return prefix;
}

export const PARSE_TAIL: Buffer = int16(0);

/** `types`: those of the first parameters. The server infers the rest. */
export function parse(name: string, text: string, types: readonly number[] = []): Buffer {
  return message("P", `${name}\0${text}\0`, int16(types.length), ...types.map(int32));
}

/** Binds the statement to a portal. Parameters and results are in text format. */
export function bind(portal: string, statement: string, values: readonly string[] = []): Buffer {
  const parts = values.flatMap((value) => {
    const bytes = Buffer.from(value);
    return [int32(bytes.length), bytes];
  });
  return message("B", `${portal}\0${statement}\0`, int16(0), int16(values.length), ...parts, int16(0));
}

export function describePortal(portal: string): Buffer {
  return message("D", `P${portal}\0`);
}

export function execute(portal: string): Buffer {
  return message("E", `${portal}\0`, int32(0));
}

export function closeStatement(name: string): Buffer {
  return message("C", `S${name}\0`);
}

export function closePortal(name: string): Buffer {
  return message("C", `P${name}\0`);
}

export function query(text: string): Buffer {
  return message("Q", `${text}\0`);
}

export const FLUSH: Buffer = message("H");
export const SYNC: Buffer = message("S");

/** A DataRow's columns as texts; null is NULL. Errors: RangeError for a row that ends early. */
export function rowTexts(bytes: Buffer, start: number): (string | null)[] {
  const columns = bytes.readInt16BE(start + HEADER_BYTES);
  let at = start + HEADER_BYTES + 2;
  const texts: (string | null)[] = [];
  for (let column = 0; column < columns; column++) {
    const size = bytes.readInt32BE(at);
    at += 4;
    texts.push(size < 0 ? null : bytes.toString("utf8", at, at + size));
    if (size > 0) at += size;
  }
  return texts;
}

/** A field of an ErrorResponse or NoticeResponse; empty when it is missing. */
export function reportField(bytes: Buffer, start: number, end: number, field: string): string {
  const wanted = field.charCodeAt(0);
  let at = start + HEADER_BYTES;
  while (at < end && bytes[at] !== 0) {
    const stop = bytes.indexOf(0, at + 1);
    if (stop < 0 || stop >= end) break;
    if (bytes[at] === wanted) return bytes.toString("utf8", at + 1, stop);
    at = stop + 1;
  }
  return "";
}

/** A copy to keep for long: one from the pool would keep a whole slab of the pool in memory. */
export function copyOf(bytes: Buffer, start = 0, end = bytes.length): Buffer {
  const copy = Buffer.alloc(end - start);
  bytes.copy(copy, 0, start, end);
  return copy;
}
