// The client's side of a new connection: encryption and the first packet.
import { type Socket } from "node:net";
import { type SecureContext, TLSSocket } from "node:tls";
import { errorResponse } from "../frames/build.ts";
import { ConnectionLost, Inbox } from "./inbox.ts";
import { readFirstPacket, type StartupPacket, STARTUP_BYTES_MAX } from "./packet.ts";

export interface Greeted {
  readonly socket: Socket;
  readonly inbox: Inbox;
  readonly isEncrypted: boolean;
  readonly packet: StartupPacket | { readonly kind: "cancel"; readonly key: Buffer };
}

/** The first byte of a TLS handshake record. */
const TLS_HANDSHAKE = 22;
const PROTOCOL = "postgresql";

/** The connection has to end. Where the protocol allows, the client has been sent the reason. */
export class Refused extends Error {}

/** Errors: Refused, ConnectionLost, those of TLS. */
export async function greet(plain: Socket, secureContext: SecureContext | null): Promise<Greeted> {
  let socket = plain;
  let inbox = new Inbox(socket, STARTUP_BYTES_MAX);
  let isEncrypted = false;
  const first = await inbox.next((bytes) => ({ value: bytes[0] ?? 0, end: 0 }));
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
          throw refuse(socket, "received unencrypted data after SSL request", "08P01");
        socket.write("S");
        socket = await secure(socket, inbox, secureContext);
        inbox = new Inbox(socket, STARTUP_BYTES_MAX);
        isEncrypted = true;
        break;
      case "wrong":
        throw refuse(socket, packet.reason, "08P01");
      case "cancel":
      case "startup":
        return { socket, inbox, isEncrypted, packet };
    }
  }
}

function refuse(socket: Socket, reason: string, code: string): Refused {
  socket.end(errorResponse({ severity: "FATAL", code, message: reason }));
  return new Refused(reason);
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
