// Limits how many clients log in at the server at once. After a failover all come back together,
// and starting a backend costs the new primary more processor than a transaction does. The others
// wait in the order in which they came.
import { type Socket } from "node:net";
import { type Clock } from "@highwater/runtime";

const AT_A_TIME = 16;
/** A client that takes part in its log-in can delay it. After this time the next one may begin. */
const TURN_MS = 1_000;

export class LogIns {
  readonly #clock: Clock;
  readonly #waiting = new Set<() => void>();
  #running = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves with the turn's end when it is the client's turn. Errors: the client has gone. */
  async turn(client: Socket): Promise<() => void> {
    if (this.#running >= AT_A_TIME) await this.#wait(client);
    else this.#running++;
    let isOver = false;
    const end = (): void => {
      if (isOver) return;
      isOver = true;
      cancel();
      const [next] = this.#waiting;
      if (next === undefined) this.#running--;
      else next();
    };
    const cancel = this.#clock.after(TURN_MS, end);
    return end;
  }

  #wait(client: Socket): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#waiting.delete(begin);
        reject(new Error("the client has gone"));
      };
      const begin = (): void => {
        this.#waiting.delete(begin);
        client.off("close", leave);
        resolve();
      };
      if (client.destroyed) {
        reject(new Error("the client has gone"));
        return;
      }
      client.once("close", leave);
      this.#waiting.add(begin);
    });
  }
}
