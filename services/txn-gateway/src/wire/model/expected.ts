// What the server will answer, message by message. The queue follows PostgreSQL's own rules: after
// an error it skips everything up to the next Sync, and while it reads COPY data it ignores Sync.
import { type Kind } from "./statement.ts";

/**
 * Messages that are answered. `copyData` and `copyEnd` have no answer. Nor has `copySync`, a Sync
 * among the data, unless the COPY fails in front of it.
 */
type Message = "parse" | "bind" | "close" | "describe" | "execute" | "sync" | "query" | "call" | Unanswered;
type Unanswered = "copyData" | "copyEnd" | "copySync";
const UNANSWERED: ReadonlySet<Message> = new Set<Unanswered>(["copyData", "copyEnd", "copySync"]);

/** `quiet`: the client sent it in another form, and gets of the answers only rows and errors. */
type Whose = "client" | "quiet" | "own";

export interface Expected {
  readonly message: Message;
  readonly whose: Whose;
  /** Of `query` and `execute`. */
  readonly kind?: Kind;
  readonly isLocking?: boolean;
  /** Of `query` and `sync`: an id that is set in it, or in its batch, may come too late. */
  readonly mayLoseId?: boolean;
  /** Of an own `execute`. */
  readonly purpose?: Purpose;
}

/**
 * `check`: behind reads, before their Sync. `settings`, `commit`: alone, in front of what the
 * client sends next. `inline`: in front of an extended COMMIT. `probe`: what the session can do.
 */
export type Purpose = "check" | "settings" | "commit" | "inline" | "probe";

export const CLIENT = {
  parse: { message: "parse", whose: "client" },
  bind: { message: "bind", whose: "client" },
  close: { message: "close", whose: "client" },
  describe: { message: "describe", whose: "client" },
  sync: { message: "sync", whose: "client" },
  call: { message: "call", whose: "client" },
  copyData: { message: "copyData", whose: "client" },
  copyEnd: { message: "copyEnd", whose: "client" },
  copySync: { message: "copySync", whose: "client" },
} as const satisfies Record<string, Expected>;

export const QUIET = {
  parse: { message: "parse", whose: "quiet" },
  bind: { message: "bind", whose: "quiet" },
  close: { message: "close", whose: "quiet" },
  describe: { message: "describe", whose: "quiet" },
} as const satisfies Record<string, Expected>;

export const OWN = {
  parse: { message: "parse", whose: "own" },
  bind: { message: "bind", whose: "own" },
  close: { message: "close", whose: "own" },
  sync: { message: "sync", whose: "own" },
  query: { message: "query", whose: "own" },
} as const satisfies Record<string, Expected>;

export class ExpectedAnswers {
  #queue: Expected[] = [];
  #at = 0;
  /** The server ignores everything until the next Sync. */
  isSkipping = false;
  /** The server reads COPY data, and ignores Sync. */
  isCopying = false;

  /** The server owes no answer: the end of COPY data that it does not read has none. */
  get isEmpty(): boolean {
    return this.head === undefined;
  }

  /** What the next answer belongs to. */
  get head(): Expected | undefined {
    for (;;) {
      const head = this.#queue[this.#at];
      if (head === undefined || !UNANSWERED.has(head.message)) return head;
      this.pop();
    }
  }

  /** What our statement is for that the head belongs to: its Parse and its Bind do not say. */
  ownPurpose(): Purpose | undefined {
    return this.#next(({ purpose }) => purpose !== undefined)?.purpose;
  }

  /** The Sync that the server stops at if the head fails. */
  nextSync(): Expected | undefined {
    return this.#next(({ message }) => message === "sync");
  }

  /** The first from the head on. Answered messages in front of it are not looked at. */
  #next(fits: (expected: Expected) => boolean): Expected | undefined {
    for (let at = this.#at; at < this.#queue.length; at++) {
      const expected = this.#queue[at];
      if (expected !== undefined && fits(expected)) return expected;
    }
    return undefined;
  }

  /** The message goes to the server now. */
  push(expected: Expected): void {
    const { message } = expected;
    if (message === "sync") {
      if (this.isCopying) {
        if (this.#hasData()) this.#queue.push(CLIENT.copySync);
        return;
      }
      this.isSkipping = false;
    } else if (this.isSkipping) return;
    if (message === "copyData" && this.#queue.at(-1)?.message === "copyData") return;
    if (message === "copyEnd") this.isCopying = false;
    if (UNANSWERED.has(message) && this.isEmpty) return;
    this.#queue.push(expected);
  }

  /** Of the COPY that is under way, and so is the last that was sent. */
  #hasData(): boolean {
    const last = this.#queue.at(-1)?.message;
    return last === "copyData" || last === "copySync";
  }

  /** A COPY has failed, if one is under way: the server answers what it has not read so far. */
  failCopy(): void {
    this.isCopying = false;
    for (let at = this.#at; at < this.#queue.length; at++) {
      const message = this.#queue[at]?.message;
      if (message === "copyEnd") break;
      if (message === "copySync") this.#queue[at] = CLIENT.sync;
    }
  }

  pop(): void {
    this.#at++;
    if (this.#at === this.#queue.length) {
      this.#queue = [];
      this.#at = 0;
    } else if (this.#at > 256 && this.#at * 2 > this.#queue.length) {
      this.#queue = this.#queue.slice(this.#at);
      this.#at = 0;
    }
  }

  /**
   * The head, of the extended protocol, was answered with an error. True: a statement of ours was
   * to be prepared behind it, and was skipped.
   */
  fail(): boolean {
    let hasSkippedOurs = false;
    for (; !this.isEmpty; this.pop()) {
      const { message, whose } = this.#queue[this.#at] ?? {};
      if (message === "sync") break;
      hasSkippedOurs ||= message === "parse" && whose === "own";
    }
    this.isSkipping = this.isEmpty;
    return hasSkippedOurs;
  }

  /**
   * The head has begun to read COPY data: a Sync before the data's end is ignored. The server has
   * done so in front of the first data; behind that the COPY may fail first.
   */
  beginCopy(): void {
    if (this.head?.message !== "execute" && this.head?.message !== "query") return;
    const queue = this.#queue;
    let end = this.#at;
    let data = -1;
    for (; end < queue.length && queue[end]?.message !== "copyEnd"; end++)
      if (data < 0 && queue[end]?.message === "copyData") data = end;
    this.isCopying = end === queue.length;
    // What stays moves up to the data's end, and nothing behind that is touched.
    let to = end;
    for (let at = end - 1; at >= this.#at; at--) {
      const expected = queue[at];
      if (expected === undefined) continue;
      if (expected.message !== "sync") queue[--to] = expected;
      else if (data >= 0 && at > data) queue[--to] = CLIENT.copySync;
    }
    this.#at = to;
  }
}
