// Goal: connections of PostgreSQL clients, those that only read included, reach the nearest ready gateway byte for byte, behind a header
// with the client's address. Those that are open stay when it is no longer ready, and readiness is asked over TLS where services speak it.
import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import { eventually } from "@highwater/lab-tools/process";
import { makeAuthority } from "@highwater/lab-tools/process/certificate";
import { type EdgeGateway, type EdgeNode } from "../src/source.ts";
import { ask, makeFolder, TestEdge, withoutEnvoy } from "./support/edge.ts";
import { Upstream } from "./support/upstream.ts";

const SIGNATURE = Buffer.from("\r\n\r\n\0\r\nQUIT\n", "latin1");
const FIXED_BYTES = 16;

/** The header of the PROXY protocol, version 2, of a client at an IPv4 address. */
function headerOf(address: string): Buffer {
  const addresses = [...address.split(".").map(Number), 127, 0, 0, 1, 200, 1, 100, 1];
  return Buffer.from([...SIGNATURE, 0x21, 0x11, 0, addresses.length, ...addresses]);
}

/** Takes each connection's header, says its name, and then repeats what it gets. */
class Port implements AsyncDisposable {
  readonly #server: Server;
  /** Addresses of the clients, in order. */
  readonly clients: string[] = [];
  /** Addresses from which the connections came. */
  readonly peers = new Set<string>();
  readonly #open = new Set<Socket>();

