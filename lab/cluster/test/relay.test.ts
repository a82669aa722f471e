// Goal: relays and links delay, order, cut and heal correctly. Method: real sockets, no database.

import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { after, before, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "@highwater/lab-tools/process";
import { Network } from "../src/network.ts";

const roundTripMs = 40;

/** Echoes every byte, and the end. */
async function startEcho(): Promise<net.Server> {
  const server = net.createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    socket.on("error", () => undefined);
    socket.pipe(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

interface Client extends AsyncDisposable {
  socket: net.Socket;
  received: () => Buffer;
}

async function connect(port: number): Promise<Client> {
  const socket = net.connect({ port, host: "127.0.0.1", noDelay: true });
  const chunks: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => chunks.push(chunk));
  await once(socket, "connect");
  socket.on("error", () => undefined);
  return {
    socket,
    received: () => Buffer.concat(chunks),
    [Symbol.asyncDispose]: async () => void socket.destroy(),
  };
}

/** Unlike events.once, ignores the error that precedes the close of a reset connection. */
function closeOf(socket: net.Socket): Promise<void> {
  return new Promise((resolve) => socket.once("close", () => resolve()));
}

const has = (client: Client, text: string) => (): boolean => client.received().toString() === text;

describe("a relay", () => {
  const network = new Network({ "here/there": roundTripMs });
  let echo: net.Server;
  let port: number;

  before(async () => {
    echo = await startEcho();
    ({ port } = await network.openRelay({
      from: "here",
      to: "there",
      port: (echo.address() as net.AddressInfo).port,
    }));
  });

  after(async () => {
    await network.close();
    echo.close();
  });

  it("delays an answer by at least the round trip", async () => {
    await using client = await connect(port);
    for (let round = 0; round < 5; round++) {
      const startMs = performance.now();
      client.socket.write("x");
      await once(client.socket, "data");
      const tookMs = performance.now() - startMs;
      assert.ok(tookMs >= roundTripMs, `round ${round}: ${tookMs} ms`);
    }
  });

  it("applies a changed round trip to open connections", async () => {
    await using client = await connect(port);
    await network.setRoundTripMs("there", "here", 120);
    const startMs = performance.now();
    client.socket.write("x");
    await once(client.socket, "data");
    assert.ok(performance.now() - startMs >= 120);
    await network.setRoundTripMs("there", "here", roundTripMs);
  });

  it("keeps the order when the delay shrinks while bytes are under way", async () => {
    await using client = await connect(port);
    await network.setRoundTripMs("here", "there", 200);
    client.socket.write("first ");
    await sleep(5);
    await network.setRoundTripMs("here", "there", 0);
    client.socket.write("second");
    await eventually("both arrive", has(client, "first second"));
    await network.setRoundTripMs("here", "there", roundTripMs);
  });

  it("carries many small and some huge writes unchanged, beyond its queue bound", async () => {
    await using client = await connect(port);
    const parts: Buffer[] = [];
    for (let index = 0; index < 500; index++) parts.push(Buffer.from(`${index},`));
    for (let index = 0; index < 3; index++) parts.push(Buffer.alloc(10 * 1024 * 1024, `${index}abcdefg`));
    const ended = once(client.socket, "end");
    for (const part of parts) {
      if (!client.socket.write(part)) await once(client.socket, "drain");
    }
    client.socket.end();
    await ended;
    assert.ok(client.received().equals(Buffer.concat(parts)));
  });

  it("passes on what ends first: the target's refusal, its reset, the client's end", async () => {
    const refused = await network.openRelay({ from: "here", to: "there", port: 1 });
    await using client = await connect(refused.port);
    await closeOf(client.socket);

    const resetting = net.createServer((socket) => socket.resetAndDestroy()).listen(0, "127.0.0.1");
    await once(resetting, "listening");
    const relay = await network.openRelay({
      from: "here",
      to: "there",
      port: (resetting.address() as net.AddressInfo).port,
    });
    await using second = await connect(relay.port);
    await closeOf(second.socket);
    resetting.close();
    await network.closeRelay(relay.relayId);
  });

  it("reports a listen port in use", async () => {
    const { port: taken } = echo.address() as net.AddressInfo;
    await assert.rejects(network.openRelay({ from: "here", to: "there", port: 1, listenPort: taken }), {
      name: "DevClusterError",
      code: "PORT_IN_USE",
    });
  });
});

describe("a cut", () => {
  let network: Network;
  let echo: net.Server;
  let port: number;
  let report: string;

  before(async () => {
    echo = await startEcho();
    echo.on("connection", (socket: net.Socket) =>
      socket.on("data", (chunk: Buffer) => (report += chunk.toString())),
    );
  });

  after(() => echo.close());

  /** A new network for each case; `received` has what reached the target. */
  async function fresh(): Promise<AsyncDisposable> {
    report = "";
    network = new Network({ "here/there": 10 });
    ({ port } = await network.openRelay({
      from: "here",
      to: "there",
      port: (echo.address() as net.AddressInfo).port,
    }));
    return { [Symbol.asyncDispose]: () => network.close() };
  }

  /** An answer over another link shows that everything due before has had its chance. */
  async function othersAreServed(): Promise<void> {
    const other = await network.openRelay({
      from: "elsewhere",
      to: "there",
      port: (echo.address() as net.AddressInfo).port,
    });
    await network.setRoundTripMs("elsewhere", "there", 30);
    await using client = await connect(other.port);
    client.socket.write("!");
    await eventually("the other link answers", has(client, "!"));
    report = report.replace("!", "");
  }

  it("stalls bytes, and healing lets them flow on in order", async () => {
    await using _ = await fresh();
    await using client = await connect(port);
    client.socket.write("a");
    await eventually("a", has(client, "a"));
    await network.cut("here", "there", {});
    client.socket.write("b");
    await othersAreServed();
    client.socket.write("c");
    assert.equal(client.received().toString(), "a");
    assert.equal(report, "a");
    assert.equal(client.socket.destroyed, false);
    await network.heal("there", "here");
    await eventually("abc", has(client, "abc"));
  });

  it("stalls bytes that were already under way", async () => {
    await using _ = await fresh();
    await network.setRoundTripMs("here", "there", 300);
    await using client = await connect(port);
    client.socket.write("a");
    await sleep(10);
    await network.cut("here", "there", {});
    await network.setRoundTripMs("here", "there", 10);
    // It would have arrived by now.
    await sleep(200);
    await othersAreServed();
    assert.equal(report, "");
    await network.heal("here", "there");
    await eventually("a", has(client, "a"));
  });

  it("accepts new connections and forwards nothing until it heals", async () => {
    await using _ = await fresh();
    await network.cut("here", "there", {});
    await using client = await connect(port);
    client.socket.write("late");
    await othersAreServed();
    assert.equal(report, "");
    await network.heal("here", "there");
    await eventually("late", has(client, "late"));
  });

  it("forgets a connection that its client gave up meanwhile", async () => {
    await using _ = await fresh();
    await network.cut("here", "there", {});
    const client = await connect(port);
    client.socket.write("never");
    await client[Symbol.asyncDispose]();
    await othersAreServed();
    await network.heal("here", "there");
    await othersAreServed();
    assert.equal(report, "");
  });

  it("can stop one direction only", async () => {
    await using _ = await fresh();
    await using client = await connect(port);
    await network.cut("here", "there", { direction: "backward" });
    client.socket.write("request");
    await eventually("the request arrives", () => report === "request");
    await othersAreServed();
    assert.equal(client.received().length, 0);
    await network.heal("here", "there");
    await eventually("the answer arrives", has(client, "request"));

    await network.cut("there", "here", { direction: "backward" });
    report = "";
    client.socket.write("more");
    await othersAreServed();
    assert.equal(report, "");
    await network.heal("here", "there");
    await eventually("the rest arrives", has(client, "requestmore"));
  });

  it("by reset breaks connections and refuses new ones until it heals", async () => {
    await using _ = await fresh();
    await using client = await connect(port);
    client.socket.write("a");
    await eventually("a", has(client, "a"));
    const closed = closeOf(client.socket);
    await network.cut("here", "there", { mode: "reset" });
    await closed;
    const refused = net.connect(port, "127.0.0.1");
    refused.on("error", () => undefined);
    await closeOf(refused);
    await network.heal("here", "there");
    await using again = await connect(port);
    again.socket.write("b");
    await eventually("b", has(again, "b"));
  });

  it("by isolation holds for locations that are only named later, but for the excepted", async () => {
    await using _ = await fresh();
    await network.isolate("there", ["friend"]);
    const target = { to: "there", port: (echo.address() as net.AddressInfo).port };
    const friend = await network.openRelay({ ...target, from: "friend" });
    const stranger = await network.openRelay({ ...target, from: "stranger" });
    await using shut = await connect(stranger.port);
    await using open = await connect(friend.port);
    shut.socket.write("s");
    open.socket.write("f");
    await eventually("the friend is served", has(open, "f"));
    assert.equal(report, "f");
    await network.healAll();
    await eventually("the stranger is served", has(shut, "s"));
  });
});
