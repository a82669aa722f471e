// Fastify: one plugin.
import { type Highwater } from "@highwater/sdk";
import { type OutputGate } from "@highwater/sdk/gate";
import Fastify, { type FastifyInstance } from "fastify";
import { newestOrders, placeOrder } from "../orders.ts";

export async function buildFastify(hw: Highwater, gate: OutputGate | undefined): Promise<FastifyInstance> {
  const app = Fastify();
  if (gate) await app.register(gate.fastify);
  app.post<{ Body: { item: string } }>("/orders", async (request, reply) =>
    reply.code(201).send(await placeOrder(hw, request.body.item)),
  );
  app.get("/orders", () => newestOrders(hw));
  app.get<{ Params: { receipt: string } }>("/receipts/:receipt", async (request, reply) => {
    if (!gate) return reply.code(404).send();
    const { status, body } = await gate.status(request.params.receipt);
    return reply.code(status).send(body);
  });
  return app;
}