  private constructor(name: string) {
    this.#server = createServer((socket) => {
      this.#open.add(socket);
      this.peers.add(socket.remoteAddress ?? "");
      socket.on("close", () => this.#open.delete(socket));
      socket.on("error", () => undefined);
      socket.once("data", (first: Buffer) => {
        assert.ok(first.subarray(0, SIGNATURE.length).equals(SIGNATURE), "the header comes first, and whole");
        assert.deepEqual([...first.subarray(12, 14)], [0x21, 0x11]);
        const end = FIXED_BYTES + first.readUInt16BE(14);
        this.clients.push(first.subarray(FIXED_BYTES, FIXED_BYTES + 4).join("."));
        socket.write(name);
        if (first.length > end) socket.unshift(first.subarray(end));
        socket.pipe(socket);
      });
    });
  }

  static async open(name: string): Promise<Port> {
    const port = new Port(name);
    port.#server.listen(0, "127.0.0.1");
    await once(port.#server, "listening");
    return port;
  }

  get number(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#open) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** A connection, and the name of the gateway that it reached; empty if it was closed instead. */
async function dial(
  port: number,
  { localAddress = "127.0.0.1", header = "" }: { localAddress?: string; header?: string | Buffer } = {},
): Promise<{ readonly socket: Socket; readonly name: string }> {
  const socket = connect({ port, host: "127.0.0.1", localAddress });
  socket.write(header);
  const [name = ""] = (await Promise.race([once(socket, "data"), once(socket, "end")])) as [Buffer?];
  return { socket, name: name.toString() };
}

/** Waits until new connections reach it. */
async function reaches(port: number, expected: string): Promise<void> {
  await eventually(`new connections reach ${expected}`, async () => {
    const { socket, name } = await dial(port);
    socket.destroy();
    return name === expected;
  });
}

/** An edge with both PostgreSQL ports and a gateway in each of two regions. */
function startEdge({
  near,
  far,
  tracker,
}: {
  near: EdgeGateway;
  far: EdgeGateway;
  tracker: EdgeNode;
}): Promise<TestEdge> {
  return TestEdge.start({
    postgresPort: 0,
    postgresReadPort: 0,
    regions: [
      { name: "near", gateways: [near], trackers: [tracker] },
      { name: "far", gateways: [far], trackers: [] },
    ],
  });
}

describe("connections of PostgreSQL clients", withoutEnvoy, () => {
  test("reach the nearest ready gateway, and stay there when it is no longer ready", async () => {
    await using near = await Upstream.start("near");
    await using far = await Upstream.start("far");
    await using tracker = await Upstream.start("t1");
    await using nearPort = await Port.open("near");
    await using nearReads = await Port.open("near, reads");
    await using farPort = await Port.open("far");
    await using farReads = await Port.open("far, reads");
    await using edge = await startEdge({
      near: { ...near.node, postgresPort: nearPort.number, postgresReadPort: nearReads.number },
      far: { ...far.node, postgresPort: farPort.number, postgresReadPort: farReads.number },
      tracker: tracker.node,
    });
    const ports = [
      { port: edge.envoy.port("postgres"), behind: "" },
      { port: edge.envoy.port("postgres_read"), behind: ", reads" },
    ];
    for (const { port, behind } of ports) await reaches(port, `near${behind}`);
    const open = await Promise.all(ports.map(({ port }) => dial(port)));
    near.isReady = false;
    for (const { port, behind } of ports) await reaches(port, `far${behind}`);
    const sent = Buffer.from(Array.from({ length: 100_000 }, (_, at) => at % 251));
    for (const { socket, name } of open) {
      const received: Buffer[] = [];
      socket.on("data", (piece: Buffer) => received.push(piece));
      socket.end(sent);
      await once(socket, "end");
      assert.ok(Buffer.concat(received).equals(sent), `the open connection still reaches ${name}`);
    }
  });

  test("come with the client's address, also behind a proxy that names it", async () => {
    await using gateway = await Upstream.start("g1");
    await using tracker = await Upstream.start("t1");
    await using port = await Port.open("g1");
    for (const postgresProxyProtocol of [false, true]) {
      await using edge = await TestEdge.start({
        postgresPort: 0,
        postgresProxyProtocol,
        regions: [
          {
            name: "here",
            gateways: [{ ...gateway.node, postgresPort: port.number }],
            trackers: [tracker.node],
          },
        ],
      });
      const from = { localAddress: "127.0.0.5", header: headerOf("198.51.100.7") };
      const { socket, name } = await dial(
        edge.envoy.port("postgres"),
        postgresProxyProtocol ? from : { localAddress: "127.0.0.5" },
      );
      socket.destroy();
      assert.equal(name, "g1");
    }
    assert.deepEqual(port.clients, ["127.0.0.5", "198.51.100.7"]);
  });

  test("come from the edge's source address", async () => {
    await using gateway = await Upstream.start("g1");
    await using tracker = await Upstream.start("t1");
    await using port = await Port.open("g1");
    await using edge = await TestEdge.start({
      postgresPort: 0,
      sourceAddress: "127.0.0.2",
      regions: [
        {
          name: "here",
          gateways: [{ ...gateway.node, postgresPort: port.number }],
          trackers: [tracker.node],
        },
      ],
    });
    await reaches(edge.envoy.port("postgres"), "g1");
    const { status } = await ask(`${edge.url}/v1/transactions/0`);
    assert.equal(status, 200);
    assert.deepEqual([...port.peers], ["127.0.0.2"]);
    assert.deepEqual([...new Set(port.clients)], ["127.0.0.1"]);
  });

  test("that only read go to a region whose gateways have the port for that", async () => {
    await using near = await Upstream.start("near");
    await using far = await Upstream.start("far");
    await using tracker = await Upstream.start("t1");
    await using nearPort = await Port.open("near");
    await using farReads = await Port.open("far, reads");
    await using edge = await startEdge({
      near: { ...near.node, postgresPort: nearPort.number },
      far: { ...far.node, postgresReadPort: farReads.number },
      tracker: tracker.node,
    });
    await reaches(edge.envoy.port("postgres"), "near");
    await reaches(edge.envoy.port("postgres_read"), "far, reads");
  });

  test("go to another gateway if one has stopped listening and its check has not seen it", async () => {
    await using draining = await Upstream.start("draining");
    await using ready = await Upstream.start("ready");
    await using tracker = await Upstream.start("t1");
    const closed = await Port.open("draining");
    const { number: closedPort } = closed;
    await using open = await Port.open("ready");
    await closed[Symbol.asyncDispose]();
    const gateways = [
      { ...draining.node, postgresPort: closedPort, postgresReadPort: closedPort },
      { ...ready.node, postgresPort: open.number, postgresReadPort: open.number },
    ];
    await using edge = await TestEdge.start({
      postgresPort: 0,
      postgresReadPort: 0,
      regions: [{ name: "here", gateways, trackers: [tracker.node] }],
    });
    for (const listener of ["postgres", "postgres_read"]) {
      await eventually("both gateways are known as ready", async () => {
        return (await edge.statistic(`cluster.${listener}.membership_healthy`)) === 2;
      });
      // They stay open: the gateway that is closed has the fewest.
      for (let turn = 0; turn < 20; turn++) {
        const { name } = await dial(edge.envoy.port(listener));
        assert.equal(name, "ready");
      }
    }
  });

  test("pass as they are where services speak TLS, which the checks of readiness use", async () => {
    const folder = await makeFolder();
    const authority = makeAuthority("the deployment");
    await writeFile(join(folder, "authority.crt"), authority.certificate);
    await using gateway = await Upstream.start("g1", authority.issue("127.0.0.1"));
    await using tracker = await Upstream.start("t1", authority.issue("127.0.0.1"));
    await using port = await Port.open("g1");
    await using edge = await TestEdge.start(
      {
        postgresPort: 0,
        serviceAuthority: join(folder, "authority.crt"),
        regions: [
          {
            name: "here",
            gateways: [{ ...gateway.node, postgresPort: port.number }],
            trackers: [tracker.node],
          },
        ],
      },
      folder,
    );
    await eventually("the gateway is known as ready", async () => {
      return (await edge.statistic("cluster.postgres.membership_healthy")) === 1;
    });
    const { socket, name } = await dial(edge.envoy.port("postgres"));
    socket.destroy();
    assert.equal(name, "g1");
  });
});
