// A server that sends a script, whatever it is asked: one part after each message of the client.
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";

/** Separates the parts of a script. */
export const NEXT = Buffer.from("\u0000<next>\u0000", "latin1");

/**
 * If both sides wait, the server gives up after this time: silence is easy to produce and teaches
 * little.
 */
const SILENCE_MS = 40;

export function partsOf(script: Buffer): Buffer[] {
  const parts: Buffer[] = [];
  let rest = script;
  for (let at = rest.indexOf(NEXT); at >= 0; at = rest.indexOf(NEXT)) {
    parts.push(rest.subarray(0, at));
    rest = rest.subarray(at + NEXT.length);
  }
  return [...parts, rest];
}

export class ScriptedServer {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  script: readonly Buffer[] = [];

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<ScriptedServer> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const scripted = new ScriptedServer(server);
    server.on("connection", (socket) => {
      scripted.#serve(socket);
    });
    return scripted;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  #serve(socket: Socket): void {
    const { script } = this;
    let next = 0;
    this.#sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => this.#sockets.delete(socket));
    let silence: NodeJS.Timeout | undefined;
    const cut = (): void => {
      socket.destroy();
    };
    socket.on("close", () => {
      clearTimeout(silence);
    });
    socket.on("data", () => {
      clearTimeout(silence);
      const part = script[next++];
      // After the last part, the server closes the connection.
      if (part === undefined) cut();
      else socket.write(part);
      silence = setTimeout(cut, SILENCE_MS);
    });
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
