// Goal: an idle connection receives no answer. A client may be about to use it, and would take that
// answer for the answer to its next request.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { after, before, test } from "node:test";
import { refuseConnection } from "../src/plugins/error-handler.ts";

let hurried: Server;
let patient: Server;

before(async () => {
  hurried = await serve(100);
  patient = await serve(60_000);
});

after(() => {
  hurried.close();
  patient.close();
});

/** A server like the services', with other limits. */
async function serve(limitMs: number): Promise<Server> {
  const times = { headersTimeout: limitMs, requestTimeout: limitMs, connectionsCheckingInterval: 20 };
  const server = createServer(times, (_request, response) => response.end("answered"));
  server.on("clientError", (cause, socket) => {
    refuseConnection(cause, socket as Parameters<typeof refuseConnection>[1]);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

/** All bytes that the server sends until it closes the connection. */
async function answerTo(server: Server, sent: string): Promise<string> {
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  let text = "";
  socket.on("data", (part: Buffer) => (text += part.toString()));
  socket.on("error", () => undefined);
  if (sent !== "") socket.write(sent);
  await once(socket, "close");
  return text;
}

test("a connection on which nothing was ever sent is closed without an answer", async () => {
  assert.equal(await answerTo(hurried, ""), "");
});

test("a request that does not arrive in time gets an answer that says so", async () => {
  const answer = await answerTo(hurried, "POST / HTTP/1.1\r\nhost: x\r\n");
  assert.match(answer, /^HTTP\/1\.1 400 [^]*The request did not arrive in time\./);
});

test("bytes that are not a request get an error that says so", async () => {
  assert.match(await answerTo(patient, "nonsense\r\n\r\n"), /^HTTP\/1\.1 400 [^]*Not an HTTP request\./);
});
