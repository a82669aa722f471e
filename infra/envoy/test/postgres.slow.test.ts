// Goal: connections of PostgreSQL clients reach the nearest ready gateway byte for byte, those that are open stay when it is no
// longer ready, and readiness is asked over TLS where services speak it.
import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import { eventually } from "@highwater/lab-tools/process";
import { makeAuthority } from "@highwater/lab-tools/process/certificate";
import { makeFolder, TestEdge, withoutEnvoy } from "./support/edge.ts";
import { Upstream } from "./support/upstream.ts";

/** Says its name to each connection, and then repeats what it gets. */
class Port implements AsyncDisposable {
  readonly #server: Server;
  readonly #open = new Set<Socket>();

  private constructor(name: string) {
    this.#server = createServer((socket) => {
      this.#open.add(socket);
      socket.on("close", () => this.#open.delete(socket));
      socket.on("error", () => undefined);
      socket.write(name);
      socket.pipe(socket);
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

/** A connection, and the name of the gateway that it reached. */
async function dial(port: number): Promise<{ readonly socket: Socket; readonly name: string }> {
  const socket = connect(port, "127.0.0.1");
  const [name] = (await once(socket, "data")) as [Buffer];
  return { socket, name: name.toString() };
}

describe("connections of PostgreSQL clients", withoutEnvoy, () => {
  test("reach the nearest ready gateway, and stay there when it is no longer ready", async () => {
    await using near = await Upstream.start("near");
    await using far = await Upstream.start("far");
    await using tracker = await Upstream.start("t1");
    await using nearPort = await Port.open("near");
    await using farPort = await Port.open("far");
    await using edge = await TestEdge.start({
      postgresPort: 0,
      regions: [
        {
          name: "near",
          gateways: [{ ...near.node, postgresPort: nearPort.number }],
          trackers: [tracker.node],
        },
        { name: "far", gateways: [{ ...far.node, postgresPort: farPort.number }], trackers: [] },
      ],
    });
    const port = edge.envoy.port("postgres");
    await eventually("the near gateway is known as ready", async () => {
      const { socket, name } = await dial(port);
      socket.destroy();
      return name === "near";
    });
    const { socket } = await dial(port);
    near.isReady = false;
    await eventually("new connections go to the far gateway", async () => {
      const other = await dial(port);
      other.socket.destroy();
      return other.name === "far";
    });
    const sent = Buffer.from(Array.from({ length: 100_000 }, (_, at) => at % 251));
    const received: Buffer[] = [];
    socket.on("data", (piece: Buffer) => received.push(piece));
    socket.end(sent);
    await once(socket, "end");
    assert.ok(Buffer.concat(received).equals(sent), "the open connection still reaches its gateway");
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
