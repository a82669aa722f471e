// What a view asks the tracker for while it is open.
import { useEffect, useState } from "preact/hooks";
import { messageOf } from "./api.ts";
import { clock } from "./session.ts";
import { askAgain, type Question } from "./timing.ts";

/**
 * `question`: null asks nothing. When one of `inputs` changes, it is asked anew; until then the
 * last answer stays.
 */
export function useAnswer<T>(
  question: Omit<Question<T>, "onAnswer" | "onFault"> | null,
  inputs: readonly unknown[],
): { answer: T | null; fault: string } {
  const [answer, setAnswer] = useState<T | null>(null);
  const [fault, setFault] = useState("");
  useEffect(() => {
    if (question === null) return undefined;
    const stop = new AbortController();
    const onAnswer = (found: T): void => {
      setAnswer(() => found);
      setFault("");
    };
    const onFault = (cause: unknown): void => {
      setFault(messageOf(cause));
    };
    void askAgain({ ...question, onAnswer, onFault }, clock, stop.signal);
    return () => {
      stop.abort();
    };
  }, [...inputs]);
  return { answer, fault };
}
