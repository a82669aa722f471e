// What stands for a region's load balancer behind its own TLS: it passes each connection on to the edge, by the protocol of its
// target group. As AWS's does, it takes any certificate of a target.
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

export interface Target {
  readonly protocol: string;
  readonly host: string;
  readonly port: number;
}

export class LoadBalancer {
  readonly #server: Server;
  readonly #open = new Set<Socket>();

  private constructor(target: Target) {
    this.#server = createServer((client) => {
      this.#pass(client, target);
    });
  }

  static async start(target: Target): Promise<LoadBalancer> {
    if (!["HTTP", "HTTPS"].includes(target.protocol)) throw new Error(`no target speaks ${target.protocol}`);
    const balancer = new LoadBalancer(target);
    balancer.#server.listen(0, "127.0.0.1");
    await once(balancer.#server, "listening");
    return balancer;
  }

  get url(): string {
    return `http://127.0.0.1:${String((this.#server.address() as AddressInfo).port)}`;
  }

  /** As if its region had lost power. */
  close(): void {
    this.#server.close();
    for (const socket of this.#open) socket.destroy();
  }

  #pass(client: Socket, { protocol, host, port }: Target): void {
    const to = { host, port };
    const edge = protocol === "HTTPS" ? connectTls({ ...to, rejectUnauthorized: false }) : connect(to);
    for (const [one, other] of [
      [client, edge],
      [edge, client],
    ] as const) {
      this.#open.add(one);
      // What ends one ends the other, which sends first what it still has.
      one
        .on("error", () => undefined)
        .once("close", (hadError: boolean) => {
          this.#open.delete(one);
          if (hadError) other.destroy();
          else other.end();
        });
      one.pipe(other);
    }
  }
}
