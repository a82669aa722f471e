// Express: one line of middleware before the routes.
import { type Highwater } from "@highwater/sdk";
import { type OutputGate } from "@highwater/sdk/gate";
import express, { type Express } from "express";
import { newestOrders, placeOrder } from "../orders.ts";

export function buildExpress(hw: Highwater, gate: OutputGate | undefined): Express {
  const app = express();
  app.use(express.json());
  if (gate) app.use(gate.express);
  app.post("/orders", async (request, response) => {
    const { item } = request.body as { item: string };
    response.status(201).json(await placeOrder(hw, item));
  });
  app.get("/orders", async (_request, response) => {
    response.json(await newestOrders(hw));
  });
  app.get("/receipts/:receipt", async (request, response) => {
    if (!gate) return void response.sendStatus(404);
    const { status, body } = await gate.status(request.params.receipt);
    response.status(status).json(body);
  });
  return app;
}
