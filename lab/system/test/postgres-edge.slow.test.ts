// Goal: behind the edge, wrong passwords of one client of PostgreSQL do not keep others out. Method:
// a real Envoy in front of a gateway that knows it as a proxy, and clients from two addresses.
import assert from "node:assert/strict";
import { Socket } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import pg from "pg";
import { whyNoEnvoy } from "@highwater/lab-tools/envoy";
import { edgeNode, RegionEdge } from "../src/edge.ts";
import { System } from "../src/index.ts";

const REGION = "us-east";
const [STRANGER, OTHER] = ["127.0.0.5", "127.0.0.6"];
/** More than one address may send at once, also if they take seconds. */
const REFUSED = 300;
/** A key that the gateway would have to look up: it does not do that for an address over the limit. */
const UNKNOWN_KEY = `hwk_aaaaaaaa_${"A".repeat(43)}`;

/** Connects from the address; the driver connects the socket that it is given. */
function socketFrom(localAddress: string, port: number): Socket {
  const socket = new Socket();
  const begin = socket.connect.bind(socket);
  return Object.assign(socket, { connect: () => begin({ host: "127.0.0.1", port, localAddress }) });
}

test("wrong passwords count against the client, not against the edge", { skip: whyNoEnvoy() }, async () => {
  await using system = await System.start({
    cluster: { nodes: [{ id: REGION, region: REGION }] },
    levels: { disk: { primary: true } },
    env: {
      GATEWAY_AUTH: "keys",
      TRACKER_AUTH: "keys",
      HIGHWATER_INTERNAL_SECRET: "a secret for these tests alone",
      GATEWAY_PG_PROXIES: "127.0.0.1",
    },
  });
  const folder = join(system.cluster.dir, "postgres-edge");
  const postgresPort = Number(new URL(system.pgUrl(REGION)).port);
  const gateway = { ...edgeNode("g1", system.gateway(REGION).url), postgresPort };
  const trackers = [edgeNode("t1", system.tracker(REGION).url)];
  await using edge = await RegionEdge.start(
    {
      folder,
      adminSocket: join(folder, "admin.sock"),
      port: 0,
      regions: [{ name: REGION, gateways: [gateway], trackers }],
    },
    { postgresPort: 0 },
  );
  const codeOf = async (localAddress: string, password: string): Promise<string> => {
    const client = new pg.Client({
      user: "app_alice_write",
      database: "app",
      password,
      stream: () => socketFrom(localAddress, edge.envoy.port("postgres")),
    });
    client.on("error", () => undefined);
    try {
      await client.connect();
      await client.end();
      return "00000";
    } catch (cause) {
      return String((cause as { code?: unknown }).code);
    }
  };
  for (let sent = 0; sent < REFUSED; sent++) assert.equal(await codeOf(STRANGER, "wrong"), "28P01");
  assert.equal(await codeOf(STRANGER, UNKNOWN_KEY), "53300");
  assert.equal(await codeOf(OTHER, UNKNOWN_KEY), "28P01");
});
