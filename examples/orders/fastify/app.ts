// The shop's HTTP.
import { HighwaterError } from "@highwater/sdk";
import Fastify, { type FastifyInstance, type FastifyServerOptions } from "fastify";
import { type Order } from "./book.ts";
import { type Orders } from "./orders.ts";

const ORDER = {
  type: "object",
  required: ["customer", "item"],
  additionalProperties: false,
  properties: {
    customer: { type: "string", pattern: "^[^@\\s]+@[^@\\s]+$", maxLength: 200 },
    item: { type: "string", minLength: 1, maxLength: 200 },
  },
};

export function buildApp(orders: Orders, options: FastifyServerOptions): FastifyInstance {
  const app = Fastify(options);
  app.addHook("onReady", () => orders.start());
  // Called when the requests under way have their answers.
  app.addHook("onClose", () => orders.stop());
  app.setErrorHandler((error, _request, reply) => {
    if (!(error instanceof HighwaterError)) return reply.send(error);
    reply.log.warn(error, "an order was not taken");
    return reply.code(503).send({ error: `the order was not taken: ${error.code}` });
  });
  app.post<{ Body: Order }>("/orders", { schema: { body: ORDER } }, async (request, reply) => {
    const { id, isCommitted } = await orders.place(request.body);
    reply.code(isCommitted ? 201 : 202).header("location", `/orders/${id}`);
    return { id, state: "pending" };
  });
  app.get<{ Params: { id: string } }>("/orders/:id", async (request, reply) => {
    const order = orders.find(request.params.id);
    if (order === undefined) return reply.code(404).send({ error: "there is no such order" });
    const { id, customer, item, state } = order;
    return { id, customer, item, state };
  });
  return app;
}
