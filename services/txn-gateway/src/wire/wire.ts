// The PostgreSQL listener: accepts connections, says who may come in, joins each with a session at
// the primary, and ends them when the primary changes or the gateway stops.
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { createSecureContext, type SecureContext } from "node:tls";
import { HighwaterError } from "@highwater/protocol";
import { type Callers, serverCertificate } from "@highwater/service";
import { type Config } from "../config.ts";
import { type Deps } from "../deps.ts";
import { type Metrics } from "../metrics.ts";
import { type Primary, type PrimaryEpoch } from "../primary/primary.ts";
import { defaultLevel, type RequestRules } from "../txn/request.ts";
import { Authentication, type Admitted } from "./authentication.ts";
import { errorResponse } from "./frames/build.ts";
import { type Positions } from "./positions.ts";
import { BackendRefusal, forwardCancel, logIn, openSocket } from "./startup/backend.ts";
import { greet, type Greeted, Refused } from "./startup/handshake.ts";
import { type StartupPacket, serverParameters, writeStartup } from "./startup/packet.ts";
import { type WireAttempts } from "./shell/attempts.ts";
import { WireSession } from "./shell/session.ts";

export interface WireContext {
  readonly config: Config;
  readonly deps: Deps;
  readonly primary: Primary;
  readonly callers: Callers;
  readonly positions: Positions;
  readonly rules: RequestRules;
  readonly attempts: WireAttempts;
  readonly metrics: Pick<Metrics, "wireAnswers">;
}

/** From the connection to the session; PostgreSQL's authentication_timeout. */
const START_LIMIT_MS = 60_000;
const KEEP_ALIVE_MS = 10_000;
const SWEEP_MS = 1_000;

export class Wire {
  readonly #parts: WireContext;
  readonly #server: Server;
  readonly #secureContext: SecureContext | null;
  readonly #authentication: Authentication;
  readonly #sockets = new Set<Socket>();
  readonly #sessions = new Set<WireSession>();
  /** By the server's key, in hexadecimal. */
  readonly #byKey = new Map<string, WireSession>();
  readonly #perRole = new Map<string, number>();
  /** Of clients that have not logged in, oldest first. */
  readonly #opening = new Set<Socket>();
  #admitted = 0;
  #isStopping = false;
  #cancelSweep: () => void = () => undefined;

