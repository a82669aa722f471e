// What one request has committed or read, and the wait for all of it. Owns the floor of the
// request; knows nothing of HTTP.
import {
  type DurabilityPromise,
  type Highwater,
  HighwaterError,
  type InteractiveTransaction,
  type Session,
  StatementError,
} from "../index.ts";
import { isLoss } from "../entry-errors.ts";

/** What became of a request whose response is not sent. */
export interface Refusal {
  /**
   * `pending`: not durable in time. `lost`: a failure discarded something that the request
   * committed or read. `unknown`: the gate does not know how far the request has read.
   */
  readonly state: "pending" | "lost" | "unknown";
  /** Names everything that the request committed or read, for `OutputGate.status`. */
  readonly receipt: string;
  /** With `lost`: who does it again. Absent while that is not known. */
  readonly redo?: "service" | "caller";
}

/** Something that may be held, or the promise of it. */
export type Holdable = string | DurabilityPromise;

/** Runs a transaction past the gate. */
export type Floor = (timeoutMs: number) => Promise<DurabilityPromise>;

/** An interactive transaction that the request has begun. */
export interface Opened {
  readonly tx: InteractiveTransaction;
  /** Epoch in which its first statement ran; absent before the answer. */
  epoch?: string | null;
}

/**
 * SQLSTATEs that say nothing of what is stored, as gateways have it: every other error of a
 * statement may rest on a row that a failover discards.
 */
const NOT_OF_DATA = /^(?:08|0A|25|53|54|57|58|F0|XX)|^42601$/;
const LOSSES_MAX = 1_000;
const OF_DATA = /^(?:constraint_violation|statement_failed)$/;

export class Scope {
  /** Whether the response leaves at once. */
  isBypassed = false;
  readonly #hw: Highwater;
  readonly #session: Session;
  readonly #floor: Floor;
  readonly #opened = new Set<Opened>();
  readonly #held = new Set<Promise<unknown>>();
  #isUnknown = false;
  #isLost = false;
  /** The service brings back what was lost. */
  #isServed = false;

  constructor(hw: Highwater, session: Session, floor: Floor) {
    this.#hw = hw;
    this.#session = session;
    this.#floor = floor;
  }

  /** Adds a transaction, or its token, to what the response waits for. */
  add(held: Holdable): void {
    this.#session.remember(typeof held === "string" ? this.#hw.promise(held) : held);
  }

  /** Adds a transaction whose token is on its way. */
  addLater(held: PromiseLike<Holdable>): void {
    const added: Promise<unknown> = Promise.resolve(held).then(
      (each) => {
        this.add(each);
      },
      (cause: unknown) => {
        this.failed(cause, true);
      },
    );
    this.#held.add(added);
    void added.then(() => this.#held.delete(added));
  }

  open(opened: Opened): void {
    this.#opened.add(opened);
  }

  /** Takes in an error: it may rest on data, or be that of a commit. */
  failed(cause: unknown, isOfCommit = false): void {
    if (!(cause instanceof HighwaterError)) {
      this.#isUnknown ||= isOfCommit;
      return;
    }
    if (isOfCommit) {
      if (this.#lost(cause)) return;
      if (cause.outcome !== "not_applied") this.#isUnknown = true;
    }
    if (cause.evidence) this.add(cause.evidence.token);
    else if (cause.outcome === "applied" && cause.token !== undefined) this.add(cause.token);
    else if (cause instanceof StatementError && OF_DATA.test(cause.code))
      this.#isUnknown ||= !NOT_OF_DATA.test(cause.sqlstate ?? "XX");
  }

  /**
   * Rolls back what is open, and waits until all that the request has committed or read so far is
   * durable. Resolves with undefined then, or with what is known instead when the time is over.
   */
  async settle(options: {
    level?: string;
    timeoutMs: number;
    signal: AbortSignal;
  }): Promise<Refusal | undefined> {
    const untilMs = performance.now() + options.timeoutMs;
    const leftMs = (): number => Math.max(0, untilMs - performance.now());
    await this.#endOpened(leftMs);
    await this.#awaitHeld(leftMs);
    const receipt = this.#session.token;
    // The session forgets what is lost, and the others say who does them again.
    for (let left = LOSSES_MAX, isOver = false; !isOver && left > 0; left--)
      try {
        await this.#session.durable({ ...options, timeoutMs: leftMs() });
        isOver = true;
      } catch (cause) {
        if (this.#lost(cause)) continue;
        if (this.#isLost) return this.#refusal("lost", receipt);
        return this.#refusal(this.#isUnknown ? "unknown" : "pending");
      }
    if (this.#isLost) return { redo: "caller", ...this.#refusal("lost", receipt) };
    return this.#isUnknown ? this.#refusal("unknown") : undefined;
  }

  #refusal(state: Refusal["state"], receipt = this.#session.token): Refusal {
    return { state, receipt, ...(this.#isServed && { redo: "service" }) };
  }

  #lost(cause: unknown): boolean {
    if (!isLoss(cause)) return false;
    this.#isLost = true;
    this.#isServed ||= (cause as HighwaterError).redo === "service";
    return true;
  }

  async #awaitHeld(leftMs: () => number): Promise<void> {
    if (this.#held.size === 0) return;
    const all = Promise.allSettled(this.#held);
    let timer: unknown;
    const isLate = await Promise.race([
      all.then(() => false),
      new Promise<boolean>((resolve) => {
        timer = setTimeout(() => resolve(true), leftMs());
      }),
    ]);
    clearTimeout(timer as Parameters<typeof clearTimeout>[0]);
    this.#isUnknown ||= isLate;
  }

  async #endOpened(leftMs: () => number): Promise<void> {
    const ended = [...this.#opened];
    this.#opened.clear();
    await Promise.all(
      ended
        .filter(({ tx }) => tx.isOpen)
        .map(({ tx }) => tx.rollback({ timeoutMs: leftMs() }).catch(() => undefined)),
    );
    const aborted: Opened[] = [];
    for (const opened of ended)
      if (opened.tx.committed) this.add(opened.tx.committed);
      else if ("epoch" in opened) aborted.push(opened);
    if (aborted.length > 0) await this.#addFloor(aborted, leftMs);
  }

  /**
   * An aborted transaction has no token for its reads. A read that begins after it has ended, in
   * the same epoch, is not before anything that it saw.
   */
  async #addFloor(aborted: readonly Opened[], leftMs: () => number): Promise<void> {
    try {
      const floor = await this.#floor(leftMs());
      this.add(floor);
      const { epoch } = floor.position;
      this.#isUnknown ||= aborted.some((each) => each.epoch !== epoch);
    } catch {
      this.#isUnknown = true;
    }
  }
}
