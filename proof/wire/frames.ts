// Frames of PostgreSQL's protocol. A client's are built by hand, so that they can be wrong. A
// server's are cut from its bytes and shown as text.

/** A server's message. The body excludes type and length. */
export interface Frame {
  readonly type: string;
  readonly body: Buffer;
}

const HEAD_BYTES = 5;

/** A client's message. */
export function message(type: string, ...parts: readonly Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  const head = Buffer.alloc(HEAD_BYTES);
  head.write(type, "latin1");
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

export const text = (value: string): Buffer => Buffer.from(`${value}\0`);

export function int16(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(2 * values.length);
  for (const [at, value] of values.entries()) bytes.writeInt16BE(value, 2 * at);
  return bytes;
}

export function int32(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(4 * values.length);
  for (const [at, value] of values.entries()) bytes.writeInt32BE(value, 4 * at);
  return bytes;
}

/** A list of values for Bind and FunctionCall, all in one format. */
export function values(given: readonly (string | null)[], format = 0): Buffer {
  const each = given.map((value) => {
    if (value === null) return int32(-1);
    const bytes = format === 1 ? int32(Number(value)) : Buffer.from(value);
    return Buffer.concat([int32(bytes.length), bytes]);
  });
  return Buffer.concat([int16(1, format), int16(given.length), ...each]);
}

export const query = (sql: string): Buffer => message("Q", text(sql));
export const parse = (name: string, sql: string): Buffer => message("P", text(name), text(sql), int16(0));
export const bind = (portal: string, name: string, params: readonly (string | null)[] = []): Buffer =>
  message("B", text(portal), text(name), values(params), int16(0));
export const describe = (kind: "S" | "P", name: string): Buffer =>
  message("D", Buffer.from(kind), text(name));
export const execute = (portal: string, rowsMax = 0): Buffer => message("E", text(portal), int32(rowsMax));
export const close = (kind: "S" | "P", name: string): Buffer => message("C", Buffer.from(kind), text(name));
export const call = (oid: number, args: readonly (string | null)[]): Buffer =>
  message("F", int32(oid), values(args), int16(0));
export const copyData = (data: string): Buffer => message("d", Buffer.from(data));
export const copyDone = (): Buffer => message("c");
export const copyFail = (why: string): Buffer => message("f", text(why));
export const sync = (): Buffer => message("S");
export const flush = (): Buffer => message("H");
export const terminate = (): Buffer => message("X");

const PROTOCOL_3_0 = 196_608;

export function startup(parameters: Readonly<Record<string, string>>, version = PROTOCOL_3_0): Buffer {
  const pairs = Object.entries(parameters).flatMap(([name, value]) => [text(name), text(value)]);
  const body = Buffer.concat([int32(version), ...pairs, Buffer.alloc(1)]);
  return Buffer.concat([int32(body.length + 4), body]);
}

/** Cuts a server's bytes into frames, wherever its packets end. */
export class FrameReader {
  #rest: Buffer = Buffer.alloc(0);

  /** Bytes of an incomplete frame. */
  get rest(): Buffer {
    return this.#rest;
  }

  read(chunk: Buffer): Frame[] {
    let bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const frames: Frame[] = [];
    while (bytes.length >= HEAD_BYTES) {
      const end = 1 + bytes.readUInt32BE(1);
      if (bytes.length < end) break;
      frames.push({ type: bytes.toString("latin1", 0, 1), body: bytes.subarray(HEAD_BYTES, end) });
      bytes = bytes.subarray(end);
    }
    this.#rest = bytes;
    return frames;
  }
}

/** The texts of a body that is a list of texts. */
export function textsOf(body: Buffer): string[] {
  return body.toString("utf8").split("\0").slice(0, -1);
}

/** The fields of an error or a notice, by letter. */
export function fieldsOf(body: Buffer): Map<string, string> {
  return new Map(
    textsOf(body)
      .filter((field) => field !== "")
      .map((field) => [field.slice(0, 1), field.slice(1)]),
  );
}

/** The texts of a row's columns; null for NULL. */
export function rowOf(body: Buffer): (string | null)[] {
  const row: (string | null)[] = [];
  for (let at = 2, left = body.readInt16BE(0); left > 0; left--) {
    const length = body.readInt32BE(at);
    at += 4;
    row.push(length < 0 ? null : body.toString("utf8", at, at + length));
    at += Math.max(0, length);
  }
  return row;
}

const SHOWN_BYTES = 160;

/** A frame as text for people. */
export function show({ type, body }: Frame): string {
  if (type === "E" || type === "N") {
    const fields = fieldsOf(body);
    return `${type} ${fields.get("V") ?? ""} ${fields.get("C") ?? ""} ${fields.get("M") ?? ""}`;
  }
  const printable = body.toString("latin1").replaceAll(/[^ -~]/g, ".");
  return `${type} ${printable.slice(0, SHOWN_BYTES)}${printable.length > SHOWN_BYTES ? "…" : ""}`.trimEnd();
}
