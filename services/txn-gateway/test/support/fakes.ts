// A clock that only the test moves, a log that remembers, and a transport whose every answer the test gives.
import { randomBytes } from "node:crypto";
import { makeUuidV7, type Marks, type TxnId } from "@highwater/protocol";
import { type Clock } from "@highwater/store";
import { type HttpAnswer, type HttpStream, type Log, type TrackerTransport } from "../../src/deps.ts";

interface Timer {
  readonly atMs: number;
  readonly callback: () => void;
}

/** Lets everything run that waits for no timer. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 4; turn++) await new Promise((resolve) => setImmediate(resolve));
}

export class FakeClock implements Clock {
  #nowMs = 1_000;
  readonly #timers = new Set<Timer>();

  monotonicMs(): number {
    return this.#nowMs;
  }

  wallMs(): number {
    return 1_700_000_000_000 + this.#nowMs;
  }

  after(delayMs: number, callback: () => void): () => void {
    const timer = { atMs: this.#nowMs + Math.max(0, delayMs), callback };
    this.#timers.add(timer);
    return () => {
      this.#timers.delete(timer);
    };
  }

  get pendingTimers(): number {
    return this.#timers.size;
  }

  /** Moves the time on, timer by timer, and lets what follows from each happen before the next. */
  async advance(byMs: number): Promise<void> {
    const untilMs = this.#nowMs + byMs;
    await settle();
    for (;;) {
      const [next] = [...this.#timers].filter(({ atMs }) => atMs <= untilMs).sort((a, b) => a.atMs - b.atMs);
      if (next === undefined) break;
      this.#timers.delete(next);
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      next.callback();
      await settle();
    }
    this.#nowMs = untilMs;
  }
}

export class MemoryLog implements Log {
  readonly events: string[] = [];
  info(event: string): void {
    this.events.push(event);
  }
  warn(event: string): void {
    this.events.push(event);
  }
  error(event: string): void {
    this.events.push(event);
  }
}

export interface Sent {
  readonly url: string;
  readonly body: { gateway: string; announcements: { kind: string; id: string; offset?: string }[] };
  answer(status: number, body?: string): void;
  fail(): void;
}

/** Records what is posted; nothing is answered until the test does. */
export class ScriptedTransport implements TrackerTransport {
  readonly sent: Sent[] = [];

  post(url: string, body: string): Promise<HttpAnswer> {
    return new Promise((resolve, reject) => {
      this.sent.push({
        url,
        body: JSON.parse(body) as Sent["body"],
        answer: (status, text = "") => {
          resolve({ status, body: text });
        },
        fail: () => {
          reject(new Error("connection refused"));
        },
      });
    });
  }

  open(): Promise<HttpStream> {
    return Promise.reject(new Error("this transport has no streams"));
  }

  close(): void {
    // Nothing is open.
  }

  to(url: string): Sent[] {
    return this.sent.filter((sent) => sent.url.startsWith(url));
  }
}

export function newId(atMs = Date.now()): TxnId {
  return makeUuidV7(atMs, randomBytes(10));
}

export const EPOCH_A = "00000000-0000-4000-8000-00000000000a";
export const EPOCH_B = "00000000-0000-4000-8000-00000000000b";

export function marksOf(epoch: string, levels: Record<string, string>, seq = 1): Marks {
  return { epoch, seq, levels };
}
