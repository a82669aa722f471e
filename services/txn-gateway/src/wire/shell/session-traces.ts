// Traces one session's commits, each from the first message of its transaction to the answer.
import { type RequestTrace, type Tracer } from "@highwater/service";
import { type WireCommit, WireTrace } from "../../tracing/wire-trace.ts";
import { type Gate } from "../model/hold-queue.ts";

export interface SessionTracesOptions extends Pick<WireCommit, "node" | "owner"> {
  /** Absent: nothing is traced. */
  readonly tracer: Tracer | undefined;
}

export class SessionTraces {
  readonly #options: SessionTracesOptions;
  /** By the gate of the answer. */
  readonly #traces = new Map<Gate, WireTrace>();
  /** For the current transaction, or the next one. */
  #request: RequestTrace | null = null;

  constructor(options: SessionTracesOptions) {
    this.#options = options;
  }

  /** The client has sent a message. */
  sent(): void {
    this.#request ??= this.#newRequest();
  }

  /** A transaction has ended. `isPipelined`: messages of the next one have been sent already. */
  ended(isPipelined: boolean): void {
    this.#request = isPipelined ? this.#newRequest() : null;
  }

  #newRequest(): RequestTrace | null {
    return this.#options.tracer?.request(undefined) ?? null;
  }

  /** The transaction has committed, and its answer waits. Null: it is not traced. */
  committed(gate: Gate, commit: Pick<WireCommit, "id" | "ack" | "level" | "sentMs">): WireTrace | null {
    const request = this.#request;
    if (request === null || !gate.isCommit) return null;
    this.#request = null;
    const { node, owner } = this.#options;
    const trace = new WireTrace(request, { ...commit, node, owner });
    this.#traces.set(gate, trace);
    return trace;
  }

  /** `isEarly`: the answer went out before durability. */
  answered(gate: Gate, isEarly: boolean): void {
    this.#take(gate)?.answered(isEarly);
  }

  lost(gate: Gate): void {
    this.#take(gate)?.lost();
  }

  #take(gate: Gate): WireTrace | undefined {
    const trace = this.#traces.get(gate);
    this.#traces.delete(gate);
    return trace;
  }

  /** The session has ended, so no further answers will go out. */
  stop(): void {
    for (const trace of this.#traces.values()) trace.unanswered();
    this.#traces.clear();
  }
}
