// Opens a session at the server: the connection, the log-in, and the greeting for the client.
import { connect as connectSocket, type Socket } from "node:net";
import { connect as connectTls, type ConnectionOptions } from "node:tls";
import { parseIntoClientConfig } from "pg-connection-string";
import sasl from "pg/lib/crypto/sasl.js";
import { HighwaterError } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { copyOf, int32, message } from "../frames/build.ts";
import { Inbox } from "./inbox.ts";
import { writeCancel } from "./packet.ts";

/** A node's address and the log-in for it. */
export interface BackendAddress {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string | null;
  readonly database: string;
  /** Null: without TLS. */
  readonly tls: ConnectionOptions | null;
}

export interface Backend {
  readonly socket: Socket;
  /** Everything from AuthenticationOk to ReadyForQuery. */
  readonly greeting: Buffer;
  /** Process and secret for a CancelRequest; empty when the server gave none. */
  readonly key: Buffer;
  /** Bytes that arrived after the greeting. */
  readonly rest: Buffer;
}

/** The server's own refusal, which the client gets unchanged. */
export class BackendRefusal extends Error {
  readonly response: Buffer;
  constructor(response: Buffer) {
    super("the server refused the session");
    this.response = response;
  }
}

/** Passes authentication messages on in both directions. */
export interface Relay {
  /** Whether the client is on the gateway's host, so that it could log in to the server itself. */
  readonly isOfThisHost: boolean;
  toClient(frame: Buffer): void;
  fromClient(): Promise<Buffer>;
}

/** The server knows the gateway's address alone: such a line would admit all of its clients. */
const UNPROVEN =
  "the server asked for no password, and GATEWAY_PG_AUTH is passthrough; pg_hba.conf must demand scram-sha-256 of the gateway's address, and not trust it";
const DEFAULT_PORT = 5_432;
/**
 * Linux ends a silent connection to a host that has vanished 10 s later: Node has it ask again once
 * a second, ten times.
 */
export const KEEP_ALIVE_MS = 10_000;
const GREETING_BYTES_MAX = 1_048_576;
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);
const AUTHENTICATED = 0;
const CLEARTEXT = 3;
const SASL = 10;
const SASL_CONTINUE = 11;
const SASL_FINAL = 12;

export function addressOf(url: string): BackendAddress {
  const { host, port, user, password, database, ssl } = parseIntoClientConfig(url);
  const name = user ?? "";
  return {
    host: host ?? "127.0.0.1",
    port: port === undefined ? DEFAULT_PORT : Number(port),
    user: name,
    password: typeof password === "string" && password !== "" ? password : null,
    database: database ?? name,
    tls: ssl === undefined || ssl === false ? null : ssl === true ? {} : ssl,
  };
}

/** Errors: those of the network, and when the limit is over. */
export async function openSocket(
  address: BackendAddress,
  limit: { clock: Clock; ms: number },
): Promise<Socket> {
  const { host, port, tls } = address;
  const path = host.startsWith("/") ? `${host}/.s.PGSQL.${String(port)}` : null;
  const keepAlive = { keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS };
  const socket =
    path === null ? connectSocket({ host, port, noDelay: true, ...keepAlive }) : connectSocket(path);
  socket.on("error", ignore);
  const cancel = limit.clock.after(limit.ms, () => {
    socket.destroy(new Error(`no connection within ${String(limit.ms)} ms`));
  });
  try {
    await once(socket, "connect");
    if (tls === null || path !== null) return socket;
    socket.write(SSL_REQUEST);
    const inbox = new Inbox(socket, 1);
    const answer = await inbox.next((bytes) => ({ value: String.fromCharCode(bytes[0] ?? 0), end: 1 }));
    inbox.release();
    if (answer !== "S") throw new Error("the server does not speak TLS");
    const secured = connectTls({ ...tls, socket, servername: host });
    secured.on("error", ignore);
    await once(secured, "secureConnect");
    return secured;
  } catch (cause) {
    socket.destroy();
    throw cause;
  } finally {
    cancel();
  }
}

