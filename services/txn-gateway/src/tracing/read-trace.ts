// The trace of a transaction on the read port: the wait for `highwater.after`, the transaction at
// its node, and the wait until its results are durable. Spans and attributes are made only when the
// trace is kept.
import { openToken, type TokenVerifier } from "@highwater/protocol";
import { type FinishedSpan, type RequestTrace, type TracePart } from "@highwater/service";

export interface ReadPlace {
  readonly node: string;
  readonly tokens: TokenVerifier;
}

/** The answer to another owner's token: a refusal, like 403 over HTTP. */
const FORBIDDEN = "42501";

interface Wait {
  readonly token: string;
  readonly startMs: number;
  /** Null while the wait goes on. */
  endMs: number | null;
  error: string | null;
}

interface Hold {
  readonly level: string;
  readonly startMs: number;
  endMs: number;
  isEarly: boolean;
}

export class ReadTrace implements TracePart {
  readonly #request: RequestTrace;
  readonly #place: ReadPlace;
  /** The last wait. */
  #wait: Wait | null = null;
  #hold: Hold | null = null;
  /** The number of answers that wait. */
  #waiting = 0;
  #hasRun = false;
  #startMs: number;
  #endMs = 0;
  #error: string | null = null;

  constructor(request: RequestTrace, place: ReadPlace) {
    this.#request = request;
    this.#place = place;
    this.#startMs = request.startMs;
    request.add(this);
  }

  #nowMs(): number {
    return this.#request.tracer.nowMs();
  }

  /** The next statement waits for the token's position. */
  awaits(token: string): void {
    this.#wait = { token, startMs: this.#nowMs(), endMs: null, error: null };
  }

  /** The wait is over. With an error, an SQLSTATE, the transaction ends. */
  arrived(error: string | null): void {
    const nowMs = this.#nowMs();
    if (this.#wait !== null) {
      this.#wait.endMs = nowMs;
      this.#wait.error = error;
    }
    if (!this.#hasRun) this.#startMs = nowMs;
    if (error === FORBIDDEN) this.#answered();
    else if (error !== null) this.failed(error);
  }

  /** A statement has run, or has failed with this SQLSTATE. */
  ran(error: string | null): void {
    this.#hasRun = true;
    this.#error ??= error;
  }

  /** An answer waits until its content is durable at `level`; null: for another reason. */
  holds(level: string | null): void {
    this.#waiting++;
    if (level === null) return;
    const startMs = this.#nowMs();
    this.#hold ??= { level, startMs, endMs: startMs, isEarly: false };
  }

  /** `isEarly`: the answer's content is not known to be durable. */
  released(isEarly: boolean): void {
    this.#waiting--;
    if (this.#hold !== null) {
      this.#hold.endMs = this.#nowMs();
      this.#hold.isEarly ||= isEarly;
    }
    if (this.#endMs > 0 && this.#waiting === 0) this.#answered();
  }

  /** The server has ended the transaction, which is no read if it has run no statement. */
  ended(): void {
    if (!this.#hasRun) return;
    this.#endMs = this.#nowMs();
    if (this.#waiting === 0) this.#answered();
  }

  /** The transaction ends without an answer, or with an error of the gateway. */
  failed(error: string): void {
    if (this.#request.isOver) return;
    this.#request.fail(error);
    this.#answered();
  }

  #answered(): void {
    this.#request.end("postgresql read", () => ({
      "network.protocol.name": "postgresql",
      "highwater.node": this.#place.node,
    }));
  }

  spans(): readonly FinishedSpan[] {
    return [...this.#awaited(), ...this.#read(), ...this.#durable()];
  }

  #awaited(): FinishedSpan[] {
    if (this.#wait === null) return [];
    const { token, startMs, endMs, error } = this.#wait;
    const content = openToken(token, this.#place.tokens);
    return [
      this.#span("highwater after", "internal", {
        startMs,
        endMs: endMs ?? this.#nowMs(),
        error,
        attributes: {
          "highwater.transaction.id": content?.kind === "position" ? undefined : content?.id,
          "highwater.epoch": content?.epoch,
          "highwater.offset": content?.offset.toString(),
          "error.type": error ?? undefined,
        },
      }),
    ];
  }

  #read(): FinishedSpan[] {
    if (!this.#hasRun) return [];
    const error = this.#error;
    const { node } = this.#place;
    return [
      this.#span("READ", "client", {
        startMs: this.#startMs,
        endMs: this.#endMs === 0 ? this.#nowMs() : this.#endMs,
        error,
        attributes: {
          "db.system.name": "postgresql",
          "server.address": node,
          "highwater.node": node,
          "db.response.status_code": error ?? undefined,
          "error.type": error ?? undefined,
        },
      }),
    ];
  }

  #durable(): FinishedSpan[] {
    if (this.#hold === null) return [];
    const { level, startMs, endMs, isEarly } = this.#hold;
    const verdict = isEarly || this.#waiting > 0 ? undefined : "durable";
    return [
      this.#span("highwater durable", "internal", {
        startMs,
        endMs: this.#waiting > 0 ? this.#nowMs() : endMs,
        error: null,
        attributes: { "highwater.level": level, "highwater.verdict": verdict },
      }),
    ];
  }

  #span(
    name: string,
    kind: FinishedSpan["kind"],
    its: Pick<FinishedSpan, "startMs" | "endMs" | "error" | "attributes">,
  ): FinishedSpan {
    const { context } = this.#request;
    return { ...its, name, kind, context: this.#request.childContext(), parentSpanId: context.spanId };
  }
}
