// Answers requests for verdicts. The core judges; this waits if the request asks for it.
import { setImmediate as nextTurn } from "node:timers/promises";
import {
  type EpochId,
  type ErrorCode,
  ERRORS,
  HighwaterError,
  openToken,
  type RefusedToken,
  type TokenVerdict,
  type TokenVerifier,
  type VerdictsRequest,
  type VerdictsResponse,
  withoutRedo,
} from "@highwater/protocol";
import { type Clock, sleep } from "@highwater/runtime";
import { type Caller, type Counter, mayReadOf, NOBODY, type Principal } from "@highwater/service";
import {
  entryKey,
  type Ground,
  groundOf,
  isUnchanged,
  judge,
  type Judgement,
  levelNames,
  type Token,
  type TrackerState,
} from "../core/index.ts";
import { type TrackerLoop } from "./loop.ts";
import { currentMarks } from "./stream.ts";
import { TokenRate } from "./token-rate.ts";

export interface VerdictServiceOptions {
  readonly loop: TrackerLoop;
  readonly clock: Clock;
  /** A request that waits when it aborts is answered with what is known. */
  readonly stop: AbortSignal;
  readonly verdicts: Counter;
  /** Tokens of one principal that requests may wait for. */
  readonly maxWaitingPerKey: number;
  /** Of one principal, all its requests together. */
  readonly tokensPerSecondPerKey: number;
  readonly tokens: TokenVerifier;
  /**
   * Why the tracker's deployment keys say nothing of a token; null while they are those of the
   * other services.
   */
  readonly scheduleFault: () => string | null;
}

/** Two looks at what is pending are at least so far apart. */
const REJUDGE_MS = 2;
/**
 * After a look it rests so many times as long as that took: very many tokens must keep neither the
 * marks waiting nor what finds their verdicts.
 */
const REST = 9;
/** So many tokens are read and judged in one turn of the event loop: about 5 ms. */
const SLICE = 500;

/**
 * A tracker that does not see the primary holds questions no longer: another one may have the
 * answer.
 */
const BLIND_WAIT_MS = 1_000;

interface Question {
  readonly text: string;
  readonly token: Token & { readonly parent: EpochId | null };
  /** False: the caller may only read, and a question of its own must not make the ledger grow. */
  readonly mayEnter: boolean;
  /** What its verdict rested on when it was found pending. */
  ground: Ground | null;
}

/** A request that waits, and looks again when called. */
interface Waiter {
  /** It ends when the tracker goes blind. */
  readonly leavesBlind: boolean;
  /** True when nothing of it is pending any more. */
  readonly look: () => boolean;
  readonly settled: () => void;
}

export class VerdictService {
  readonly #loop: TrackerLoop;
  readonly #clock: Clock;
  readonly #stop: AbortSignal;
  readonly #verdicts: Counter;
  readonly #maxWaitingPerKey: number;
  readonly #rate: TokenRate;
  readonly #tokens: TokenVerifier;
  readonly #scheduleFault: () => string | null;
  readonly #waiters = new Set<Waiter>();
  /** Tokens that requests wait for, by principal. */
  readonly #waiting = new Map<string, number>();
  #looking = false;

  constructor(options: VerdictServiceOptions) {
    const { loop, clock, stop, verdicts, maxWaitingPerKey, tokens } = options;
    this.#scheduleFault = options.scheduleFault;
    this.#maxWaitingPerKey = maxWaitingPerKey;
    this.#rate = new TokenRate(clock, options.tokensPerSecondPerKey);
    this.#tokens = tokens;
    this.#verdicts = verdicts;
    this.#loop = loop;
    this.#clock = clock;
    this.#stop = stop;
  }

