// Answers what became of the transactions whose tokens somebody holds. Judges by the core, and waits where that was asked for.
import {
  decodeToken,
  type ErrorCode,
  ERRORS,
  HighwaterError,
  type RefusedToken,
  type TokenContent,
  type TokenVerdict,
  type VerdictsRequest,
  type VerdictsResponse,
} from "@highwater/protocol";
import { type Caller, mayReadOf, type Principal } from "@highwater/service";
import { type Clock, sleep } from "@highwater/store";
import { judge } from "../core/index.ts";
import { type TrackerLoop } from "./loop.ts";
import { currentMarks } from "./stream.ts";

export interface VerdictDeskOptions {
  readonly loop: TrackerLoop;
  readonly clock: Clock;
  /** Whoever waits when it aborts is answered with what is known. */
  readonly stop: AbortSignal;
}

/** Two looks at the same pending tokens are at least so far apart. */
const REJUDGE_MS = 2;

interface Question {
  readonly text: string;
  readonly content: TokenContent;
}

export class VerdictDesk {
  readonly #loop: TrackerLoop;
  readonly #clock: Clock;
  readonly #stop: AbortSignal;

  constructor({ loop, clock, stop }: VerdictDeskOptions) {
    this.#loop = loop;
    this.#clock = clock;
    this.#stop = stop;
  }

  /** One answer for each token, in their order: a token that is refused spoils no other. Errors: `unknown_level`. */
  async answer(request: VerdictsRequest, { principal, signal }: Caller): Promise<VerdictsResponse> {
    const level = this.#levelOf(request.level);
    const answers = new Map<string, TokenVerdict | RefusedToken>();
    const questions: Question[] = [];
    for (const text of request.tokens) {
      const read = readToken(text, principal, level);
      if ("error" in read) answers.set(text, read);
      else questions.push(read);
    }
    const judgeAll = (): boolean => {
      for (const { text, content } of questions)
        if ((answers.get(text)?.verdict ?? "pending") === "pending")
          answers.set(text, this.#judge(text, content, level));
      return questions.every(({ text }) => answers.get(text)?.verdict !== "pending");
    };
    const isSettled = judgeAll();
    const { waitMs = 0 } = request;
    if (!isSettled && waitMs > 0) {
      const gone = signal === undefined ? this.#stop : AbortSignal.any([signal, this.#stop]);
      await this.#loop.whileInterested(() => this.#wait(judgeAll, waitMs, gone));
    }
    return {
      verdicts: request.tokens.flatMap((text) => answers.get(text) ?? []),
      marks: currentMarks(this.#loop.state),
    };
  }

  #levelOf(asked: string | undefined): string {
    const names = this.#loop.state.config.levels.map(({ name }) => name);
    const level = asked ?? (names.includes("region") ? "region" : (names.at(-1) ?? ""));
    if (names.includes(level)) return level;
    throw new HighwaterError("unknown_level", {
      detail: `Level ${level} is not configured; there are ${names.join(", ")}.`,
    });
  }

  /** Until none is pending, or the time is over, or nobody waits for the answer any more. */
  async #wait(judgeAll: () => boolean, waitMs: number, gone: AbortSignal): Promise<void> {
    const clock = this.#clock;
    const deadlineMs = clock.monotonicMs() + waitMs;
    while (clock.monotonicMs() < deadlineMs && !gone.aborted) {
      const over = new AbortController();
      const leftMs = Math.max(0, deadlineMs - clock.monotonicMs());
      await Promise.race([this.#loop.changed, sleep(clock, leftMs, AbortSignal.any([over.signal, gone]))]);
      over.abort();
      if (judgeAll()) return;
      await sleep(clock, REJUDGE_MS);
    }
  }

  #judge(text: string, content: TokenContent, level: string): TokenVerdict {
    const loop = this.#loop;
    const { id, attempt, kind, epoch, offset } = content;
    const place = { epoch, offset };
    const about = { id, attempt, kind, place };
    let judged = judge(loop.state, about, level);
    if (judged.needsProof) {
      const nowMs = this.#clock.monotonicMs();
      loop.dispatch({ kind: "token_presented", nowMs, id, attempt, tokenKind: kind, place });
      judged = judge(loop.state, about, level);
    }
    return {
      token: text,
      id,
      verdict: judged.verdict,
      level,
      position: { epoch: judged.place.epoch, offset: judged.place.offset.toString() },
      rule: judged.rule,
      ...(judged.retriedIn === null ? {} : { retriedIn: judged.retriedIn }),
      ...(judged.settledAt === null ? {} : { settledAt: judged.settledAt }),
    };
  }
}

function readToken(text: string, principal: Principal, level: string): Question | RefusedToken {
  const content = decodeToken(text);
  if (content === undefined) return refused("invalid_token", text, level);
  // What is another's is not even looked up.
  if (!mayReadOf(principal, content.owner ?? 0n)) return refused("forbidden", text, level);
  return { text, content };
}

function refused(
  code: ErrorCode & RefusedToken["error"]["code"],
  token: string,
  level: string,
): RefusedToken {
  const detail = code === "forbidden" ? "The token belongs to another owner." : ERRORS[code].title;
  return { token, verdict: "unknown", level, rule: "refused", error: { code, detail } };
}
