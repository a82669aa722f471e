// Ranges of IP addresses, as an operator writes them. An IPv4 address within IPv6 is the IPv4
// address.
import { BlockList, isIP, isIPv4 } from "node:net";

export interface AddressRange {
  readonly family: "ipv4" | "ipv6";
  readonly base: string;
  readonly prefix: number;
  readonly members: BlockList;
}

const RANGE = /^([^/%]+)(?:\/([0-9]{1,3}))?$/;
const MAPPED = /^::ffff:([0-9.]+)$/i;
const BITS = { ipv4: 32, ipv6: 128 } as const;

/** `10.1.2.3`, `10.1.2.0/24`, `2001:db8::/32`; null for anything else. */
export function parseAddressRange(text: string): AddressRange | null {
  const match = RANGE.exec(text.trim());
  const base = plain(match?.[1] ?? "");
  if (match === null || isIP(base) === 0) return null;
  const family = isIPv4(base) ? "ipv4" : "ipv6";
  const prefix = match[2] === undefined ? BITS[family] : Number(match[2]);
  if (prefix > BITS[family]) return null;
  const members = new BlockList();
  members.addSubnet(base, prefix, family);
  return { family, base, prefix, members };
}

export function isInRange(range: AddressRange, address: string): boolean {
  const bare = plain(address);
  const version = isIP(bare);
  return version !== 0 && range.members.check(bare, version === 4 ? "ipv4" : "ipv6");
}

/** Every address of `inner` is one of `outer`. */
export function contains(outer: AddressRange, inner: AddressRange): boolean {
  return outer.family === inner.family && outer.prefix <= inner.prefix && isInRange(outer, inner.base);
}

function plain(address: string): string {
  const mapped = MAPPED.exec(address)?.[1];
  return mapped !== undefined && isIPv4(mapped) ? mapped : address;
}
