// Goal: the tally counts what a gateway announces, and passes on everything. Method: a server behind it that answers with what
// it has received; kept-alive requests beside a stream, as a gateway's transport sends them.
import assert from "node:assert/strict";
import { once } from "node:events";
import { Agent, createServer, type IncomingMessage, request } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { Tally } from "./tally.ts";

const BODY = "x".repeat(10_000);

test("announcements count with their heads, and the stream of marks does not", async () => {
  const server = createServer((question, answer) => {
    if (question.method === "GET") answer.write("event: mark\n\n");
    else question.on("end", () => answer.end("taken")).resume();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  using tally = await Tally.open(`http://127.0.0.1:${String(port)}`);
  const agent = new Agent({ keepAlive: true });
  const ask = async (path: string, method: string, body: string): Promise<IncomingMessage> => {
    const sent = request(tally.url + path, { method, ...(method === "POST" && { agent }) });
    sent.end(body);
    const [answer] = (await once(sent, "response")) as [IncomingMessage];
    return answer;
  };
  const stream = await ask("/v1/durability/stream?exposure=true", "GET", "");
  try {
    assert.equal(tally.announced, 0);
    for (let at = 0; at < 2; at++)
      assert.equal(await text(await ask("/internal/announcements", "POST", BODY)), "taken");
    const heads = tally.announced - 2 * BODY.length;
    assert.ok(heads > 2 * 50 && heads < 2 * 500, String(heads));
  } finally {
    stream.destroy();
    agent.destroy();
    server.closeAllConnections();
    server.close();
  }
});
