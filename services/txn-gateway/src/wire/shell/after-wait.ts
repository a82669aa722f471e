// The wait for `highwater.after` of one session of the read port: one at a time, with a limit.
import { type Report } from "../frames/build.ts";

/** Of a session of the read port. */
export interface Reader {
  /** Null: the session is at the primary. */
  readonly replica: string | null;
  /** Resolves when the session shows what the token stands for, or to why it will not. */
  arrived(token: string, signal: AbortSignal): Promise<Report | null>;
  /** Resolves when all is durable that the session may have shown by now. */
  shown(replica: string, level: string, signal: AbortSignal): Promise<void>;
  /** Resolves when the server is known to have been a replica, and so to have committed nothing. */
  confirmed(replica: string, signal: AbortSignal): Promise<void>;
  /** How long `arrived` may take where the session does not say so. */
  readonly maxWaitMs: number;
}

export interface AfterWaitOptions {
  readonly reader: Reader;
  readonly after: (ms: number, callback: () => void) => () => void;
  /** It has arrived, or will not. */
  readonly onEnd: (refusal: Report | null) => void;
}

const TOO_LATE: Report = {
  severity: "ERROR",
  code: "57014",
  message: "canceling statement: what highwater.after stands for has not arrived within highwater.max_wait",
  hint: "Ask again, or read at the primary.",
};
const CANCELLED: Report = {
  severity: "ERROR",
  code: "57014",
  message: "canceling statement due to user request",
};

export class AfterWait {
  readonly #options: AfterWaitOptions;
  #running: AbortController | null = null;

  constructor(options: AfterWaitOptions) {
    this.#options = options;
  }

  get isRunning(): boolean {
    return this.#running !== null;
  }

  /** Nothing where one runs: what waits is behind it. */
  begin(token: string, maxWaitMs: number): void {
    const { reader, after } = this.#options;
    if (this.#running !== null) return;
    const running = new AbortController();
    this.#running = running;
    const end = (refusal: Report | null): void => {
      cancel();
      if (this.#running === running) this.#end(refusal);
    };
    const cancel = after(maxWaitMs > 0 ? maxWaitMs : reader.maxWaitMs, () => {
      end(TOO_LATE);
    });
    void reader.arrived(token, running.signal).then(end);
  }

  #end(refusal: Report | null): void {
    this.stop();
    this.#options.onEnd(refusal);
  }

  /** False: nothing waits. */
  cancel(): boolean {
    if (this.#running === null) return false;
    this.#end(CANCELLED);
    return true;
  }

  stop(): void {
    this.#running?.abort();
    this.#running = null;
  }
}
