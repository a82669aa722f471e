// The wait for `highwater.after` of one read-port session: one at a time, with a limit.
import { type Report } from "../frames/build.ts";
import { type Settings } from "../model/own.ts";
import { type Look } from "../model/state.ts";
import { type Shown } from "../replicas.ts";
import { type ReadTraces } from "./read-traces.ts";

/** A read-port session's view of its node. */
export interface Reader {
  /** Null: the session is at the primary. */
  readonly replica: string | null;
  /** Resolves to null when the session shows the token's transaction, or to the refusal. */
  arrived(token: string, signal: AbortSignal): Promise<Report | null>;
  /** Resolves when everything that the session may have shown by now is durable. */
  shown(replica: string, level: string, signal: AbortSignal): Promise<Shown>;
  look(replica: string): Promise<Look | null>;
  /** Resolves when the server is known to be a replica, which has committed nothing. */
  confirmed(replica: string, signal: AbortSignal): Promise<void>;
  /** Limit of `arrived` if the session has set none. */
  readonly maxWaitMs: number;
  /** Null: reads are not traced. */
  readonly traces: ReadTraces | null;
}

export interface AfterWaitOptions {
  readonly reader: Reader;
  readonly after: (ms: number, callback: () => void) => () => void;
  /** Called when the transaction has arrived or is refused. */
  readonly onEnd: (refusal: Report | null) => void;
  /** Called before that, where the session is at a replica. */
  readonly onLook: (found: Look | null) => void;
}

const TOO_LATE: Report = {
  severity: "ERROR",
  code: "57014",
  message: "canceling statement: the position in highwater.after has not arrived within highwater.max_wait",
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

  /** Does nothing while a wait runs: what waits will ask again after it. */
  begin(token: string, { maxWaitMs, isDurableOnly: withLook }: Settings): void {
    const { reader, after, onLook } = this.#options;
    if (this.#running !== null) return;
    const running = new AbortController();
    this.#running = running;
    if (token !== "") reader.traces?.awaits(token);
    const end = (refusal: Report | null): void => {
      cancel();
      if (this.#running === running) this.#end(refusal);
    };
    const cancel = after(maxWaitMs > 0 ? maxWaitMs : reader.maxWaitMs, () => {
      end(TOO_LATE);
    });
    const { replica } = reader;
    const arrival = token === "" ? Promise.resolve(null) : reader.arrived(token, running.signal);
    void arrival.then(async (refusal) => {
      const found = refusal === null && replica !== null && withLook ? await reader.look(replica) : null;
      if (withLook && this.#running === running) onLook(found);
      end(refusal);
    });
  }

  #end(refusal: Report | null): void {
    const { reader, onEnd } = this.#options;
    this.stop();
    reader.traces?.arrived(refusal?.code ?? null);
    onEnd(refusal);
  }

  /** False when nothing waits. */
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
