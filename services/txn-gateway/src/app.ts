// The gateway as a Fastify application. main.ts does listening, signals and exit codes.
import { type FastifyInstance, type FastifyRequest } from "fastify";
import { HighwaterError, parseTxnId, UNSERVED_HEADER } from "@highwater/protocol";
import { type Family, installCallers, isAnonymous, makeServer, serverCertificate } from "@highwater/service";
import { type Config } from "./config.ts";
import { type Deps } from "./deps.ts";
import { Gateway } from "./gateway.ts";
import { RETRY_MS } from "./retry.ts";
import { batchRoutes } from "./routes/batch.ts";
import { healthRoutes } from "./routes/health.ts";
import { lostRoutes } from "./routes/lost.ts";
import { interactiveRoutes } from "./routes/interactive.ts";
import { neonContext, neonRoutes } from "./routes/neon.ts";
import { peerRoutes } from "./routes/peers.ts";
import { ticketRoutes } from "./routes/tickets.ts";
import { transactionRoutes } from "./routes/transactions.ts";

export { type Config, describeConfig, loadConfig, type LoadedConfig } from "./config.ts";
export { type Deps } from "./deps.ts";
export { makeDeps } from "./runtime.ts";

/** How long requests in flight may take to end at a shutdown, before their connections are cut. */
const DRAIN_MS = 10_000;
/**
 * Builds the application. It begins to work when it is ready, and stops its parts when it is
 * closed.
 */
export function buildApp(config: Config, deps: Deps): FastifyInstance {
  return buildGateway(config, deps).app;
}

/** Builds the application and its gateway, which has the metrics. */
export function buildGateway(
  config: Config,
  deps: Deps,
): { readonly app: FastifyInstance; readonly metrics: () => readonly Family[] } {
  const gateway = new Gateway(config, deps);
  const { bodyLimitBytes, corsOrigins } = config;
  const openOn = isAnonymous(config.identity) ? config.host : undefined;
  const app = makeServer({
    bodyLimitBytes,
    corsOrigins,
    openOn,
    log: deps.log,
    tracer: deps.tracer,
    certificate: serverCertificate(config),
    elsewhere: { "a tracker": ["/v1/durability/", "/v1/webhooks", "/console"] },
  });
  app.addHook("onRequest", (request, reply, done) => {
    if (!gateway.isStopping || isOfOpenTransaction(request.url, gateway) || !isWork(request)) {
      done();
      return;
    }
    void reply.header(UNSERVED_HEADER, "true");
    const detail = "The service is shutting down.";
    done(new HighwaterError("overloaded", { detail, retryAfterMs: RETRY_MS.shutdown }));
  });
  // A kept-alive connection would delay the end of the server.
  app.addHook("onSend", (_request, reply, _payload, done) => {
    if (gateway.isStopping) void reply.header("connection", "close");
    done();
  });
  void app.register((scope, _options, done) => {
    installCallers(scope, gateway.callers);
    transactionRoutes(scope, gateway);
    batchRoutes(scope, gateway, deps.log);
    interactiveRoutes(scope, gateway);
    ticketRoutes(scope, gateway, deps.log);
    lostRoutes(scope, gateway);
    done();
  });
  void app.register((scope, _options, done) => {
    installCallers(scope, gateway.services);
    const onlyServices = config.internalSecret !== null || !isAnonymous(config.identity);
    peerRoutes(scope, { onlyServices, wire: gateway.wire });
    done();
  });
  neonRoutes(app, neonContext(deps, gateway));
  healthRoutes(app, gateway);

  const reports = gateway.makeLimitReports();
  let cancelCut = (): void => undefined;
  app.addHook("onReady", async () => {
    gateway.start();
    reports.start();
    await gateway.wire?.listen();
  });
  app.addHook("preClose", async () => {
    gateway.drain();
    // Wait while the server still listens: a client may have to connect again to end its open
    // transaction.
    await gateway.finishOpen(DRAIN_MS);
    cancelCut = deps.clock.after(DRAIN_MS, () => {
      app.server.closeAllConnections();
    });
  });
  app.addHook("onClose", async () => {
    cancelCut();
    reports.stop();
    await gateway.stop();
  });
  return { app, metrics: () => gateway.metrics.collect() };
}

function isWork({ routeOptions: { url = "" } }: FastifyRequest): boolean {
  return url.startsWith("/v1/") || url === "/sql";
}

/**
 * True if the request is for an open transaction. During a shutdown, clients may still end it, and
 * ask for its outcome again.
 */
function isOfOpenTransaction(url: string, gateway: Gateway): boolean {
  const id = parseTxnId(
    /^\/v1\/transactions\/([^/?]+)\/(?:statements|commit|rollback)$/.exec(url)?.[1] ?? "",
  );
  return id !== undefined && gateway.interactive.isKnown(id);
}
