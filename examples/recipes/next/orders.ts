// Next.js: each route handler is wrapped. Handlers take a `Request` and return a `Response`.
import { type Highwater } from "@highwater/sdk";
import { type OutputGate } from "@highwater/sdk/gate";
import { newestOrders, placeOrder } from "../orders.ts";

type Handler = (request: Request) => Promise<Response>;

export function orderRoutes(
  hw: Highwater,
  { route }: Pick<OutputGate, "route">,
): Record<"GET" | "POST", Handler> {
  return {
    GET: route(async () => Response.json(await newestOrders(hw))),
    POST: route(async (request: Request) => {
      const { item } = (await request.json()) as { item: string };
      return Response.json(await placeOrder(hw, item), { status: 201 });
    }),
  };
}
