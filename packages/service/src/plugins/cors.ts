// Allows pages of the configured origins to call the service, and only with the headers that
// clients send. `Authorization` authenticates them, as everywhere. Cookies mean nothing here, so no
// response allows credentials that a browser adds by itself.
import { type ServerResponse } from "node:http";
import cors, { type FastifyCorsOptions } from "@fastify/cors";
import { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";

/**
 * Chromium keeps what it was allowed no longer than this. Without it each call of a page would cost
 * a second round trip.
 */
const PREFLIGHT_KEPT_S = 7_200;

/** What a page may read of an answer besides its body. */
const EXPOSED = [
  ...["Highwater-Session", "Retry-After", "WWW-Authenticate"],
  ...["Highwater-Transaction-Id", "Highwater-State", "Highwater-Token"],
];

const ALLOWED: FastifyCorsOptions = {
  origin: true,
  credentials: false,
  methods: ["GET", "HEAD", "POST", "PATCH", "DELETE"],
  // No list of allowed headers: those of traces and of the caller's own are good as well.
  exposedHeaders: EXPOSED,
  maxAge: PREFLIGHT_KEPT_S,
};
const REFUSED: FastifyCorsOptions = { origin: false };

/**
 * What is for clients; `/` is where they look whether anybody is there. The rest is for services
 * and operators.
 */
const FOR_CLIENTS = /^\/(?:v1\/.*|sql|errors(?:\/.*)?|)(?:\?|$)/;

/** To be installed before all other hooks, for what those refuse must be readable too. */
export function installCors(app: FastifyInstance, origins: readonly string[]): void {
  if (origins.length === 0) return;
  const allowed = new Set(origins);
  const isAllowed = ({ method, url, headers }: FastifyRequest): boolean =>
    allowed.has(headers.origin ?? "") &&
    FOR_CLIENTS.test(url) &&
    (method !== "OPTIONS" || headers["access-control-request-method"] !== undefined);
  // Called, and not registered: what is registered is installed after everything that is installed
  // at once.
  cors(
    app,
    {
      delegator: (request, decided) => {
        decided(null, isAllowed(request) ? ALLOWED : REFUSED);
      },
    },
    (error) => {
      if (error !== undefined) throw error;
    },
  );
}

/**
 * The response of Node, for who writes it without Fastify: with the headers that the answer has so
 * far.
 */
export function responseOf(reply: FastifyReply): ServerResponse {
  for (const [name, value] of Object.entries(reply.getHeaders()))
    if (value !== undefined) reply.raw.setHeader(name, value);
  return reply.raw;
}
