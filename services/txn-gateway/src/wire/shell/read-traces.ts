// The traces of one session of the read port, if the gateway traces transactions. Each lasts from
// the client's first message of a transaction to the answer.
import { type Tracer } from "@highwater/service";
import { type ReadPlace, ReadTrace } from "../../tracing/read-trace.ts";
import { type Gate } from "../model/hold-queue.ts";

export class ReadTraces {
  readonly #tracer: Tracer;
  readonly #place: ReadPlace;
  /** The trace of the transaction that runs, or of the next one. */
  #read: ReadTrace | null = null;
  /** By the gate of an answer that waits. */
  readonly #held = new Map<Gate, ReadTrace>();

  constructor(tracer: Tracer, place: ReadPlace) {
    this.#tracer = tracer;
    this.#place = place;
  }

  #begun(): ReadTrace {
    return (this.#read ??= new ReadTrace(this.#tracer.request(undefined), this.#place));
  }

  /** The client has sent a message. */
  sent(): void {
    this.#begun();
  }

  awaits(token: string): void {
    this.#begun().awaits(token);
  }

  /** With an error, an SQLSTATE, the transaction ends. */
  arrived(error: string | null): void {
    this.#read?.arrived(error);
    if (error !== null) this.#read = null;
  }

  ran(error: string | null): void {
    this.#read?.ran(error);
  }

  /** `level`: where the answer's content has to be durable; null: it waits for another reason. */
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

  /** A transaction has ended. `isPipelined`: the client has already sent the next one. */
  ended(isPipelined: boolean): void {
    const read = this.#read;
    this.#read = null;
    read?.ended();
    if (isPipelined) this.#begun();
  }

  /** The session ends with an error, an SQLSTATE, or because its client has left. */
  stop(error: string | null): void {
    const open = new Set(this.#held.values());
    if (this.#read !== null) open.add(this.#read);
    this.#held.clear();
    this.#read = null;
    if (error !== null) for (const read of open) read.failed(error);
  }
}
