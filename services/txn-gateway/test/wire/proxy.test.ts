// Goal: behind a proxy that sends the PROXY protocol's header, a client's own address counts. Method:
// clients on bare sockets that write the header themselves, from an address that is listed as a
// proxy's and from one that is not.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { after, before, it } from "node:test";
import { System } from "@highwater/lab-system";
import { eventually } from "@highwater/lab-system/testing";
import { writeStartup } from "../../src/wire/startup/packet.ts";
import { WireClient, type WireError } from "./client.ts";

const PROXY = "127.0.0.9";
const SIGNATURE = Buffer.from("\r\n\r\n\0\r\nQUIT\n", "latin1");
/** More than one address may send at once, also if they take seconds. */
const REFUSED = 300;
/** A key that the gateway would have to look up: it does not do that for an address over the limit. */
const UNKNOWN_KEY = `hwk_aaaaaaaa_${"A".repeat(43)}`;

let system: System;
let url: string;
let key: string;
before(async () => {
  system = await System.start({
    cluster: { nodes: [{ id: "us-east", region: "us-east" }] },
    levels: { disk: { primary: true } },
    env: {
      GATEWAY_AUTH: "keys",
      TRACKER_AUTH: "keys",
      HIGHWATER_INTERNAL_SECRET: "a secret for these tests alone",
      GATEWAY_PG_PROXIES: `${PROXY}, 192.0.2.0/24`,
    },
  });
  key = await system.createKey({ name: "one", owner: "alice", scopes: ["read", "write"] });
  url = system.pgUrl("us-east", "app_alice_write");
});
after(() => system.close());

function headerOf(address: string): Buffer {
  const addresses = [...address.split(".").map(Number), 127, 0, 0, 1, 200, 1, 100, 1];
  return Buffer.from([...SIGNATURE, 0x21, 0x11, 0, addresses.length, ...addresses]);
}

const OF_PROXY = Buffer.from([...SIGNATURE, 0x20, 0, 0, 0]);

async function socketFrom(localAddress: string): Promise<Socket> {
  const socket = connect({ host: "127.0.0.1", port: Number(new URL(url).port), localAddress, noDelay: true });
  await new Promise((resolve, reject) => socket.once("connect", resolve).once("error", reject));
  return socket;
}

/** A session's client that sends the header first. Errors: with the server's message. */
async function open(
  header: Buffer,
  { password = key, from = PROXY }: { readonly password?: string; readonly from?: string } = {},
): Promise<WireClient> {
  const client = WireClient.over(await socketFrom(from));
  client.socket.write(header);
  await client.start(url, { password });
  return client;
}

async function codeOf(opened: Promise<WireClient>): Promise<string> {
  try {
    (await opened).end();
    return "00000";
  } catch (cause) {
    return (cause as WireError).code;
  }
}

async function logged(event: string): Promise<number> {
  const log = await readFile(system.gateway("us-east").logFile, "utf8");
  return log.split("\n").filter((line) => line.includes(`"${event}"`)).length;
}

it("a listed proxy's client has a session, also if the header comes byte by byte", async () => {
  const client = await open(headerOf("198.51.100.1"));
  assert.deepEqual((await client.query("SELECT current_user")).rows, [["app_alice_write"]]);
  client.end();
  const startup = writeStartup(196_608, new Map([["user", "app_alice_write"]]));
  const slow = await socketFrom(PROXY);
  for (const byte of Buffer.concat([headerOf("198.51.100.2"), startup])) {
    slow.write(Buffer.from([byte]));
    await new Promise(setImmediate);
  }
  const asked = await WireClient.over(slow).next();
  assert.equal(asked.type, "R");
  slow.destroy();
  (await open(OF_PROXY)).end();
  (await open(Buffer.from("PROXY TCP6 2001:db8::1 ::1 1 2\r\n"))).end();
});

it("a listed proxy has to send the header, and no other peer may", async () => {
  assert.equal(await codeOf(open(Buffer.alloc(0))), "08P01");
  assert.equal(await codeOf(open(headerOf("198.51.100.1"), { from: "127.0.0.1" })), "08P01");
  assert.equal(await codeOf(open(Buffer.from("PROXY UNKNOWN\r\n"), { from: "127.0.0.1" })), "08P01");
  assert.equal(await codeOf(open(Buffer.alloc(0), { from: "127.0.0.1" })), "00000");
  await eventually("the first of them are logged", async () => (await logged("wire_proxy_refused")) === 2);
});

it("wrong keys count against the client that sends them, not against the proxy", async () => {
  const stranger = headerOf("203.0.113.66");
  for (let sent = 0; sent < REFUSED; sent++)
    assert.equal(await codeOf(open(stranger, { password: "wrong" })), "28P01");
  assert.equal(await codeOf(open(stranger, { password: UNKNOWN_KEY })), "53300");
  assert.equal(await codeOf(open(headerOf("203.0.113.67"), { password: UNKNOWN_KEY })), "28P01");
});

it("connections that end at once, as a health check's, are neither logged nor counted", async () => {
  const before = await logged("wire_proxy_refused");
  for (const from of [PROXY, "127.0.0.1"])
    for (let sent = 0; sent < 200; sent++) {
      const socket = await socketFrom(from);
      if (sent % 2 === 0) socket.end();
      else socket.resetAndDestroy();
      await new Promise((resolve) => socket.once("close", resolve));
    }
  assert.equal(await codeOf(open(OF_PROXY, { password: "wrong" })), "28P01");
  assert.equal(await codeOf(open(Buffer.alloc(0), { password: "wrong", from: "127.0.0.1" })), "28P01");
  assert.equal(await logged("wire_session_not_opened"), 0);
  assert.equal(await logged("wire_proxy_refused"), before);
});
