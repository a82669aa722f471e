// Goal: every spelling of a host that leads to an address which is not public is refused.
import assert from "node:assert/strict";
import { test } from "node:test";
import { HighwaterError } from "@highwater/protocol";
import {
  type AllowList,
  checkedAddresses,
  checkUrl,
  type HostAddress,
  isPublic,
  NOTHING_ALLOWED,
  parseAllowList,
} from "./address.ts";

const FORBIDDEN = [
  ...["127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.1.2.3", "172.16.0.1", "192.168.1.1"],
  ...["169.254.169.254", "100.64.0.1", "100.100.100.200", "192.0.0.192", "198.18.0.1", "192.0.2.1"],
  ...["224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16", "192.88.99.1"],
  ...[
    "::",
    "::1",
    "fe80::1",
    "fec0::1",
    "fc00::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "ff02::1",
    "2001:db8::1",
  ],
  // With an IPv4 address inside: mapped, compatible, translated, NAT64, 6to4, Teredo.
  ...["::ffff:8.8.8.8", "::ffff:10.0.0.1", "::8.8.8.8", "::7f00:1", "::ffff:0:8.8.8.8", "64:ff9b::808:808"],
  ...[
    "64:ff9b:1::a00:1",
    "2002:a00:1::1",
    "2002:808:808::1",
    "2001:0:808:808::1",
    "100::1",
    "3fff::1",
    "4000::1",
  ],
  ...["not an address", "", "1.2.3", "0x7f.1", "017700000001", "fe80::1%eth0"],
];
const PUBLIC = ["8.8.8.8", "1.1.1.1", "203.0.114.1", "2606:4700:4700::1111", "2a00:1450:4001::1"];

const list = (...entries: string[]): AllowList => parseAllowList(entries).list;
const idle = new AbortController().signal;
const answering =
  (...addresses: string[]) =>
  (): Promise<HostAddress[]> =>
    Promise.resolve(addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 })));

function isRefusal(cause: unknown): boolean {
  return cause instanceof HighwaterError && cause.code === "webhook_url_refused";
}

test("public addresses, and all that are not", () => {
  for (const address of FORBIDDEN) assert.equal(isPublic(address), false, address);
  for (const address of PUBLIC) assert.equal(isPublic(address), true, address);
});

test("every address of the name must be public, in any order", async () => {
  const url = checkUrl("https://hooks.example.com/x", NOTHING_ALLOWED);
  const ask = (...addresses: string[]): Promise<unknown> =>
    checkedAddresses(url, { allow: NOTHING_ALLOWED, resolve: answering(...addresses), signal: idle });
  await ask(...PUBLIC);
  for (const address of FORBIDDEN.filter((text) => /[.:]/.test(text))) {
    await assert.rejects(ask("8.8.8.8", address), isRefusal, address);
    await assert.rejects(ask(address, "8.8.8.8"), isRefusal, address);
  }
  await assert.rejects(ask(), isRefusal);
});

test("an address in the URL is judged as what it is, however it is written", async () => {
  const never = (): Promise<never> => assert.fail("an address needs no resolver");
  for (const host of ["127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "１２７.0.0.1", "[::1]"])
    await assert.rejects(
      async () =>
        checkedAddresses(checkUrl(`https://${host}/`, NOTHING_ALLOWED), {
          allow: NOTHING_ALLOWED,
          resolve: never,
          signal: idle,
        }),
      isRefusal,
      host,
    );
  const found = await checkedAddresses(checkUrl("https://[2606:4700::1111]/", NOTHING_ALLOWED), {
    allow: NOTHING_ALLOWED,
    resolve: never,
    signal: idle,
  });
  assert.deepEqual(found, [{ address: "2606:4700::1111", family: 6 }]);
});

test("URLs that are refused by their form", () => {
  for (const text of [
    ...["http://example.com/", "ftp://example.com/", "file:///etc/passwd", "https://", "nothing", ""],
    ...["https://user@example.com/", "https://user:pass@example.com/", "https://example.com:22/"],
    ...["https://example.com:80/", "https://example.com:0/", `https://example.com/${"x".repeat(2_048)}`],
  ])
    assert.throws(() => checkUrl(text, NOTHING_ALLOWED), isRefusal, text);
  for (const text of ["https://example.com/a?b=c", "https://example.com:8443/", "https://example.com:443/"])
    checkUrl(text, NOTHING_ALLOWED);
  assert.equal(checkUrl("https://example.com/a#b", NOTHING_ALLOWED).href, "https://example.com/a");
});

test("what an operator allows: a host, an address, a range, and nothing beside it", async () => {
  const ask = async (text: string, allow: AllowList, ...addresses: string[]): Promise<unknown> =>
    checkedAddresses(checkUrl(text, allow), { allow, resolve: answering(...addresses), signal: idle });
  await ask("http://hooks.internal:80/", list("hooks.internal"), "10.0.0.1");
  await ask("http://hooks.internal./", list("HOOKS.internal"), "10.0.0.1");
  await ask("http://127.0.0.1:9000/", list("127.0.0.1"));
  await ask("http://[::1]:9000/", list("::1/128"));
  await ask("http://hooks.internal/", list("10.0.0.0/8"), "10.1.2.3");
  await ask("https://hooks.internal/", list("10.0.0.0/8"), "10.1.2.3", "8.8.8.8");
  for (const [text, allow, ...addresses] of [
    ["http://other.internal/", list("hooks.internal"), "10.0.0.1"],
    ["http://a.hooks.internal/", list("hooks.internal"), "10.0.0.1"],
    ["http://127.0.0.2:9000/", list("127.0.0.1")],
    ["http://[::2]:9000/", list("::1")],
    ["https://hooks.internal/", list("10.0.0.0/8"), "10.1.2.3", "192.168.0.1"],
    ["http://example.com/", list("10.0.0.0/8"), "8.8.8.8"],
    ["https://example.com:22/", list("10.0.0.0/8"), "8.8.8.8"],
    ["https://hooks.internal/", list("10.0.0.0/8"), "::ffff:10.1.2.3"],
  ] as const)
    await assert.rejects(ask(text, allow, ...addresses), isRefusal, text);
});

test("entries of the list that mean nothing are faults", () => {
  assert.deepEqual(
    parseAllowList(["10.0.0.0/33", "a b", "1.2.3", "*", "example.com", "::1"]).faults.length,
    4,
  );
});
