// A Fastify application with what all services have in common: limits, problem answers and what
// they mean, 404 and 405, JSON bodies.
import Fastify, { type FastifyInstance } from "fastify";
import { type Log } from "./log.ts";
import { installCors } from "./plugins/cors.ts";
import { installErrorReference } from "./plugins/error-reference.ts";
import { installErrorHandling, makeErrorHandler, refuseConnection } from "./plugins/error-handler.ts";
import { installJsonBody } from "./plugins/json-body.ts";
import { installOpenDoor } from "./plugins/open-door.ts";
import { installRouteTable } from "./plugins/route-table.ts";
import { installTracing } from "./plugins/trace.ts";
import { type ServerCertificate } from "./settings/tls.ts";
import { type Tracer } from "./telemetry/tracer.ts";

export interface ServerOptions {
  readonly bodyLimitBytes: number;
  readonly log: Log;
  /** Of the pages that may call from a browser; default: none. */
  readonly corsOrigins?: readonly string[];
  /** What it listens with; plain HTTP without one. */
  readonly certificate?: ServerCertificate | null;
  /** No authentication; where it listens. */
  readonly openOn?: string | undefined;
  /** Cuts what is still connected when the application closes. */
  readonly cutOnClose?: boolean;
  /** Where requests are traced. */
  readonly tracer?: Tracer | undefined;
}

/**
 * Fastify gives up on closing after this; it must outlast the draining of what is open and of what
 * is in flight.
 */
const CLOSE_LIMIT_MS = 60_000;
/** A body that trickles in holds a connection no longer than this. */
const REQUEST_TIMEOUT_MS = 60_000;
/**
 * Longer than the proxies in front keep their connections, or they would send requests into a
 * closing one.
 */
const KEEP_ALIVE_MS = 75_000;

export function makeServer(options: ServerOptions): FastifyInstance {
  const { bodyLimitBytes, log, corsOrigins = [], cutOnClose = false, tracer, openOn } = options;
  const { certificate = null } = options;
  const app: FastifyInstance = Fastify({
    // Null is plain HTTP.
    https: certificate,
    logger: false,
    bodyLimit: bodyLimitBytes,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    pluginTimeout: CLOSE_LIMIT_MS,
    // The application's builder answers instead, in the shape of all other errors.
    return503OnClosing: false,
    forceCloseConnections: cutOnClose,
    frameworkErrors: makeErrorHandler(log),
    clientErrorHandler: refuseConnection,
  });
  // First: what the others refuse is traced too.
  installTracing(app, tracer);
  installErrorHandling(app, log);
  installCors(app, corsOrigins);
  if (openOn !== undefined) installOpenDoor(app, { host: openOn, origins: corsOrigins });
  installRouteTable(app);
  installJsonBody(app);
  installErrorReference(app);
  if (certificate !== null) noteFailedHandshakes(app, log);
  return app;
}

/** The first one, and then ever fewer: anything that connects can cause one. */
function noteFailedHandshakes(app: FastifyInstance, log: Log): void {
  let count = 0;
  app.server.on("tlsClientError", (error: Error & { code?: string }) => {
    // A probe of the port, or a client that refused the certificate and says so itself.
    if (error.code === "ECONNRESET") return;
    count++;
    if ((count & (count - 1)) !== 0) return;
    const reason =
      error.code === "ERR_SSL_HTTP_REQUEST"
        ? "A client sent plain HTTP to this TLS port. Its URL of this service must begin with https."
        : "A TLS handshake failed.";
    log.warn("tls_handshake_failed", { reason, count, cause: error });
  });
}
