// A server that says what a script says, whatever it is asked: one part for each time that the
// client has said something.
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";

/** Between the parts of a script, as one text of bytes. */
export const NEXT = Buffer.from("\u0000<next>\u0000", "latin1");

/**
 * Where both wait for each other, the server is the one that gives up: silence is easy to make and
 * soon understood.
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
      // A server that has nothing more to say is gone.
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
