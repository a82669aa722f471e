// One stream of a tracker's events that counts losses and does nothing else with them: its cost is
// taken from the same cores as what is measured.
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { eventually } from "@highwater/lab-tools/process";

const BEGIN = "\nevent: begin\n";
const LOST = Buffer.from("\nevent: transaction.lost\n");

export class LossListener {
  readonly #socket: Socket;
  #rest: Buffer = Buffer.alloc(0);
  #hasBegun = false;
  #count = 0;
  #lastMs = Number.NaN;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (part) => {
      this.#take(part);
    });
    socket.on("error", () => undefined);
  }

  /** Resolves when the stream has begun: it has everything that is published from then on. */
  static async open(tracker: string): Promise<LossListener> {
    const url = new URL(tracker);
    const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true });
    await once(socket, "connect");
    const listener = new LossListener(socket);
    socket.write(
      `GET /v1/durability/events HTTP/1.1\r\nhost: ${url.host}\r\naccept: text/event-stream\r\n\r\n`,
    );
    await eventually("the stream of events begins", () => listener.#hasBegun);
    return listener;
  }

  /** Resolves with the time at which the last one of so many losses arrived. */
  async received(count: number): Promise<number> {
    await eventually(`${String(count)} losses are published`, () => this.#count >= count);
    return this.#lastMs;
  }

  #take(part: Buffer): void {
    const bytes = Buffer.concat([this.#rest, part]);
    this.#hasBegun ||= bytes.includes(BEGIN);
    let from = 0;
    for (let at = bytes.indexOf(LOST); at >= 0; at = bytes.indexOf(LOST, from)) {
      from = at + LOST.length - 1;
      this.#count++;
      this.#lastMs = performance.now();
    }
    this.#rest = bytes.subarray(Math.max(from, bytes.length - LOST.length + 1));
  }

  close(): void {
    this.#socket.destroy();
  }
}
