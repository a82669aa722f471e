// A relay between a gateway and its tracker that counts the bytes of announcements: all that the
// gateway sends on connections that carry no stream of marks.
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

const STREAM = Buffer.from("GET /v1/durability/stream");

export class Tally implements Disposable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #announced = 0;

  private constructor(target: URL) {
    this.#server = createServer({ noDelay: true }, (from) => {
      this.#relay(from, connect({ host: target.hostname, port: Number(target.port), noDelay: true }));
    });
  }

  static async open(tracker: string): Promise<Tally> {
    const tally = new Tally(new URL(tracker));
    tally.#server.listen(0, "127.0.0.1");
    await once(tally.#server, "listening");
    return tally;
  }

  get url(): string {
    return `http://127.0.0.1:${String((this.#server.address() as AddressInfo).port)}`;
  }

  /** Bytes of announcements so far, with their heads. */
  get announced(): number {
    return this.#announced;
  }

  #relay(from: Socket, to: Socket): void {
    let isStream: boolean | undefined;
    from.on("data", (part) => {
      isStream ??= part.subarray(0, STREAM.length).equals(STREAM);
      if (!isStream) this.#announced += part.length;
      to.write(part);
    });
    to.pipe(from);
    for (const socket of [from, to]) {
      this.#sockets.add(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => {
        this.#sockets.delete(socket);
        from.destroy();
        to.destroy();
      });
    }
  }

  [Symbol.dispose](): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }
}
