import { newestOrders, placeOrder } from "../../../orders.ts";
import { gated } from "../../highwater.ts";

export const GET = gated(async (hw) => Response.json(await newestOrders(hw)));

export const POST = gated(async (hw, request: Request) => {
  const { item } = (await request.json()) as { item: string };
  return Response.json(await placeOrder(hw, item), { status: 201 });
});
