// One application in three frameworks: each route is the same function, and the framework sends what it returns.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, request as connect, type ServerResponse } from "node:http";
import { type AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { type TestContext } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import express from "express";
import Fastify from "fastify";
import { type OutputGate } from "../../src/gate/index.ts";

export interface Reply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string | AsyncIterable<string>;
}
export type Routes = Readonly<Record<string, () => Promise<Reply>>>;
/** Serves the routes by POST, behind the gate. Resolves to its address. */
export type Host = (context: TestContext, gate: OutputGate, routes: Routes) => Promise<string>;

const HOST = "127.0.0.1";

async function serveExpress(context: TestContext, gate: OutputGate, routes: Routes): Promise<string> {
  const app = express();
  app.use(gate.express);
  app.post("/raw/:name", (request, response) => {
    afterBody(request, async () => {
      const { status, headers = {}, body } = await routeOf(routes, request.params.name)();
      response.writeHead(status, headers).end(body);
    });
  });
  // It reads the body on the connection's behalf, between the gate and the route.
  app.use(express.json());
  app.post("/:name", async (request, response) => {
    assert.deepEqual(request.body, { some: "body" });
    const { status, headers = {}, body } = await routeOf(routes, request.params.name)();
    response.status(status).set(headers);
    if (typeof body === "string") response.send(body);
    else Readable.from(body).pipe(response);
  });
  app.use((async (error: Error, request, response, _next) => {
    const body = isBadBody(request) ? (await routeOf(routes, "badBody")()).body : error.message;
    response.status(500).send(body);
  }) satisfies express.ErrorRequestHandler);
  const server = app.listen(0, HOST);
  await once(server, "listening");
  context.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://${HOST}:${String((server.address() as AddressInfo).port)}`;
}

async function serveFastify(context: TestContext, gate: OutputGate, routes: Routes): Promise<string> {
  const app = Fastify();
  await app.register(gate.fastify);
  // It leaves the body to the route.
  app.addContentTypeParser("application/octet-stream", (_request, _body, done) => {
    done(null);
  });
  app.post<{ Params: { name: string } }>("/raw/:name", (request, reply) => {
    afterBody(request.raw, async () => {
      const { status, headers = {}, body } = await routeOf(routes, request.params.name)();
      await reply.code(status).headers(headers).send(body);
    });
  });
  app.post<{ Params: { name: string } }>("/:name", async (request, reply) => {
    assert.deepEqual(request.body, { some: "body" });
    const { status, headers = {}, body } = await routeOf(routes, request.params.name)();
    return reply
      .code(status)
      .headers(headers)
      .send(typeof body === "string" ? body : Readable.from(body));
  });
  app.setErrorHandler(async (error: Error, request, reply) => {
    const body = isBadBody(request) ? (await routeOf(routes, "badBody")()).body : error.message;
    return reply.code(500).send(body);
  });
  context.after(() => {
    app.server.closeAllConnections();
    return app.close();
  });
  return app.listen({ port: 0, host: HOST });
}

/** The handler alone, as Next.js calls it: with a `Request`. The server around it is the test's. */
async function serveWeb(context: TestContext, gate: OutputGate, routes: Routes): Promise<string> {
  const handle = gate.route(async (request: Request) => {
    assert.deepEqual(await request.json(), { some: "body" });
    const { status, headers = {}, body } = await routeOf(routes, new URL(request.url).pathname.slice(1))();
    const content =
      typeof body === "string" ? body : (Readable.toWeb(Readable.from(body)) as ReadableStream<string>);
    const bytes = typeof content === "string" ? content : content.pipeThrough(new TextEncoderStream());
    return new Response(bytes, { status, headers });
  });
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await new Response(Readable.toWeb(request) as ReadableStream).text();
    const url = `http://${HOST}${request.url ?? "/"}`;
    const answer = await handle(new Request(url, { method: "POST", body })).catch(
      (error: unknown) => new Response((error as Error).message, { status: 500 }),
    );
    response.writeHead(answer.status, Object.fromEntries(answer.headers)).flushHeaders();
    if (answer.body) for await (const chunk of answer.body) response.write(chunk);
    response.end();
  };
  const server = createServer((request, response) => {
    serve(request, response).catch(() => response.destroy());
  }).listen(0, HOST);
  await once(server, "listening");
  context.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://${HOST}:${String((server.address() as AddressInfo).port)}`;
}

/** Whether the framework could not read the body: no route was reached. */
const isBadBody = ({ url }: { readonly url?: string }): boolean => url === "/badBody";

/** Goes on when the whole body is there, as a route does that reads it itself. */
function afterBody(request: IncomingMessage, run: () => Promise<void>): void {
  request.resume().on("end", () => {
    run().catch((error: unknown) => request.destroy(error as Error));
  });
}

/** A plain server of Node: the gate and one route, without a framework. */
async function servePlain(context: TestContext, gate: OutputGate, routes: Routes): Promise<string> {
  const server = createServer((request, response) => {
    gate.express(request, response, () => {
      afterBody(request, async () => {
        const {
          status,
          headers = {},
          body,
        } = await routeOf(routes, (request.url ?? "").slice("/raw/".length))();
        response.writeHead(status, headers).end(body);
      });
    });
  }).listen(0, HOST);
  await once(server, "listening");
  context.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://${HOST}:${String((server.address() as AddressInfo).port)}`;
}

function routeOf(routes: Routes, name: string): () => Promise<Reply> {
  const route = routes[name];
  assert.ok(route !== undefined, name);
  return route;
}

export const HOSTS: Readonly<Record<string, Host>> = {
  express: serveExpress,
  fastify: serveFastify,
  web: serveWeb,
};

/** Those with a request of Node, whose body arrives in events. */
export const NODE_HOSTS: Readonly<Record<string, Host>> = {
  express: serveExpress,
  fastify: serveFastify,
  plain: servePlain,
};

/** Sends a body in two packets, the first one when the application has the request already. */
export async function askSlowly(url: string, type: string): Promise<{ status: number; body: string }> {
  const headers = { "content-type": type, expect: "100-continue" };
  const sent = connect(url, { method: "POST", headers });
  const responded = once(sent, "response") as Promise<[IncomingMessage]>;
  sent.flushHeaders();
  await once(sent, "continue");
  await new Promise<void>((resolve) => {
    sent.write('{"some":', () => {
      resolve();
    });
  });
  await turn();
  sent.end("body");
  const [response] = await responded;
  return { status: response.statusCode ?? 0, body: await text(response) };
}

export function ask(url: string): Promise<Response> {
  return fetch(url, {
    method: "POST",
    redirect: "manual",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ some: "body" }),
  });
}
