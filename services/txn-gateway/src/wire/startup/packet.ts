// The first message of a connection: a request for encryption, a cancel, or the start of a session.

/** The parameters that a client asks for; names as received. */
export interface StartupPacket {
  readonly kind: "startup";
  /** Major and minor version. */
  readonly version: number;
  readonly parameters: ReadonlyMap<string, string>;
}

type FirstPacket =
  | { readonly kind: "ssl" }
  | { readonly kind: "gss" }
  | { readonly kind: "cancel"; readonly key: Buffer }
  | StartupPacket
  | { readonly kind: "wrong"; readonly reason: string };

const SSL_REQUEST = 80_877_103;
const GSS_REQUEST = 80_877_104;
const CANCEL_REQUEST = 80_877_102;
const HEADER_BYTES = 8;
/** PostgreSQL's own limit. */
export const STARTUP_BYTES_MAX = 10_000;
const VERSION_3 = 3;

export interface ReadPacket {
  readonly packet: FirstPacket;
  /** Where the packet ends in the bytes. */
  readonly end: number;
}

/** Null until the packet is whole. */
export function readFirstPacket(bytes: Buffer): ReadPacket | null {
  if (bytes.length < 4) return null;
  const end = bytes.readInt32BE(0);
  if (end < HEADER_BYTES || end > STARTUP_BYTES_MAX)
    return { packet: { kind: "wrong", reason: "invalid length of startup packet" }, end: bytes.length };
  if (bytes.length < end) return null;
  return { packet: read(bytes.subarray(0, end)), end };
}

function read(bytes: Buffer): FirstPacket {
  const code = bytes.readInt32BE(4);
  if (code === SSL_REQUEST) return { kind: "ssl" };
  if (code === GSS_REQUEST) return { kind: "gss" };
  if (code === CANCEL_REQUEST) return { kind: "cancel", key: Buffer.from(bytes.subarray(HEADER_BYTES)) };
  if (code >>> 16 !== VERSION_3)
    return {
      kind: "wrong",
      reason: `unsupported frontend protocol ${String(code >>> 16)}.${String(code & 0xffff)}: server supports 3.0 to 3.2`,
    };
  const parameters = new Map<string, string>();
  let at = HEADER_BYTES;
  while (at < bytes.length && bytes[at] !== 0) {
    const nameEnd = bytes.indexOf(0, at);
    const valueEnd = nameEnd < 0 ? -1 : bytes.indexOf(0, nameEnd + 1);
    if (valueEnd < 0) break;
    parameters.set(bytes.toString("utf8", at, nameEnd), bytes.toString("utf8", nameEnd + 1, valueEnd));
    at = valueEnd + 1;
  }
  if (at !== bytes.length - 1)
    return { kind: "wrong", reason: "invalid startup packet layout: expected terminator as last byte" };
  return { kind: "startup", version: code, parameters };
}

/** The packet that starts a session at the server. */
export function writeStartup(version: number, parameters: ReadonlyMap<string, string>): Buffer {
  const texts = [...parameters].map(([name, value]) => `${name}\0${value}\0`).join("");
  const body = Buffer.from(`${texts}\0`);
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeInt32BE(HEADER_BYTES + body.length, 0);
  header.writeInt32BE(version, 4);
  return Buffer.concat([header, body]);
}

export function writeCancel(key: Buffer): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeInt32BE(HEADER_BYTES + key.length, 0);
  header.writeInt32BE(CANCEL_REQUEST, 4);
  return Buffer.concat([header, key]);
}

/**
 * The client's parameters, as the server gets them. `forced`: what the store asks of every session,
 * so that the server never waits in a commit for other disks.
 */
export function serverParameters(
  asked: ReadonlyMap<string, string>,
  changes: Readonly<Record<string, string>>,
  forced: Readonly<Record<string, string>>,
): Map<string, string> {
  const parameters = new Map(asked);
  for (const name of parameters.keys())
    if (Object.hasOwn(forced, name.toLowerCase())) parameters.delete(name);
  for (const [name, value] of Object.entries({ ...changes, ...forced })) parameters.set(name, value);
  return parameters;
}