  constructor(parts: WireContext) {
    this.#parts = parts;
    const certificate = serverCertificate(parts.config);
    this.#secureContext = certificate === null ? null : createSecureContext(certificate);
    this.#authentication = new Authentication(parts);
    this.#server = createServer(
      { noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS },
      (socket) => {
        void this.#accept(socket);
      },
    );
  }

  /** Sessions that are open. */
  get size(): number {
    return this.#sessions.size;
  }

  /** Of them, those with an answer that waits. */
  get holding(): number {
    let count = 0;
    for (const session of this.#sessions) if (session.isHolding) count++;
    return count;
  }

  /** Errors: those of the network. Resolves to the port. */
  async listen(): Promise<number> {
    const { pgPort, host, pgIdleTimeoutMs } = this.#parts.config;
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen({ port: pgPort ?? 0, host }, () => {
        this.#server.off("error", reject);
        resolve();
      });
    });
    if (pgIdleTimeoutMs > 0) this.#sweep();
    const { port } = this.#server.address() as AddressInfo;
    this.#parts.deps.log.info("wire_listening", { host, port });
    return port;
  }

  epochEnded({ epoch }: PrimaryEpoch): void {
    for (const session of [...this.#sessions]) if (session.primaryEpoch.epoch === epoch) session.epochEnded();
  }

  /** No new connections; those that are open end with their transactions. */
  drain(): void {
    this.#isStopping = true;
    this.#server.close();
    for (const session of [...this.#sessions]) session.drain();
  }

  stop(): void {
    this.drain();
    this.#cancelSweep();
    for (const session of [...this.#sessions]) session.stop();
    for (const socket of this.#sockets) socket.destroySoon();
  }

  #sweep(): void {
    const { clock } = this.#parts.deps;
    const untilMs = clock.monotonicMs() - this.#parts.config.pgIdleTimeoutMs;
    for (const session of [...this.#sessions]) session.endIfIdleSince(untilMs);
    this.#cancelSweep = clock.after(SWEEP_MS, () => {
      this.#sweep();
    });
  }

  async #accept(plain: Socket): Promise<void> {
    const { deps } = this.#parts;
    this.#sockets.add(plain);
    this.#opening.add(plain);
    // Strangers take the places of strangers: those that are logged in, or do so now, keep theirs.
    const [oldest] = this.#opening;
    if (this.#opening.size > this.#parts.config.pgMaxConnections) oldest?.destroy();
    plain.on("error", () => undefined);
    plain.once("close", () => {
      this.#sockets.delete(plain);
      this.#opening.delete(plain);
    });
    const cancel = deps.clock.after(START_LIMIT_MS, () => plain.destroy());
    let socket = plain;
    try {
      const greeted = await greet(plain, this.#secureContext);
      ({ socket } = greeted);
      socket.on("error", () => undefined);
      if (greeted.packet.kind === "cancel") {
        await this.#cancel(greeted.packet.key);
        socket.destroy();
      } else await this.#begin(greeted, greeted.packet);
    } catch (cause) {
      this.#refuse(socket, cause);
    } finally {
      cancel();
      this.#opening.delete(plain);
    }
  }

  #refuse(socket: Socket, cause: unknown): void {
    if (cause instanceof Refused) socket.destroySoon();
    else if (cause instanceof BackendRefusal) socket.end(cause.response);
    else if (cause instanceof HighwaterError) {
      const { message, details } = cause;
      const detail = details.detail ?? undefined;
      socket.end(
        errorResponse({
          severity: "FATAL",
          code: SQLSTATES[cause.code] ?? "58000",
          message: detail ?? message,
        }),
      );
    } else if (socket.destroyed || socket.writableEnded) socket.destroy();
    else {
      this.#parts.primary.wake();
      this.#parts.deps.log.warn("wire_session_not_opened", { cause });
      const message = "the gateway has no connection to the primary";
      socket.end(errorResponse({ severity: "FATAL", code: "57P03", message }));
    }
    const cancel = this.#parts.deps.clock.after(SWEEP_MS, () => socket.destroy());
    socket.once("close", cancel);
  }

  async #cancel(key: Buffer): Promise<void> {
    if (this.#byKey.get(key.toString("hex"))?.cancel() === true) return;
    const { primary, deps, config } = this.#parts;
    const { current } = primary;
    if (current === null) return;
    const address = this.#authentication.nodeAddress(current.node);
    await forwardCancel(address, key, { clock: deps.clock, ms: config.connectTimeoutMs });
  }

  async #begin(greeted: Greeted, packet: StartupPacket): Promise<void> {
    const { primary } = this.#parts;
    const user = packet.parameters.get("user") ?? "";
    refuseUnserved(packet);
    const primaryEpoch = await primary.admit();
    const admitted = await this.#authentication.admit(greeted, user, primaryEpoch.node);
    // Not before: a role's places are for those who may log in as that role.
    let leave = (): void => undefined;
    try {
      leave = this.#count(user);
      await this.#open(greeted, packet, { primaryEpoch, admitted, leave });
    } catch (cause) {
      admitted.leave();
      leave();
      throw cause;
    }
  }

  /** Errors: `overloaded` at the limits. Returns what ends the counting. */
  #count(role: string): () => void {
    const { pgMaxConnections, pgMaxConnectionsPerRole } = this.#parts.config;
    const ofRole = this.#perRole.get(role) ?? 0;
    if (this.#isStopping)
      throw new HighwaterError("primary_unavailable", { detail: "The gateway is shutting down." });
    if (this.#admitted >= pgMaxConnections) throw tooMany("GATEWAY_PG_MAX_CONNECTIONS", pgMaxConnections);
    if (ofRole >= pgMaxConnectionsPerRole)
      throw tooMany("GATEWAY_PG_MAX_CONNECTIONS_PER_ROLE", pgMaxConnectionsPerRole);
    this.#perRole.set(role, ofRole + 1);
    this.#admitted++;
    let isCounted = true;
    return () => {
      if (!isCounted) return;
      isCounted = false;
      this.#admitted--;
      const left = (this.#perRole.get(role) ?? 1) - 1;
      if (left > 0) this.#perRole.set(role, left);
      else this.#perRole.delete(role);
    };
  }

  async #open(
    { socket, inbox }: Greeted,
    { version, parameters }: StartupPacket,
    { primaryEpoch, admitted, leave }: { primaryEpoch: PrimaryEpoch; admitted: Admitted; leave: () => void },
  ): Promise<void> {
    const { deps, config, positions, rules, attempts, metrics } = this.#parts;
    const { clock } = deps;
    const server = await openSocket(admitted.address, { clock, ms: config.connectTimeoutMs });
    const startup = writeStartup(version, serverParameters(parameters, { user: admitted.address.user }));
    const backend = await logIn(server, startup, admitted);
    // A node that has become another since, or a replica, must not run this session.
    const position = await positions.now(primaryEpoch);
    if (position === null || this.#isStopping || socket.destroyed) {
      server.destroy();
      throw new HighwaterError("primary_unavailable", { detail: "The primary changes; connect again." });
    }
    socket.write(backend.greeting);
    const key = backend.key.toString("hex");
    const session: WireSession = new WireSession({
      client: socket,
      server,
      primaryEpoch,
      positions,
      attempts,
      metrics,
      owner: admitted.owner,
      levels: () => rules.levels,
      defaultLevel: () => defaultLevel(rules.levels),
      nowMs: () => clock.monotonicMs(),
      after: (ms, callback) => clock.after(ms, callback),
      onClosed: () => {
        this.#sessions.delete(session);
        if (this.#byKey.get(key) === session) this.#byKey.delete(key);
        admitted.leave();
        leave();
      },
    });
    this.#sessions.add(session);
    if (key !== "") this.#byKey.set(key, session);
    admitted.onEnded(() => {
      session.stop();
    });
    session.start(inbox.release(), backend.rest);
  }
}

const SQLSTATES: Readonly<Record<string, string>> = {
  unauthenticated: "28P01",
  forbidden: "28000",
  rate_limited: "53300",
  concurrency_limited: "53300",
  overloaded: "53300",
  primary_unavailable: "57P03",
  authentication_unavailable: "57P03",
  split_brain: "57P03",
  invalid_request: "0A000",
};

function tooMany(variable: string, limit: number): HighwaterError {
  return new HighwaterError("overloaded", {
    detail: `sorry, too many clients already: ${variable} is ${String(limit)}`,
  });
}

function refuseUnserved({ parameters }: StartupPacket): void {
  const replication = parameters.get("replication");
  if (replication !== undefined && !/^(?:false|off|no|0|)$/i.test(replication))
    throw new HighwaterError("invalid_request", {
      detail: "replication connections are not served here; connect to the node itself",
    });
  if ((parameters.get("user") ?? "") === "")
    throw new HighwaterError("forbidden", { detail: "no PostgreSQL user name specified in startup packet" });
}
