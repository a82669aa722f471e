// The PostgreSQL listener: accepts connections, authenticates them, joins each with a session at
// the primary, and ends sessions when the primary changes or the gateway stops.
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { createSecureContext, type SecureContext } from "node:tls";
import { HighwaterError } from "@highwater/protocol";
import { type Callers, isLogged, serverCertificate } from "@highwater/service";
import { type WireStatements } from "@highwater/store";
import { type Config } from "../config.ts";
import { type Deps } from "../deps.ts";
import { type Primary, type PrimaryEpoch } from "../primary/primary.ts";
import { minimumOf } from "../txn/minimum.ts";
import { defaultLevel, type RequestRules } from "../txn/request.ts";
import { Authentication, type Admitted } from "./authentication.ts";
import { Cancels } from "./cancels.ts";
import { errorResponse } from "./frames/build.ts";
import { OwnMessages } from "./model/own.ts";
import { askPeers } from "./peers.ts";
import { type Positions } from "./positions.ts";
import {
  type Backend,
  BackendRefusal,
  forwardCancel,
  KEEP_ALIVE_MS,
  logIn,
  openSocket,
  type Relay,
} from "./startup/backend.ts";
import { greet, type Greeted, ProxyRefused, Refused } from "./startup/handshake.ts";
import { LogIns } from "./startup/log-ins.ts";
import { type StartupPacket, serverParameters, writeStartup } from "./startup/packet.ts";
import { Proxies } from "./startup/proxy-header.ts";
import { type Replicas } from "./replicas.ts";
import { type Reader } from "./shell/after-wait.ts";
import { RoleVetting } from "./role-vetting.ts";
import { Tally } from "./tally.ts";
import { type WireAttempts } from "./shell/attempts.ts";
import { ReadTraces } from "./shell/read-traces.ts";
import { Outbox } from "./shell/outbox.ts";
import { type WireMetrics } from "./shell/session-metrics.ts";
import { ServerEnd } from "./shell/server-end.ts";
import { WireSession } from "./shell/session.ts";

export interface WireContext {
  readonly config: Config;
  readonly deps: Deps;
  readonly primary: Primary;
  readonly callers: Callers;
  readonly positions: Positions;
  readonly rules: RequestRules;
  readonly attempts: WireAttempts;
  readonly replicas: Replicas;
  readonly metrics: WireMetrics;
}

/** Limit from the connection to the session, as PostgreSQL's authentication_timeout. */
const START_LIMIT_MS = 60_000;
/** Each takes a connection of the server. */
const ASKED_MAX = 64;
const SWEEP_MS = 1_000;
/** At the beginning of a BackendKeyData. */
const PROCESS_BYTES = 4;
/** As long as PostgreSQL lets queries stop the replay (max_standby_streaming_delay) by default. */
const REPLICA_STOPPED_MS_MAX = 30_000;

export class Wire {
  readonly #parts: WireContext;
  readonly #ports: readonly Listener[];
  readonly #secureContext: SecureContext | null;
  readonly #proxies: Proxies;
  readonly #authentication: Authentication;
  readonly #logIns: LogIns;
  readonly #sockets = new Set<Socket>();
  readonly #statements: WireStatements;
  readonly #own: OwnMessages;
  readonly #outbox = new Outbox();
  readonly #sessions = new Set<WireSession>();
  /** Of the sessions, and of those whose clients have left before their servers. */
  readonly #ends = new Set<ServerEnd>();
  readonly cancels: Cancels;
  /** Admitted connections. */
  readonly #perRole = new Tally();
  /** Sockets of clients that have not logged in, oldest first. */
  readonly #opening = new Set<Socket>();
  /** Those of them that the server has asked for a password, in the order in which it asked. */
  readonly #asked = new Set<Socket>();
  #proxiesRefused = 0;
  #isStopping = false;
  #cancelSweep: () => void = () => undefined;

  constructor(parts: WireContext) {
    this.#parts = parts;
    const { wire } = parts.deps.store;
    if (wire === null)
      throw new Error("GATEWAY_PG_PORT and GATEWAY_PG_READ_PORT need a store that has the PostgreSQL wire");
    this.#statements = wire;
    this.#own = new OwnMessages(wire);
    const certificate = serverCertificate(parts.config);
    this.#secureContext = certificate === null ? null : createSecureContext(certificate);
    this.#proxies = new Proxies(parts.config.pgProxies);
    this.#authentication = new Authentication({ ...parts, vetting: new RoleVetting(parts.deps) });
    this.#logIns = new LogIns(parts.deps.clock);
    this.cancels = this.#makeCancels();
    const { pgPort, pgReadPort } = parts.config;
    this.#ports = [
      { port: pgPort, isReadPort: false },
      { port: pgReadPort, isReadPort: true },
    ].flatMap(({ port, isReadPort }) =>
      port === null ? [] : [{ port, isReadPort, server: this.#makeServer(isReadPort) }],
    );
  }

  #makeCancels(): Cancels {
    const { config, deps, metrics } = this.#parts;
    const limit = { clock: deps.clock, ms: config.connectTimeoutMs };
    return new Cancels({
      clock: deps.clock,
      metrics,
      askPeers: (key) => askPeers(deps.transport, config.peers, key),
      toServer: (node, key) => forwardCancel(this.#authentication.nodeAddress(node), key, limit),
    });
  }

  #makeServer(isReadPort: boolean): Server {
    return createServer(
      { noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS },
      (socket) => {
        void this.#accept(socket, isReadPort);
      },
    );
  }

