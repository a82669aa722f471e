// The header of the PROXY protocol, in which a proxy names the client that it connects for. Version
// 2 is binary. Version 1 is a line of text, the only version that nginx sends.
import { BlockList, isIP, SocketAddress } from "node:net";

export type ProxyHeader =
  | { readonly kind: "client"; readonly address: string }
  /** The proxy connects for itself, or the client has no IP address. */
  | { readonly kind: "proxy" }
  | { readonly kind: "wrong"; readonly reason: string };

interface ReadHeader {
  readonly value: ProxyHeader;
  /** Where the header ends in the bytes. */
  readonly end: number;
}

const SIGNATURE = Buffer.from("\r\n\r\n\0\r\nQUIT\n", "latin1");
/** The signature, a byte each for command and family, and the length of the rest. */
const FIXED_BYTES = 16;
const LINE_START = Buffer.from("PROXY ");
const LINE_BYTES_MAX = 107;
/** Addresses, and what proxies add to them. */
export const PROXY_BYTES_MAX = 4_096;
/** Versions 2 and 1. A startup packet that begins with one of them would be too long. */
export const PROXY_FIRST_BYTES: ReadonlySet<number> = new Set([SIGNATURE[0] ?? 0, LINE_START[0] ?? 0]);

const LOCAL = 0x20;
const PROXY = 0x21;
const IPV4 = 1;
const IPV6 = 2;

const PROXY_ITSELF: ProxyHeader = { kind: "proxy" };

function wrong(reason: string): ReadHeader {
  return { value: { kind: "wrong", reason }, end: 0 };
}

/** Null until the header is whole. */
export function readProxyHeader(bytes: Buffer): ReadHeader | null {
  if (beginsAs(bytes, SIGNATURE)) return readBinary(bytes);
  if (beginsAs(bytes, LINE_START)) return readLine(bytes);
  return wrong("it does not begin with a header");
}

/** True as well while the bytes are shorter than the start. */
function beginsAs(bytes: Buffer, start: Buffer): boolean {
  const length = Math.min(bytes.length, start.length);
  return bytes.subarray(0, length).equals(start.subarray(0, length));
}

function readBinary(bytes: Buffer): ReadHeader | null {
  if (bytes.length < FIXED_BYTES) return null;
  const command = bytes.readUInt8(12);
  if (command !== LOCAL && command !== PROXY)
    return wrong(`the header's version and command are 0x${command.toString(16)}`);
  const end = FIXED_BYTES + bytes.readUInt16BE(14);
  if (end > PROXY_BYTES_MAX)
    return wrong(`the header has ${String(end)} bytes, more than ${String(PROXY_BYTES_MAX)}`);
  if (bytes.length < end) return null;
  if (command === LOCAL) return { value: PROXY_ITSELF, end };
  const addresses = bytes.subarray(FIXED_BYTES, end);
  const family = bytes.readUInt8(13) >>> 4;
  if (family !== IPV4 && family !== IPV6) return { value: PROXY_ITSELF, end };
  // Two addresses and two ports.
  if (addresses.length < (family === IPV4 ? 12 : 36)) return wrong("the header ends inside an address");
  return { value: { kind: "client", address: family === IPV4 ? ipv4(addresses) : ipv6(addresses) }, end };
}

function ipv4(bytes: Buffer): string {
  return bytes.subarray(0, 4).join(".");
}

function ipv6(bytes: Buffer): string {
  const groups = Array.from({ length: 8 }, (_, at) => bytes.readUInt16BE(2 * at).toString(16));
  return new SocketAddress({ address: groups.join(":"), family: "ipv6" }).address;
}

function readLine(bytes: Buffer): ReadHeader | null {
  const at = bytes.subarray(0, LINE_BYTES_MAX).indexOf("\r\n");
  if (at < 0) return bytes.length < LINE_BYTES_MAX ? null : wrong("the header's line does not end");
  const end = at + 2;
  const [, family = "", address = "", ...others] = bytes.toString("latin1", 0, at).split(" ");
  if (family === "UNKNOWN") return { value: PROXY_ITSELF, end };
  const version = family === "TCP4" ? 4 : family === "TCP6" ? 6 : null;
  if (version === null || isIP(address) !== version || others.length !== 3)
    return wrong("the header's line has no valid addresses");
  return { value: { kind: "client", address }, end };
}

/** An address or a network, such as 10.0.0.0/16. */
export function isNetwork(text: string): boolean {
  const [address = "", prefix, ...others] = text.split("/");
  const version = isIP(address);
  if (version === 0 || others.length > 0) return false;
  return (
    prefix === undefined || (/^[0-9]{1,3}$/.test(prefix) && Number(prefix) <= (version === 4 ? 32 : 128))
  );
}

/** The peers that send a header. An IPv4 address counts in its IPv6 form as well. */
export class Proxies {
  readonly #list = new BlockList();

  constructor(networks: readonly string[]) {
    for (const network of networks) {
      const [address = "", prefix] = network.split("/");
      const family = familyOf(address);
      if (prefix === undefined) this.#list.addAddress(address, family);
      else this.#list.addSubnet(address, Number(prefix), family);
    }
  }

  has(address: string): boolean {
    return isIP(address) !== 0 && this.#list.check(address, familyOf(address));
  }
}

function familyOf(address: string): "ipv4" | "ipv6" {
  return isIP(address) === 6 ? "ipv6" : "ipv4";
}
