import assert from "node:assert/strict";
import { isIP, SocketAddress } from "node:net";
import { test } from "node:test";
import fc from "fast-check";
import { isNetwork, Proxies, type ProxyHeader, PROXY_BYTES_MAX, readProxyHeader } from "./proxy-header.ts";

const SIGNATURE = Buffer.from("\r\n\r\n\0\r\nQUIT\n", "latin1");
const REST = Buffer.from("the client's first bytes");

function header(
  addresses: readonly number[],
  { command = 0x21, family = 0x11, length = addresses.length } = {},
): Buffer {
  return Buffer.from([...SIGNATURE, command, family, length >>> 8, length & 255, ...addresses]);
}

const V4 = [192, 0, 2, 7, 198, 51, 100, 1, 0xd4, 0x31, 0x15, 0x38];
const V6 = [...Buffer.from("20010db8000000000000000000000007".repeat(2), "hex"), 0xd4, 0x31, 0x15, 0x38];
const MAPPED = [...Buffer.from(`${"00000000000000000000ffff"}c0000207`.repeat(2), "hex"), 1, 2, 3, 4];

function client(address: string): ProxyHeader {
  return { kind: "client", address };
}

const PROXY: ProxyHeader = { kind: "proxy" };

const VALID: readonly (readonly [string, Buffer, ProxyHeader])[] = [
  ["IPv4", header(V4), client("192.0.2.7")],
  ["IPv6", header(V6, { family: 0x21 }), client("2001:db8::7")],
  ["IPv4 as IPv6", header(MAPPED, { family: 0x21 }), client("::ffff:192.0.2.7")],
  ["with more behind the addresses", header([...V4, 4, 0, 1, 9]), client("192.0.2.7")],
  ["of the proxy itself", header([], { command: 0x20, family: 0 }), PROXY],
  ["of the proxy itself, with addresses", header(V4, { command: 0x20 }), PROXY],
  ["without a family", header([1, 2, 3], { family: 0 }), PROXY],
  ["of a socket in the file system", header(Array<number>(216).fill(0), { family: 0x31 }), PROXY],
  ["version 1, IPv4", Buffer.from("PROXY TCP4 192.0.2.7 198.51.100.1 54321 5432\r\n"), client("192.0.2.7")],
  ["version 1, IPv6", Buffer.from("PROXY TCP6 2001:db8::7 ::1 54321 5432\r\n"), client("2001:db8::7")],
  ["version 1, unknown", Buffer.from("PROXY UNKNOWN\r\n"), PROXY],
  ["version 1, unknown, with more", Buffer.from("PROXY UNKNOWN ff ff 1 2\r\n"), PROXY],
];

for (const [what, bytes, value] of VALID)
  test(`a header ${what}: read whole, wherever it is split`, () => {
    assert.deepEqual(readProxyHeader(Buffer.concat([bytes, REST])), { value, end: bytes.length });
    for (let at = 1; at < bytes.length; at++)
      assert.equal(readProxyHeader(bytes.subarray(0, at)), null, `the first ${String(at)} bytes`);
  });

const WRONG: readonly (readonly [string, Buffer, RegExp])[] = [
  ["none", REST, /does not begin with a header/],
  ["a startup packet", Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]), /does not begin with a header/],
  ["TLS", Buffer.from([22, 3, 1]), /does not begin with a header/],
  ["of version 3", header(V4, { command: 0x31 }), /version and command are 0x31/],
  ["of an unknown command", header(V4, { command: 0x22 }), /version and command are 0x22/],
  ["too long", header([], { length: PROXY_BYTES_MAX }), /more than 4096/],
  ["too short for IPv4", header(V4.slice(1)), /ends inside an address/],
  ["too short for IPv6", header(V4, { family: 0x21 }), /ends inside an address/],
  ["a line without an end", Buffer.from(`PROXY TCP4 ${"1".repeat(100)}`), /line does not end/],
  ["a line that ends too late", Buffer.from(`PROXY TCP4 ${"1".repeat(100)}\r\n`), /line does not end/],
  ["a line of another family", Buffer.from("PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n"), /no valid addresses/],
  ["a line with a name", Buffer.from("PROXY TCP4 localhost 1.2.3.4 1 2\r\n"), /no valid addresses/],
  ["a line of the wrong family", Buffer.from("PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n"), /no valid addresses/],
  ["a line without ports", Buffer.from("PROXY TCP4 1.2.3.4 1.2.3.4\r\n"), /no valid addresses/],
];

for (const [what, bytes, reason] of WRONG)
  test(`a wrong header: ${what}`, () => {
    const read = readProxyHeader(bytes);
    assert.ok(read?.value.kind === "wrong");
    assert.match(read.value.reason, reason);
  });

test("whatever bytes come, what is read lies in them and is an address", () => {
  const start = fc.constantFrom(SIGNATURE, Buffer.from("PROXY "), Buffer.alloc(0));
  const command = fc.constantFrom([0x21, 0x11], [0x21, 0x21], [0x20, 0], []);
  fc.assert(
    fc.property(start, command, fc.uint8Array({ maxLength: 300 }), (begin, next, rest) => {
      const bytes = Buffer.concat([begin, Buffer.from(next), rest]);
      if (bytes.length === 0) return;
      const read = readProxyHeader(bytes);
      if (read === null) return;
      assert.ok(read.end <= bytes.length);
      if (read.value.kind === "client") assert.notEqual(isIP(read.value.address), 0);
    }),
  );
});

test("any IPv6 address is read as the operating system writes it", () => {
  fc.assert(
    fc.property(fc.ipV6(), (address) => {
      const text = new SocketAddress({ address, family: "ipv6" }).address;
      const groups = new URL(`http://[${address}]`).hostname.slice(1, -1).split("::");
      const [head = [], tail = []] = groups.map((part) => part.split(":").filter((group) => group !== ""));
      const zeros = Array.from({ length: 8 - head.length - tail.length }, () => "0");
      const hex = [...head, ...zeros, ...tail].map((group) => group.padStart(4, "0")).join("");
      const bytes = [...Buffer.from(hex.repeat(2), "hex"), 0, 1, 0, 2];
      assert.deepEqual(readProxyHeader(header(bytes, { family: 0x21 }))?.value, client(text));
    }),
  );
});

test("networks are addresses, with a prefix or without one", () => {
  for (const network of ["10.0.0.1", "10.0.0.0/16", "0.0.0.0/0", "::1", "2001:db8::/32", "fd00::/128"])
    assert.ok(isNetwork(network), network);
  for (const text of ["", "localhost", "10.0.0", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/8/8", "*"])
    assert.ok(!isNetwork(text), text);
});

test("a proxy is one of the listed networks, also where IPv4 comes as IPv6", () => {
  const proxies = new Proxies(["10.1.0.0/16", "192.0.2.7", "2001:db8::/32"]);
  for (const address of ["10.1.255.1", "::ffff:10.1.2.3", "192.0.2.7", "2001:db8:1::9"])
    assert.ok(proxies.has(address), address);
  for (const address of ["10.2.0.1", "::ffff:10.2.2.3", "192.0.2.8", "2001:db9::1", ""])
    assert.ok(!proxies.has(address), address);
  assert.ok(!new Proxies([]).has("127.0.0.1"));
});
