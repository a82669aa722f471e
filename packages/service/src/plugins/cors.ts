// Lets pages of the configured origins call the service, with only the headers that clients send.
// `Authorization` authenticates them, as everywhere. Cookies have no meaning here, so no response
// allows credentials that a browser adds itself.
import { type ServerResponse } from "node:http";
import cors, { type FastifyCorsOptions } from "@fastify/cors";
import { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";

/**
 * The most that Chromium accepts. Without it, each call of a page would cost a second round trip.
 */
const PREFLIGHT_KEPT_S = 7_200;

/** Headers that a page may read besides the body. */
const EXPOSED = [
  ...["Highwater-Session", "Retry-After", "WWW-Authenticate"],
  ...["Highwater-Transaction-Id", "Highwater-State", "Highwater-Token"],
];

const ALLOWED: FastifyCorsOptions = {
  origin: true,
  credentials: false,
  methods: ["GET", "HEAD", "POST", "PATCH", "DELETE"],
  // No list of allowed headers: those of traces and the caller's own are fine, too.
  exposedHeaders: EXPOSED,
  maxAge: PREFLIGHT_KEPT_S,
};
const REFUSED: FastifyCorsOptions = { origin: false };

/**
 * The paths for clients. Clients check at `/` whether the service is up. Other paths are for
 * services and operators.
 */
const FOR_CLIENTS = /^\/(?:v1\/.*|sql|errors(?:\/.*)?|)(?:\?|$)/;

/** Install it before all other hooks, so that a page can read their refusals, too. */
export function installCors(app: FastifyInstance, origins: readonly string[]): void {
  if (origins.length === 0) return;
  const allowed = new Set(origins);
  const isAllowed = ({ method, url, headers }: FastifyRequest): boolean =>
    allowed.has(headers.origin ?? "") &&
    FOR_CLIENTS.test(url) &&
    (method !== "OPTIONS" || headers["access-control-request-method"] !== undefined);
  // Called directly, because a registered plugin would be installed after all hooks that are added
  // directly.
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

/** Node's response with the answer's headers so far, for code that writes without Fastify. */
export function responseOf(reply: FastifyReply): ServerResponse {
  for (const [name, value] of Object.entries(reply.getHeaders()))
    if (value !== undefined) reply.raw.setHeader(name, value);
  return reply.raw;
}
