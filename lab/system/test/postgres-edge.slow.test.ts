// Goal: PostgreSQL clients reach the system through the edge of a region. Their bytes pass as they
// are, up to the gateway's TLS, each counts by its own address, and no new one reaches a gateway
// that drains or has died. Method: a real Envoy in front of each of two regions, one of them with
// two gateways, which know the edges as proxies and ask for API keys over TLS.
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { Socket } from "node:net";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import pg from "pg";
import { whyNoEnvoy } from "@highwater/lab-tools/envoy";
import { makeAuthority } from "@highwater/lab-tools/process/certificate";
import { System } from "../src/index.ts";
import { eventually } from "../src/testing.ts";

const [EAST, WEST] = ["us-east", "us-west"] as const;
const SECOND = `${EAST}-2`;
const ROLE = "app_alice_write";
const [STRANGER, OTHER] = ["127.0.0.5", "127.0.0.6"];
/** More than one address may send at once, also if they take seconds. */
const REFUSED = 300;
/** A key that the gateway would have to look up: it does not do that for an address over the limit. */
const UNKNOWN_KEY = `hwk_aaaaaaaa_${"A".repeat(43)}`;
const STOP_LIMIT_MS = 60_000;

const AUTHORITY = makeAuthority("the deployment of this test");
const SHOWN = AUTHORITY.issue("127.0.0.1");
const known = getCACertificates("default");

/** Connects from the address; the driver connects the socket that it is given. */
function socketFrom(localAddress: string, port: number): Socket {
  const socket = new Socket();
  const begin = socket.connect.bind(socket);
  return Object.assign(socket, { connect: () => begin({ host: "127.0.0.1", port, localAddress }) });
}

describe("PostgreSQL clients at the edge", { skip: whyNoEnvoy() }, () => {
  let system: System;
  let key: string;
  before(async () => {
    setDefaultCACertificates([...known, AUTHORITY.certificate]);
    system = await System.start({
      cluster: { nodes: [EAST, WEST].map((region) => ({ id: region, region })) },
      env: {
        GATEWAY_AUTH: "keys",
        TRACKER_AUTH: "keys",
        HIGHWATER_INTERNAL_SECRET: "a secret for these tests alone",
        HIGHWATER_TLS_CERTIFICATE: SHOWN.certificate,
        HIGHWATER_TLS_KEY: SHOWN.key,
        HIGHWATER_TLS_CA: AUTHORITY.certificate,
      },
    });
    await system.addGateway(EAST);
    key = await system.createKey({ name: "one", owner: "alice", scopes: ["read", "write"] });
    const serviceAuthority = join(system.cluster.dir, "authority.crt");
    await writeFile(serviceAuthority, AUTHORITY.certificate);
    for (const region of [EAST, WEST]) await system.startEdge(region, { serviceAuthority });
  });
  after(async () => {
    await system.close();
    setDefaultCACertificates(known);
  });

  /** `tls`: whether the client asks for it, as `sslmode=verify-full` does. */
  async function open(
    region: string,
    { from = "127.0.0.1", password = key, tls = true } = {},
  ): Promise<pg.Client> {
    const port = Number(new URL(system.edgePgUrl(region)).port);
    const client = new pg.Client({
      ...{ user: ROLE, database: "app", host: "127.0.0.1", port, password },
      ...(tls && { ssl: { ca: AUTHORITY.certificate } }),
      stream: () => socketFrom(from, port),
    });
    client.on("error", () => undefined);
    await client.connect();
    return client;
  }

  async function codeOf(opened: Promise<pg.Client>): Promise<string> {
    try {
      await (await opened).end();
      return "00000";
    } catch (cause) {
      return String((cause as { code?: unknown }).code);
    }
  }

  /** Open sessions of the gateway. */
  async function sessions(name: string): Promise<number> {
    const region = name === WEST ? WEST : EAST;
    const gateway = system.gateways(region).find((each) => each.name === `gateway-${name}`);
    const text = await (await fetch(`${gateway?.url ?? ""}/metrics`)).text();
    return Number(/^highwater_gateway_wire_sessions (\d+)$/m.exec(text)?.[1]);
  }

  test("a client's TLS ends at the gateway, in each region, also for reads", async () => {
    for (const region of [EAST, WEST]) {
      const client = await open(region);
      const { rows } = await client.query<{ current_user: string }>("SELECT current_user");
      assert.deepEqual(rows, [{ current_user: ROLE }]);
      await eventually("the nearest gateway has the session", async () => {
        const names = region === EAST ? [EAST, SECOND] : [WEST];
        const counts = await Promise.all(names.map(sessions));
        return counts.reduce((sum, count) => sum + count, 0) === 1;
      });
      await client.end();
      await eventually("no session is left", async () => {
        const counts = await Promise.all([EAST, SECOND, WEST].map(sessions));
        return counts.every((count) => count === 0);
      });
    }
    const readUrl = new URL(system.edgePgReadUrl(WEST, ROLE));
    readUrl.password = key;
    const reader = new pg.Client({
      connectionString: readUrl.href,
      ssl: { ca: AUTHORITY.certificate },
    });
    await reader.connect();
    const { rows } = await reader.query<{ replica: boolean }>("SELECT pg_is_in_recovery() AS replica");
    assert.deepEqual(rows, [{ replica: true }]);
    await reader.end();
  });

  test("wrong passwords count against the client, not against the edge", async () => {
    for (let sent = 0; sent < REFUSED; sent++)
      assert.equal(await codeOf(open(WEST, { from: STRANGER, password: "wrong", tls: false })), "28P01");
    const unknown = { password: UNKNOWN_KEY, tls: false };
    assert.equal(await codeOf(open(WEST, { from: STRANGER, ...unknown })), "53300");
    assert.equal(await codeOf(open(WEST, { from: OTHER, ...unknown })), "28P01");
  });

  test("a gateway that drains gets no new client, one that has died gets none either", async () => {
    const clients: pg.Client[] = [];
    await eventually("both gateways have sessions", async () => {
      clients.push(await open(EAST));
      const counts = await Promise.all([EAST, SECOND].map(sessions));
      return counts.every((count) => count > 0);
    });
    for (const client of clients) await client.query("BEGIN");
    const [draining, other] = system.gateways(EAST);
    assert.ok(draining !== undefined && other !== undefined);
    const before = await sessions(SECOND);
    const stopped = draining.stop(STOP_LIMIT_MS);
    await eventually("it drains", async () => (await fetch(`${draining.url}/readyz`)).status === 503);
    for (const turn of [1, 2, 3]) {
      clients.push(await open(EAST));
      assert.equal(await sessions(SECOND), before + turn);
    }
    // The open transaction, of whichever gateway, may end.
    for (const client of clients) await client.query("COMMIT");
    await stopped;
    await other.kill();
    await eventually("new clients reach the other region", async () => {
      const client = await open(EAST).catch(() => undefined);
      if (client === undefined) return false;
      clients.push(client);
      return (await sessions(WEST)) > 0;
    });
    for (const client of clients) await client.end().catch(() => undefined);
  });
});
