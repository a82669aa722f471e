// When the page asks again, and when it shows what has come.
import { type Clock, sleep } from "@highwater/runtime";

export interface Question<T> {
  readonly ask: () => Promise<T>;
  readonly everyMs: number;
  /** Nothing more is asked after such an answer. Default: there is none. */
  readonly isLast?: (answer: T) => boolean;
  readonly onAnswer: (answer: T) => void;
  readonly onFault: (cause: unknown) => void;
}

/** Asks at once and then again and again, also after a fault, until the signal aborts. */
export async function askAgain<T>(
  { ask, everyMs, isLast = () => false, onAnswer, onFault }: Question<T>,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      const answer = await ask();
      if (signal.aborted) return;
      onAnswer(answer);
      if (isLast(answer)) return;
    } catch (cause) {
      if (!signal.aborted) onFault(cause);
    }
    await sleep(clock, everyMs, signal);
  }
}

/** Of any number of calls the first one starts the delay, and the work is then done for all. */
export function makeSoon(clock: Clock, delayMs: number, work: () => void): () => void {
  let isWaiting = false;
  return () => {
    if (isWaiting) return;
    isWaiting = true;
    clock.after(delayMs, () => {
      isWaiting = false;
      work();
    });
  };
}
