// The file that Next.js finds by its name.
import { gate, hw } from "../../highwater.ts";
import { orderRoutes } from "../../orders.ts";

export const { GET, POST } = orderRoutes(hw, gate);
