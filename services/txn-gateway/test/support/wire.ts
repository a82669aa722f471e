// A relay before the database, on which a test can cut, hold or count at a known step.
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** `cut`: drops the bytes and the connection. `hold`: the answer waits for `release`. */
export type Decision = "pass" | "cut" | "hold";

interface Connection {
  readonly client: Socket;
  readonly server: Socket;
  /** Answers are being held. */
  isHeld: boolean;
  readonly held: Buffer[];
  /** The client sent the last bytes. */
  isClientsTurn: boolean;
  turns: number;
  sent: string;
}

export class Wire {
  readonly port: number;
  /** Called with all bytes that a client sends. */
  onSent: (text: string) => Decision = () => "pass";
  /** New connections are refused. */
  isDown = false;
  readonly #listener: Server;
  readonly #connections = new Set<Connection>();

  private constructor(listener: Server, port: number) {
    this.#listener = listener;
    this.port = port;
  }

  static async start(databasePort: number): Promise<Wire> {
    const listener = createServer((client) => {
      wire.#relay(client, databasePort);
    });
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
    const wire = new Wire(listener, (listener.address() as AddressInfo).port);
    return wire;
  }

  #relay(client: Socket, port: number): void {
    if (this.isDown) {
      client.destroy();
      return;
    }
    const server = connect({ host: "127.0.0.1", port, noDelay: true });
    client.setNoDelay(true);
    const connection: Connection = {
      ...{ client, server, isHeld: false, held: [], isClientsTurn: true, turns: 0, sent: "" },
    };
    this.#connections.add(connection);
    const end = (): void => {
      this.#connections.delete(connection);
      client.destroy();
      server.destroy();
    };
    for (const socket of [client, server]) socket.on("error", end).on("close", end);
    client.on("data", (data) => {
      this.#sent(connection, data, end);
    });
    server.on("data", (data) => {
      connection.isClientsTurn = true;
      if (connection.isHeld) connection.held.push(data);
      else client.write(data);
    });
  }

  #sent(connection: Connection, data: Buffer, end: () => void): void {
    const text = data.toString("latin1");
    if (connection.isClientsTurn) connection.turns++;
    connection.isClientsTurn = false;
    connection.sent += text;
    const decision = this.onSent(text);
    if (decision === "cut") {
      end();
      return;
    }
    if (decision === "hold") connection.isHeld = true;
    connection.server.write(data);
  }

  /** Decides on the next write that contains the text. Resolves when that write arrives. */
  once(text: string, decision: Decision): Promise<void> {
    return new Promise((resolve) => {
      this.onSent = (sent) => {
        if (!sent.includes(text)) return "pass";
        this.onSent = () => "pass";
        resolve();
        return decision;
      };
    });
  }

  /** An answer is being held. */
  get hasHeld(): boolean {
    return [...this.#connections].some(({ held }) => held.length > 0);
  }

  /** Round trips so far on the connection on which the text was sent. */
  turnsOf(text: string): number {
    for (const { sent, turns } of this.#connections) if (sent.includes(text)) return turns;
    return Number.NaN;
  }

  /** Lets held answers go on. */
  release(): void {
    for (const connection of this.#connections) {
      connection.isHeld = false;
      for (const data of connection.held.splice(0)) connection.client.write(data);
    }
  }

  /** Ends every connection on both sides. */
  cutAll(): void {
    for (const { client, server } of this.#connections) {
      client.destroy();
      server.destroy();
    }
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#listener.close(resolve));
    this.cutAll();
    await closed;
  }
}