/** An error without a listener would end the process. The close that follows is handled. */
function ignore(): void {
  return undefined;
}

function once(socket: Socket, event: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const closed = (): void => {
      reject(new Error("the connection was closed"));
    };
    socket.once(event, () => {
      socket.off("error", reject).off("close", closed);
      resolve();
    });
    socket.once("error", reject);
    socket.once("close", closed);
  });
}

/**
 * Errors: BackendRefusal, HighwaterError `forbidden` where the server would have let anyone in,
 * those of `onLoggedIn`, and those of the network.
 */
export async function logIn(
  socket: Socket,
  startup: Buffer,
  how: { readonly password: string | null; readonly relay: Relay | null; readonly onLoggedIn?: () => void },
): Promise<Backend> {
  const inbox = new Inbox(socket, GREETING_BYTES_MAX);
  try {
    socket.write(startup);
    const greeting: Buffer[] = [];
    let key: Buffer = Buffer.alloc(0);
    const scram = new Scram(how.password ?? "");
    let isProven = how.relay === null || how.relay.isOfThisHost;
    for (;;) {
      const frame = await inbox.frame();
      const type = String.fromCharCode(frame[0] ?? 0);
      if (type === "E") throw new BackendRefusal(Buffer.from(frame));
      if (type === "R" && frame.readInt32BE(5) !== AUTHENTICATED) {
        if (how.relay === null) socket.write(await scram.answer(frame));
        else await relayed(socket, frame, how.relay);
        isProven = true;
        continue;
      }
      if (type === "R" && !isProven) throw new HighwaterError("forbidden", { detail: UNPROVEN });
      if (type === "R") how.onLoggedIn?.();
      greeting.push(frame);
      if (type === "K") key = copyOf(frame, 5);
      if (type !== "Z") continue;
      // Paused, so that no message is lost before the session reads, such as why it ends.
      socket.pause();
      return { socket, greeting: Buffer.concat(greeting), key, rest: inbox.release() };
    }
  } catch (cause) {
    inbox.release();
    socket.destroy();
    throw cause;
  }
}

async function relayed(socket: Socket, frame: Buffer, relay: Relay): Promise<void> {
  relay.toClient(frame);
  // SASL's final message has no answer.
  if (frame.readInt32BE(5) !== SASL_FINAL) socket.write(await relay.fromClient());
}

/** The client's side of a password authentication. */
class Scram {
  readonly #password: string;
  #session: ReturnType<typeof sasl.startSession> | null = null;

  constructor(password: string) {
    this.#password = password;
  }

  /** Errors: an unsupported method, or a wrong password. */
  async answer(frame: Buffer): Promise<Buffer> {
    const kind = frame.readInt32BE(5);
    const data = frame.subarray(9);
    if (kind === CLEARTEXT) return message("p", `${this.#password}\0`);
    if (kind === SASL) {
      const mechanisms = data
        .toString("latin1")
        .split("\0")
        .filter((name) => name !== "");
      this.#session = sasl.startSession(mechanisms);
      const first = Buffer.from(this.#session.response);
      return message("p", `${this.#session.mechanism}\0`, int32(first.length), first);
    }
    if (this.#session === null) throw new Error(`the server asks for authentication ${String(kind)}`);
    if (kind === SASL_CONTINUE) {
      await sasl.continueSession(this.#session, this.#password, data.toString("utf8"));
      return message("p", this.#session.response);
    }
    if (kind !== SASL_FINAL) throw new Error(`the server asks for authentication ${String(kind)}`);
    sasl.finalizeSession(this.#session, data.toString("utf8"));
    return Buffer.alloc(0);
  }
}

/** Asks the node to cancel. Never rejects: a cancel has no answer. */
export async function forwardCancel(
  address: BackendAddress,
  key: Buffer,
  limit: { clock: Clock; ms: number },
): Promise<void> {
  try {
    const socket = await openSocket(address, limit);
    socket.resume();
    socket.end(writeCancel(key));
    const cancel = limit.clock.after(limit.ms, () => socket.destroy());
    socket.once("close", cancel);
  } catch {
    // A failed cancel is like one that came too late.
  }
}
