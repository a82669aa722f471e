// Prisma on the PostgreSQL wire: no SDK, one setting of the session. From the environment:
//   DATABASE_URL  the gateway's address for PostgreSQL clients
//   GATE          empty: reads do not wait
import { createServer } from "node:http";
import { PrismaPg } from "@prisma/adapter-pg";
import { PrismaClient } from "./dist/client.ts";

const { DATABASE_URL, GATE = "on", PORT = "0" } = process.env;
// A read is answered when everything that it shows is durable. A write is by default.
const options = GATE === "" ? "" : "-c highwater.read_ack=durable";
const adapter = new PrismaPg({ connectionString: DATABASE_URL, options, max: 20 });
const prisma = new PrismaClient({ adapter });

const routes = {
  "GET /orders": async () => [200, await prisma.order.findMany({ orderBy: { id: "desc" }, take: 20 })],
  "POST /orders": async ({ item }) => [201, await prisma.order.create({ data: { item } })],
};

const server = createServer(async (request, response) => {
  const chunks = await request.toArray();
  const route = routes[`${request.method} ${request.url}`] ?? (() => [404, {}]);
  // An error ends here as well: nothing of what it may rest on is in the answer.
  const [status, body] = await Promise.resolve(chunks.length > 0 ? JSON.parse(chunks.join("")) : {})
    .then(route)
    .catch(() => [503, { error: "try again" }]);
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
});
server.listen(Number(PORT), "127.0.0.1", () => {
  console.error(`running on http://127.0.0.1:${server.address().port}`);
});
