// Faults that all programs share: each happens once, when every program has come to it, to a later one, or to its end. So a
// failover, which takes seconds to make, is made once for the whole guide. Programs reach it by HTTP: `GET /PROGRAM/FAULT`.
import { createServer, type Server } from "node:http";
import { type AddressInfo } from "node:net";

export interface Fault {
  readonly name: string;
  readonly happen: () => Promise<void>;
}

const RUNS = -1;

export class Stage implements AsyncDisposable {
  readonly #faults: readonly Fault[];
  /** Which fault a program waits for; `RUNS` for none, and beyond the last one when it has ended. */
  readonly #waitsFor = new Map<string, number>();
  readonly #waiting: {
    readonly at: number;
    readonly go: () => void;
    readonly fail: (cause: unknown) => void;
  }[] = [];
  #next = 0;
  #happens = false;
  readonly #server: Server;

  constructor(faults: readonly Fault[], programs: readonly string[]) {
    this.#faults = faults;
    for (const program of programs) this.#waitsFor.set(program, RUNS);
    this.#server = createServer((request, response) => {
      const [, program = "", fault = ""] = (request.url ?? "").split("/").map(decodeURIComponent);
      const say = (status: number, text: string): void => {
        response.writeHead(status, { connection: "close" }).end(text);
      };
      this.#arrive(program, fault).then(
        () => {
          say(200, "it has happened");
        },
        (cause: unknown) => {
          say(500, String(cause));
        },
      );
    });
  }

  async open(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${String((this.#server.address() as AddressInfo).port)}`;
  }

  /** The program needs no further fault. */
  leave(program: string): void {
    this.#waitsFor.set(program, this.#faults.length);
    void this.#advance();
  }

  #arrive(program: string, name: string): Promise<void> {
    const at = this.#faults.findIndex((fault) => fault.name === name);
    if (at < this.#next || !this.#waitsFor.has(program))
      return Promise.reject(new Error(`${program} comes to ${name}, which is unknown or over`));
    this.#waitsFor.set(program, at);
    return new Promise((go, fail) => {
      this.#waiting.push({ at, go, fail });
      void this.#advance();
    });
  }

  async #advance(): Promise<void> {
    if (this.#happens) return;
    this.#happens = true;
    while (this.#next < this.#faults.length && [...this.#waitsFor.values()].every((at) => at >= this.#next)) {
      const at = this.#next;
      this.#next += 1;
      const here = this.#waiting.filter((each) => each.at === at);
      if (here.length === 0) continue;
      try {
        await this.#faults[at]?.happen();
        for (const [program, waitsFor] of this.#waitsFor)
          if (waitsFor === at) this.#waitsFor.set(program, RUNS);
        for (const each of here) each.go();
      } catch (cause) {
        for (const each of this.#waiting) each.fail(cause);
        break;
      }
    }
    this.#happens = false;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