  /** Open sessions. */
  get size(): number {
    return this.#sessions.size;
  }

  /** Sessions that take places: also those that clients have left and servers have not ended. */
  get places(): number {
    return this.#ends.size;
  }

  /** Open sessions with an answer that waits. */
  get holding(): number {
    let count = 0;
    for (const session of this.#sessions) if (session.isHolding) count++;
    return count;
  }

  /** Errors: those of the network. */
  async listen(): Promise<void> {
    const { host } = this.#parts.config;
    for (const { port, isReadPort, server } of this.#ports) {
      await new Promise<void>((resolve, reject) => {
        server.once("error", reject);
        server.listen({ port, host }, () => {
          server.off("error", reject);
          resolve();
        });
      });
      const { port: listensAt } = server.address() as AddressInfo;
      this.#parts.deps.log.info("wire_listening", { host, port: listensAt, isReadPort });
    }
    this.#sweep();
  }

  epochEnded({ epoch }: PrimaryEpoch): void {
    for (const session of [...this.#sessions])
      if (session.primaryEpoch?.epoch === epoch) session.epochEnded();
  }

  /** The node is no longer a replica. */
  promoted(node: string): void {
    for (const session of [...this.#sessions]) if (session.replica === node) session.promoted();
  }

  /** Refuses new connections; open sessions end with their transactions. */
  drain(): void {
    this.#isStopping = true;
    for (const { server } of this.#ports) server.close();
    for (const session of [...this.#sessions]) session.drain();
  }

  stop(): void {
    this.drain();
    this.#cancelSweep();
    for (const session of [...this.#sessions]) session.stop();
    for (const end of [...this.#ends]) end.lose();
    for (const socket of this.#sockets) socket.destroySoon();
  }

  #sweep(): void {
    const { clock } = this.#parts.deps;
    const { pgIdleTimeoutMs, pgReadTimeoutMs } = this.#parts.config;
    const nowMs = clock.monotonicMs();
    for (const session of [...this.#sessions]) {
      session.endIfUnreadSince(nowMs - pgReadTimeoutMs);
      if (session.replica !== null)
        session.endIfStoppedSince(nowMs - Math.min(pgReadTimeoutMs, REPLICA_STOPPED_MS_MAX));
      if (pgIdleTimeoutMs > 0) session.endIfIdleSince(nowMs - pgIdleTimeoutMs);
    }
    this.#cancelSweep = clock.after(SWEEP_MS, () => {
      this.#sweep();
    });
  }

  async #accept(plain: Socket, isReadPort: boolean): Promise<void> {
    const { deps } = this.#parts;
    this.#sockets.add(plain);
    this.#opening.add(plain);
    this.#displace(this.#opening, this.#parts.config.pgMaxConnections);
    plain.on("error", () => undefined);
    plain.once("close", () => {
      this.#sockets.delete(plain);
      this.#opening.delete(plain);
    });
    const cancel = deps.clock.after(START_LIMIT_MS, () => plain.destroy());
    let socket = plain;
    let client = plain.remoteAddress ?? "";
    try {
      const greeted = await greet(plain, { secureContext: this.#secureContext, proxies: this.#proxies });
      ({ socket, address: client } = greeted);
      socket.on("error", () => undefined);
      if (greeted.packet.kind === "cancel") {
        // If no gateway has the session, its server is most likely in the same place.
        const place = isReadPort ? this.#parts.replicas.near : null;
        const fallback = place ?? this.#parts.primary.current?.node;
        await this.cancels.anywhere(greeted.packet.key, { address: client, fallback });
        socket.destroy();
      } else
        await this.#begin(greeted, greeted.packet, {
          isReadPort,
          onAdmitted: () => this.#opening.delete(plain),
        });
    } catch (cause) {
      this.#refuse(socket, cause, client);
    } finally {
      cancel();
      this.#opening.delete(plain);
    }
  }

  /** A client displaces the oldest that has not logged in yet, never an admitted one. */
  #displace(clients: Set<Socket>, max: number): void {
    const [oldest] = clients;
    if (oldest === undefined || clients.size <= max) return;
    clients.delete(oldest);
    this.#parts.metrics.refusals.add("overloaded");
    oldest.write(TOO_MANY_OPENING);
    oldest.destroySoon();
  }

  #refuse(socket: Socket, cause: unknown, client: string): void {
    if (cause instanceof ProxyRefused) this.#noteProxy(cause);
    if (cause instanceof Refused) socket.destroySoon();
    else if (cause instanceof BackendRefusal) socket.end(cause.response);
    else if (cause instanceof HighwaterError) {
      const { message, details } = cause;
      if (!COUNTED_BY_CALLERS.has(cause.code)) this.#parts.metrics.refusals.add(cause.code);
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
      this.#parts.metrics.refusals.add("primary_unavailable");
      this.#parts.deps.log.warn("wire_session_not_opened", { client, cause });
      const message = "the gateway has no connection to the primary";
      socket.end(errorResponse({ severity: "FATAL", code: "57P03", message }));
    }
    const cancel = this.#parts.deps.clock.after(SWEEP_MS, () => socket.destroy());
    socket.once("close", cancel);
  }

  /** Any connection can cause one. */
  #noteProxy({ message: reason }: ProxyRefused): void {
    const count = ++this.#proxiesRefused;
    if (isLogged(count)) this.#parts.deps.log.warn("wire_proxy_refused", { reason, count });
  }

  async #begin(
    greeted: Greeted,
    packet: StartupPacket,
    { isReadPort, onAdmitted }: { readonly isReadPort: boolean; readonly onAdmitted: () => void },
  ): Promise<void> {
    const { primary, replicas } = this.#parts;
    const user = packet.parameters.get("user") ?? "";
    refuseUnserved(packet);
    const primaryEpoch = await (isReadPort ? primary.admit() : primary.admitWrite());
    const replica = isReadPort ? replicas.near : null;
    const admitted = await this.#authentication.admit(greeted, user, replica ?? primaryEpoch.node);
    const { address, isBoundToDatabase, relay, leave: leaveKey } = admitted;
    const database = packet.parameters.get("database") ?? user;
    let uncount = (): void => undefined;
    // A role's connections are for clients that may log in as that role.
    const enter = (): void => {
      uncount = this.#count(user);
      onAdmitted();
    };
    const leave = (): void => {
      leaveKey();
      uncount();
    };
    try {
      if (isBoundToDatabase && database !== address.database)
        throw new HighwaterError("forbidden", {
          detail: `a key that only reads connects to the database "${address.database}", not to "${database}"`,
        });
      // Where the server checks the password, the client enters when the server has let it in.
      if (relay === null) enter();
      await this.#open(greeted, packet, { primaryEpoch, isReadPort, replica, admitted, enter, leave });
    } catch (cause) {
      leave();
      throw cause;
    }
  }

  /** Errors: `overloaded` at the limits. Returns a function that ends the count. */
  #count(role: string): () => void {
    const { pgMaxConnections, pgMaxConnectionsPerRole } = this.#parts.config;
    if (this.#isStopping)
      throw new HighwaterError("primary_unavailable", { detail: "The gateway is shutting down." });
    if (this.#perRole.total >= pgMaxConnections)
      throw tooMany("GATEWAY_PG_MAX_CONNECTIONS", pgMaxConnections);
    if (this.#perRole.of(role) >= pgMaxConnectionsPerRole)
      throw tooMany("GATEWAY_PG_MAX_CONNECTIONS_PER_ROLE", pgMaxConnectionsPerRole);
    return this.#perRole.add(role);
  }

  async #open(
    { socket, inbox }: Greeted,
    { version, parameters }: StartupPacket,
    place: Place,
  ): Promise<void> {
    const { primaryEpoch, isReadPort, replica, admitted } = place;
    const { deps, positions, rules, attempts, metrics } = this.#parts;
    const { clock } = deps;
    const { user } = admitted.address;
    const changes = isReadPort ? { user, default_transaction_read_only: "on" } : { user };
    const asked = new Map([...Object.entries(admitted.settings), ...parameters]);
    const startup = writeStartup(version, serverParameters(asked, changes, this.#statements.parameters));
    const backend = await this.#logIn(socket, startup, place);
    const { socket: server } = backend;
    // The node may have changed its role during the log-in; then it must not run this session.
    const isAsExpected =
      replica === null
        ? (await positions.now(primaryEpoch)) !== null
        : backend.greeting.includes(IN_RECOVERY);
    if (!isAsExpected || this.#isStopping || socket.destroyed) {
      server.destroy();
      throw new HighwaterError("primary_unavailable", { detail: "The primary changes; connect again." });
    }
    socket.write(backend.greeting);
    const end = this.#serverEnd(backend, place);
    let forget = (): void => undefined;
    const session: WireSession = new WireSession({
      client: socket,
      server,
      outbox: this.#outbox,
      primaryEpoch,
      reader: isReadPort ? this.#reader(replica, primaryEpoch.node, admitted) : null,
      positions,
      attempts,
      own: this.#own,
      metrics,
      principal: admitted.principal,
      isRelayed: admitted.relay !== null,
      keeping: attempts.keeping(admitted.principal),
      least: minimumOf(admitted.principal, rules.levels),
      tracer: isReadPort ? undefined : deps.tracer,
      levels: () => rules.levels,
      defaultLevel: () => defaultLevel(rules.levels),
      nowMs: () => clock.monotonicMs(),
      after: (ms, callback) => clock.after(ms, callback),
      onClosed: (how) => {
        this.#sessions.delete(session);
        forget();
        end.ended(how);
      },
    });
    this.#sessions.add(session);
    forget = this.cancels.add(backend.key, session);
    admitted.onEnded(() => {
      session.revoke();
      end.cut();
    });
    session.start(inbox.release(), backend.rest);
  }

  #serverEnd({ socket: server, key }: Backend, { admitted, replica, primaryEpoch, leave }: Place): ServerEnd {
    const { clock, store, log } = this.#parts.deps;
    const node = replica ?? primaryEpoch.node;
    const role = admitted.address.user;
    const end: ServerEnd = new ServerEnd({
      server,
      terminate: async () => {
        if (key.length >= PROCESS_BYTES) await store.endSession(node, { process: key.readInt32BE(0), role });
      },
      after: (ms, callback) => clock.after(ms, callback),
      onOver: () => {
        this.#ends.delete(end);
        leave();
      },
      onFailed: (cause) => {
        log.warn("wire_session_not_ended", { node, role, cause });
      },
    });
    this.#ends.add(end);
    return end;
  }

  async #logIn(client: Socket, startup: Buffer, { admitted, enter }: Place): Promise<Backend> {
    const { deps, config } = this.#parts;
    const { address, relay } = admitted;
    const how =
      relay === null ? admitted : { ...admitted, relay: this.#bounded(client, relay), onLoggedIn: enter };
    const endTurn = await this.#logIns.turn(client);
    try {
      const limit = { clock: deps.clock, ms: config.connectTimeoutMs };
      return await logIn(await openSocket(address, limit), startup, how);
    } finally {
      endTurn();
    }
  }

  /** Only so many clients at a time may keep the server waiting. */
  #bounded(client: Socket, relay: Relay): Relay {
    const fromClient = (): Promise<Buffer> => {
      this.#asked.add(client);
      this.#displace(this.#asked, ASKED_MAX);
      return relay.fromClient().finally(() => this.#asked.delete(client));
    };
    return { ...relay, fromClient };
  }

  #reader(replica: string | null, primary: string, { principal, isAdministrator }: Admitted): Reader {
    const { replicas, config, deps, rules } = this.#parts;
    const place = { node: replica ?? primary, tokens: rules.tokens };
    const holder = { owner: principal.owner, isAdministrator };
    return {
      replica,
      arrived: (token, signal) => replicas.arrived(token, { replica, holder, signal }),
      shown: (node, level, signal) => replicas.shown(node, level, signal),
      look: (node) => replicas.look(node),
      confirmed: (node, signal) => replicas.confirmed(node, signal),
      maxWaitMs: config.maxWaitMs,
      traces: deps.tracer === undefined ? null : new ReadTraces(deps.tracer, place),
    };
  }
}

interface Listener {
  readonly port: number;
  readonly isReadPort: boolean;
  readonly server: Server;
}

/** The options of a session that begins. */
interface Place {
  readonly primaryEpoch: PrimaryEpoch;
  readonly isReadPort: boolean;
  /** Null: the session is at the primary. */
  readonly replica: string | null;
  readonly admitted: Admitted;
  /** Counts the client. Errors: `overloaded` at the limits. */
  readonly enter: () => void;
  readonly leave: () => void;
}

const TOO_MANY_OPENING = errorResponse({
  severity: "FATAL",
  code: "53300",
  message: "sorry, too many clients log in at once; connect again",
});
/** Refusals of a credential, or of one that is used too often. */
const COUNTED_BY_CALLERS: ReadonlySet<string> = new Set([
  "unauthenticated",
  "authentication_unavailable",
  "rate_limited",
]);
const IN_RECOVERY = "in_hot_standby\0on\0";

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