  /**
   * One answer for each token, in their order: a token that is refused spoils no other. Errors:
   * `unknown_level`, `primary_unavailable`, `rate_limited`.
   */
  async answer(request: VerdictsRequest, { principal, signal }: Caller): Promise<VerdictsResponse> {
    const level = this.#levelOf(request.level);
    this.#rate.spend(principal, request.tokens.length);
    const answers = new Map<string, TokenVerdict | RefusedToken>();
    const isPending = (question: Question): boolean => {
      const { state } = this.#loop;
      if (question.ground !== null && isUnchanged(state, question.ground, level)) return true;
      const judged = this.#judge(question, level);
      if (judged.verdict === "pending") question.ground = groundOf(state, question.token);
      else answers.set(question.text, answerTo(question, judged, { level, state }));
      return judged.verdict === "pending";
    };
    let pending: Question[] = [];
    for (const [at, text] of request.tokens.entries()) {
      // Ten thousand MACs take some 50 ms, in which marks would have to wait.
      if (at > 0 && at % SLICE === 0) await nextTurn();
      const read = this.#read(text, principal, level);
      if ("error" in read) answers.set(text, read);
      else if (isPending(read)) pending.push(read);
    }
    const judgeAll = (): boolean => {
      pending = pending.filter(isPending);
      return pending.length === 0;
    };
    const { waitMs = 0 } = request;
    if (pending.length > 0 && waitMs > 0) {
      const gone = signal === undefined ? this.#stop : AbortSignal.any([signal, this.#stop]);
      const leave = this.#count(principal, pending.length);
      try {
        await this.#loop.whileInterested(() => this.#waitInSight(judgeAll, waitMs, gone));
      } finally {
        leave();
      }
    }
    for (const question of pending)
      answers.set(
        question.text,
        answerTo(question, this.#judge(question, level), { level, state: this.#loop.state }),
      );
    for (const { verdict } of answers.values()) this.#verdicts.add(verdict);
    return {
      verdicts: request.tokens.flatMap((text) => answers.get(text) ?? []),
      marks: currentMarks(this.#loop.state),
      ...(this.#loop.sight.isBlind ? { blind: true as const } : {}),
    };
  }

  /** Errors: `concurrency_limited`. A gateway asks for all its callers, and counts them itself. */
  #count({ id, owner, isService }: Principal, tokens: number): () => void {
    if (isService === true || owner === NOBODY) return () => undefined;
    const value = this.#maxWaitingPerKey;
    const before = this.#waiting.get(id) ?? 0;
    if (before + tokens > value)
      throw new HighwaterError("concurrency_limited", {
        detail: `${id} already waits for the verdicts of ${String(before)} tokens, and this request asks for ${String(tokens)}; maxWaitingPerKey is ${String(value)}.`,
        limit: { name: "maxWaitingPerKey", value },
        retryAfterMs: 1_000,
      });
    this.#waiting.set(id, before + tokens);
    return () => {
      const left = (this.#waiting.get(id) ?? tokens) - tokens;
      if (left > 0) this.#waiting.set(id, left);
      else this.#waiting.delete(id);
    };
  }

  #levelOf(asked: string | undefined): string {
    const names = levelNames(this.#loop.state);
    const level = asked ?? (names.includes("region") ? "region" : (names.at(-1) ?? ""));
    if (names.includes(level)) return level;
    throw new HighwaterError("unknown_level", {
      detail: `Level ${level} is not configured; use one of ${names.join(", ")}.`,
    });
  }

  /**
   * As #wait(), but ends early while the tracker is blind. Right after a failover every tracker is
   * for a moment, so a question that finds it blind waits that moment out.
   */
  async #waitInSight(look: () => boolean, waitMs: number, gone: AbortSignal): Promise<void> {
    const clock = this.#clock;
    const untilMs = clock.monotonicMs() + waitMs;
    const { sight } = this.#loop;
    if (sight.isBlind) await this.#wait(look, Math.min(BLIND_WAIT_MS, waitMs), gone, false);
    const leftMs = untilMs - clock.monotonicMs();
    if (!sight.isBlind && leftMs > 0 && !gone.aborted && !look()) await this.#wait(look, leftMs, gone, true);
  }

  /**
   * Until none is pending, or the time is over, or the caller has gone. `leavesBlind`: or the
   * tracker goes blind, because another one may have the answer.
   */
  async #wait(look: () => boolean, waitMs: number, gone: AbortSignal, leavesBlind: boolean): Promise<void> {
    const over = new AbortController();
    const waiter = { look, leavesBlind, settled: () => over.abort(SETTLED) };
    this.#waiters.add(waiter);
    if (!this.#looking) void this.#lookAgain();
    await sleep(this.#clock, waitMs, AbortSignal.any([over.signal, gone]));
    this.#waiters.delete(waiter);
    if (!over.signal.aborted && !gone.aborted) look();
  }

  /** For all who wait together, as long as somebody does. */
  async #lookAgain(): Promise<void> {
    const clock = this.#clock;
    this.#looking = true;
    let { changed } = this.#loop;
    while (this.#waiters.size > 0 && !this.#stop.aborted) {
      await changed;
      // Taken before the looks: what changes while they rest is looked at next.
      ({ changed } = this.#loop);
      const beganMs = clock.monotonicMs();
      for (const waiter of this.#waiters) {
        if (!waiter.look() && !(waiter.leavesBlind && this.#loop.sight.isBlind)) continue;
        this.#waiters.delete(waiter);
        waiter.settled();
      }
      await sleep(clock, Math.max(REJUDGE_MS, REST * (clock.monotonicMs() - beganMs)));
    }
    this.#looking = false;
  }

  #read(text: string, principal: Principal, level: string): Question | RefusedToken {
    const content = openToken(text, this.#tokens);
    if (content === undefined) {
      // The others may have signed it, by a key that this tracker has not or has otherwise.
      const detail = this.#scheduleFault();
      if (detail !== null) throw new HighwaterError("primary_unavailable", { detail, retryAfterMs: 1_000 });
      return refused("invalid_token", text, level);
    }
    const { id, attempt, kind, epoch, offset, parent, owner } = content;
    // What is another's is not even looked up.
    if (!mayReadOf(principal, owner)) return refused("forbidden", text, level);
    const mayEnter = principal.scopes.has("write") || principal.isService === true;
    const position = { epoch, offset };
    const token = { id, owner, attempt, kind, position, parent, key: entryKey({ id, owner }, attempt) };
    return { text, mayEnter, token, ground: null };
  }

  #judge({ token, mayEnter }: Question, level: string): Judgement {
    const loop = this.#loop;
    const judged = judge(loop.state, token, level);
    if (!judged.needsProof) return judged;
    const { id, owner, attempt, kind, position, parent } = token;
    const nowMs = this.#clock.monotonicMs();
    const whose = { tokenKind: kind, owner, parent, mayEnter } as const;
    loop.dispatch({ kind: "token_presented", nowMs, id, attempt, position, ...whose });
    return judge(loop.state, token, level);
  }
}

function answerTo(
  { text, token }: Question,
  judged: Judgement,
  { level, state }: { readonly level: string; readonly state: TrackerState },
): TokenVerdict {
  const isLost = judged.verdict === "lost" || judged.verdict === "broken";
  const held = isLost ? state.ledger.entries.get(token.key ?? "") : undefined;
  const { redo } = withoutRedo(held?.metadata ?? null);
  return {
    token: text,
    id: token.id,
    verdict: judged.verdict,
    level,
    position: { epoch: judged.position.epoch, offset: judged.position.offset.toString() },
    rule: judged.rule,
    ...(judged.retriedIn === null ? {} : { retriedIn: judged.retriedIn }),
    ...(judged.settledAt === null ? {} : { settledAt: judged.settledAt }),
    ...(redo !== undefined && { redo }),
  };
}

/** A reason of its own: the usual one would be made with a stack trace each time. */
const SETTLED = "settled";

function refused(
  code: ErrorCode & RefusedToken["error"]["code"],
  token: string,
  level: string,
): RefusedToken {
  const detail = code === "forbidden" ? "The token belongs to another owner." : ERRORS[code].title;
  return { token, verdict: "unknown", level, rule: "refused", error: { code, detail } };
}
