// Decides which addresses webhooks may reach. The creator of an endpoint must not reach what only
// this machine can reach. So every address of the host is checked when the endpoint is created, and
// again at each delivery.
import ipaddr from "ipaddr.js";
import { HighwaterError, WEBHOOK_LIMITS } from "@highwater/protocol";

export interface HostAddress {
  readonly address: string;
  readonly family: 4 | 6;
}

/** All addresses of a name. Rejects when it has none. */
export type Resolve = (hostname: string, signal: AbortSignal) => Promise<readonly HostAddress[]>;

/**
 * Hosts, addresses and ranges of addresses that an operator allows although they are not public.
 */
export interface AllowList {
  readonly hosts: ReadonlySet<string>;
  readonly ranges: readonly (readonly [ipaddr.IPv4 | ipaddr.IPv6, number])[];
}

export const NOTHING_ALLOWED: AllowList = Object.freeze({ hosts: new Set<string>(), ranges: [] });

const HTTPS_PORT = 443;
/** Mail, name and directory servers, shells and file shares use lower ports. */
const FREE_PORT_MIN = 1_024;
/** Public addresses that belong to a platform: Azure's host hands out credentials there. */
const PLATFORM_ADDRESSES: ReadonlySet<string> = new Set(["168.63.129.16"]);
/** The only IPv6 addresses that are global unicast today. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR("2000::/3");
const HOST_NAME = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*\.?$/;

/** The list, and faults: entries that are not a host, an address or a range. */
export function parseAllowList(entries: readonly string[]): { list: AllowList; faults: string[] } {
  const hosts = new Set<string>();
  const ranges: (readonly [ipaddr.IPv4 | ipaddr.IPv6, number])[] = [];
  const faults: string[] = [];
  for (const [index, entry] of entries.map((text) => text.toLowerCase()).entries()) {
    if (ipaddr.isValidCIDR(entry)) ranges.push(ipaddr.parseCIDR(entry));
    else if (isAddress(entry)) {
      const address = ipaddr.parse(entry);
      ranges.push([address, address.kind() === "ipv4" ? 32 : 128]);
    } else if (HOST_NAME.test(entry) && !/^[0-9.]+$/.test(entry)) hosts.add(entry);
    else
      faults.push(
        `entry ${String(index)} is neither a host name nor an address nor a range in CIDR notation`,
      );
  }
  return { list: { hosts, ranges }, faults };
}

/** The URL in the form in which it is stored. Errors: HighwaterError `webhook_url_refused`. */
export function checkUrl(text: string, allow: AllowList): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || (url.protocol !== "https:" && url.protocol !== "http:"))
    throw refused("The URL must begin with https.");
  if (url.username !== "" || url.password !== "") throw refused("The URL must not contain credentials.");
  if (url.href.length > WEBHOOK_LIMITS.urlChars)
    throw refused(`The URL must have at most ${String(WEBHOOK_LIMITS.urlChars)} characters.`);
  url.hash = "";
  if (mayBePrivate(url, allow)) return url;
  const fault = publicFormFault(url);
  if (fault !== null) throw refused(fault);
  return url;
}

/** The fault of a URL that leads to a public address. */
function publicFormFault(url: URL): string | null {
  if (url.protocol !== "https:") return "The URL must begin with https.";
  const port = url.port === "" ? HTTPS_PORT : Number(url.port);
  return port === HTTPS_PORT || port >= FREE_PORT_MIN
    ? null
    : `The port must be ${String(HTTPS_PORT)} or above ${String(FREE_PORT_MIN - 1)}.`;
}

/** The URL's host as resolvers and sockets expect it. */
export function hostnameOf(url: URL): string {
  return url.hostname.startsWith("[") ? url.hostname.slice(1, -1) : url.hostname;
}

/** The addresses to which a delivery may connect. Errors: HighwaterError `webhook_url_refused`. */
export async function checkedAddresses(
  url: URL,
  { allow, resolve, signal }: { allow: AllowList; resolve: Resolve; signal: AbortSignal },
): Promise<readonly HostAddress[]> {
  const hostname = hostnameOf(url);
  const literal = isAddress(hostname);
  const found = literal ? [literalAddress(hostname)] : await resolve(hostname, signal);
  if (found.length === 0) throw refused("The host has no address.");
  if (isAllowedHost(hostname, allow)) return found;
  for (const { address } of found) {
    if (isAllowedAddress(address, allow)) continue;
    // Without the address, which would show how this machine's network resolves the name.
    const fault = isPublic(address) ? publicFormFault(url) : "The host has an address that is not public.";
    if (fault !== null) throw refused(fault);
  }
  return found;
}

/** Global unicast, reached directly: not local or reserved, and without an IPv4 address inside. */
export function isPublic(text: string): boolean {
  if (!isAddress(text)) return false;
  const address = ipaddr.parse(text);
  if (PLATFORM_ADDRESSES.has(address.toString()) || address.range() !== "unicast") return false;
  return address.kind() === "ipv4" || address.match(GLOBAL_UNICAST);
}

function isAllowedAddress(text: string, allow: AllowList): boolean {
  if (!isAddress(text)) return false;
  const address = ipaddr.parse(text);
  return allow.ranges.some(([range, bits]) => range.kind() === address.kind() && address.match(range, bits));
}

function isAllowedHost(hostname: string, allow: AllowList): boolean {
  return allow.hosts.has(hostname.replace(/\.$/, ""));
}

/** If ranges are allowed, a name may lead into one. Its addresses decide later. */
function mayBePrivate(url: URL, allow: AllowList): boolean {
  const hostname = hostnameOf(url);
  if (isAllowedHost(hostname, allow)) return true;
  return isAddress(hostname) ? isAllowedAddress(hostname, allow) : allow.ranges.length > 0;
}

/** IPv4 only as four decimal parts: parsers disagree on the other spellings. */
function isAddress(text: string): boolean {
  return ipaddr.IPv4.isValidFourPartDecimal(text) || (text.includes(":") && ipaddr.IPv6.isValid(text));
}

function literalAddress(hostname: string): HostAddress {
  return { address: hostname, family: hostname.includes(":") ? 6 : 4 };
}

function refused(detail: string): HighwaterError {
  return new HighwaterError("webhook_url_refused", { detail });
}
