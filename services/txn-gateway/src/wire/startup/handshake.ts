// The client's side of a new connection: encryption and the first packet.
import { type Socket } from "node:net";
import { type SecureContext, TLSSocket } from "node:tls";
import { errorResponse } from "../frames/build.ts";
import { ConnectionLost, Inbox } from "./inbox.ts";
import { readFirstPacket, type StartupPacket, STARTUP_BYTES_MAX } from "./packet.ts";
import { type Proxies, PROXY_BYTES_MAX, PROXY_FIRST_BYTES, readProxyHeader } from "./proxy-header.ts";

export interface Greeted {
  readonly socket: Socket;
  readonly inbox: Inbox;
  readonly isEncrypted: boolean;
  /** The client's, also behind a proxy. */
  readonly address: string;
  readonly packet: StartupPacket | { readonly kind: "cancel"; readonly key: Buffer };
}

/** The first byte of a TLS handshake record. */
const TLS_HANDSHAKE = 22;
const PROTOCOL = "postgresql";

/** The connection has to end. Where the protocol allows, the client has been sent the reason. */
export class Refused extends Error {}
/** A proxy and GATEWAY_PG_PROXIES do not agree. */
export class ProxyRefused extends Refused {}

export interface GreetOptions {
  /** Null: without TLS. */
  readonly secureContext: SecureContext | null;
  readonly proxies: Proxies;
}

/** Errors: Refused, ConnectionLost, those of TLS. */
export async function greet(plain: Socket, { secureContext, proxies }: GreetOptions): Promise<Greeted> {
  const peer = plain.remoteAddress ?? "";
  let socket = plain;
  let inbox = new Inbox(socket, PROXY_BYTES_MAX + STARTUP_BYTES_MAX);
  let isEncrypted = false;
  const address = proxies.has(peer) ? await namedByProxy(socket, inbox, peer) : peer;
  const first = await inbox.next((bytes) => ({ value: bytes[0] ?? 0, end: 0 }));
  if (PROXY_FIRST_BYTES.has(first)) {
    const reason = `unexpected PROXY header from ${peer}, which GATEWAY_PG_PROXIES does not list`;
    throw refuse(socket, new ProxyRefused(reason));
  }
  if (first === TLS_HANDSHAKE) {
    if (secureContext === null) throw new Refused("a client began TLS, and there is no certificate");
    const secured = await secure(socket, inbox, secureContext);
    // Without ALPN an attacker could lead a client of another protocol here.
    if (secured.alpnProtocol !== PROTOCOL) throw new Refused("direct TLS without the protocol's name");
    socket = secured;
    inbox = new Inbox(socket, STARTUP_BYTES_MAX);
    isEncrypted = true;
  }
  for (;;) {
    const packet = await inbox.next((bytes) => {
      const found = readFirstPacket(bytes);
      return found === null ? null : { value: found.packet, end: found.end };
    });
    switch (packet.kind) {
      case "gss":
        socket.write("N");
        break;
      case "ssl":
        if (secureContext === null || isEncrypted) {
          socket.write("N");
          break;
        }
        // An attacker between client and gateway may have inserted them.
        if (inbox.bytes.length > 0)
          throw refuse(socket, new Refused("received unencrypted data after SSL request"));
        socket.write("S");
        socket = await secure(socket, inbox, secureContext);
        inbox = new Inbox(socket, STARTUP_BYTES_MAX);
        isEncrypted = true;
        break;
      case "wrong":
        throw refuse(socket, new Refused(packet.reason));
      case "cancel":
      case "startup":
        return { socket, inbox, isEncrypted, address, packet };
    }
  }
}

/** Such a peer has to send a header: otherwise its clients could send one, with any address. */
async function namedByProxy(socket: Socket, inbox: Inbox, peer: string): Promise<string> {
  const header = await inbox.next(readProxyHeader);
  if (header.kind === "client") return header.address;
  if (header.kind === "proxy") return peer;
  const reason = `no valid PROXY header from ${peer}, which GATEWAY_PG_PROXIES lists: ${header.reason}`;
  throw refuse(socket, new ProxyRefused(reason));
}

function refuse(socket: Socket, refused: Refused): Refused {
  socket.end(errorResponse({ severity: "FATAL", code: "08P01", message: refused.message }));
  return refused;
}

async function secure(socket: Socket, inbox: Inbox, secureContext: SecureContext): Promise<TLSSocket> {
  socket.pause();
  const rest = inbox.release();
  if (rest.length > 0) socket.unshift(rest);
  const secured = new TLSSocket(socket, { isServer: true, secureContext, ALPNProtocols: [PROTOCOL] });
  socket.on("error", () => undefined);
  await new Promise<void>((resolve, reject) => {
    secured.once("secure", resolve);
    secured.once("error", reject);
    secured.once("close", () => {
      reject(new ConnectionLost("the connection was closed in the TLS handshake"));
    });
  });
  return secured;
}
