// The traces of one session of the read port: each from the client's first message of its
// transaction to the answer. Only where transactions are traced is there one.
import { type Tracer } from "@highwater/service";
import { type ReadPlace, ReadTrace } from "../../tracing/read-trace.ts";
import { type Gate } from "../model/hold-queue.ts";

export class ReadTraces {
  readonly #tracer: Tracer;
  readonly #place: ReadPlace;
  /** Of the transaction that runs, or that is sent next. */
  #read: ReadTrace | null = null;
  /** By the place of an answer that waits. */
  readonly #held = new Map<Gate, ReadTrace>();

  constructor(tracer: Tracer, place: ReadPlace) {
    this.#tracer = tracer;
    this.#place = place;
  }

  #begun(): ReadTrace {
    return (this.#read ??= new ReadTrace(this.#tracer.request(undefined), this.#place));
  }

  /** The client has sent something. */
  sent(): void {
    this.#begun();
  }

  awaits(token: string): void {
    this.#begun().awaits(token);
  }

  /** An error, as an SQLSTATE, is the answer. */
  arrived(error: string | null): void {
    this.#read?.arrived(error);
    if (error !== null) this.#read = null;
  }

  ran(error: string | null): void {
    this.#read?.ran(error);
  }

  /** `level`: where what the answer shows has to be durable; null: it waits for something else. */
  holds(gate: Gate, level: string | null): void {
    if (this.#read === null) return;
    this.#read.holds(level);
    this.#held.set(gate, this.#read);
  }

  opened(gate: Gate, isEarly: boolean): void {
    const read = this.#held.get(gate);
    this.#held.delete(gate);
    read?.released(isEarly);
  }

  /** A transaction has ended. `isPipelined`: the next one was sent before. */
  ended(isPipelined: boolean): void {
    const read = this.#read;
    this.#read = null;
    read?.ended();
    if (isPipelined) this.#begun();
  }

  /** The session ends, by an error, as an SQLSTATE, or because its client has gone. */
  stop(error: string | null): void {
    const open = new Set(this.#held.values());
    if (this.#read !== null) open.add(this.#read);
    this.#held.clear();
    this.#read = null;
    if (error !== null) for (const read of open) read.failed(error);
  }
}
