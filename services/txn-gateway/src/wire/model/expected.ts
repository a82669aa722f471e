// The answers that the server owes, message by message. By PostgreSQL's rules the server skips
// everything from an error to the next Sync, and ignores Sync while it reads COPY data.
import { type Change } from "./doubts.ts";
import { type Kind } from "./statement.ts";

/**
 * Messages that were sent. `flush`, `copyData` and `copyEnd` have no answer. Nor has `copySync`, a
 * Sync among the COPY data, unless the COPY fails before it.
 */
type Message = "parse" | "bind" | "close" | "describe" | "execute" | "sync" | "query" | "call" | Unanswered;
type Unanswered = "flush" | "copyData" | "copyEnd" | "copySync";
const UNANSWERED: ReadonlySet<Message> = new Set<Unanswered>(["flush", "copyData", "copyEnd", "copySync"]);
/** The server keeps the answers to the other messages in its buffer until it reads one of these. */
const SENDS: ReadonlySet<Message> = new Set<Message>(["sync", "query", "call", "flush"]);

/** `quiet`: part of a Query sent in another form; the client gets only rows and errors. */
type Whose = "client" | "quiet" | "own";

export interface Expected {
  readonly message: Message;
  readonly whose: Whose;
  /** Set for `query` and `execute`. */
  readonly kind?: Kind;
  readonly isLocking?: boolean;
  readonly changes?: Change | null;
  /** Set for `query` and `sync`: an id that is set in the Query or the batch may come too late. */
  readonly mayLoseId?: boolean;
  /** Set for an own `execute`. */
  readonly purpose?: Purpose;
}

/**
 * `check`: before the Sync of a batch. `settings`, `commit`: alone, before the client's next
 * message. `awaited`: before an extended COMMIT that waits for the answer. `inline`: before one
 * that is sent with it. `probe`: asks what the role can do.
 */
export type Purpose = "check" | "settings" | "commit" | "awaited" | "inline" | "probe";

export const CLIENT = {
  parse: { message: "parse", whose: "client" },
  bind: { message: "bind", whose: "client" },
  close: { message: "close", whose: "client" },
  describe: { message: "describe", whose: "client" },
  sync: { message: "sync", whose: "client" },
  call: { message: "call", whose: "client" },
  flush: { message: "flush", whose: "client" },
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
  flush: { message: "flush", whose: "own" },
} as const satisfies Record<string, Expected>;

export class ExpectedAnswers {
  #queue: Expected[] = [];
  #at = 0;
  /** The server ignores everything up to the next Sync. */
  isSkipping = false;
  /** The server reads COPY data and ignores Sync. */
  isCopying = false;
  /**
   * The server has executed a statement since the last Sync that it answered. Its transaction is
   * open outside a block, too: a Query does not end it.
   */
  isUnsynced = false;
  /** Messages from the head on that make the server send its answers. */
  #sending = 0;
  /** The head's COPY reads data that is sent, or still reads it. */
  #hasCopy = false;

  /** The server owes no answer. COPY data that it does not read needs none. */
  get isEmpty(): boolean {
    return this.head === undefined;
  }

  /** The server answers nothing more before it gets another message. */
  get isWaiting(): boolean {
    return this.isEmpty || this.isSkipping || this.isCopying || this.#sending === 0;
  }

  /** The message that the next answer belongs to. */
  get head(): Expected | undefined {
    for (;;) {
      const head = this.#queue[this.#at];
      if (head === undefined || !UNANSWERED.has(head.message)) return head;
      this.pop();
    }
  }

  /** The purpose of our statement that the head belongs to. Its Parse and Bind do not carry it. */
  ownPurpose(): Purpose | undefined {
    return this.#next(({ purpose }) => purpose !== undefined)?.purpose;
  }

  /** The Sync up to which the server skips if the head fails. */
  nextSync(): Expected | undefined {
    return this.#next(({ message }) => message === "sync");
  }

  /** Searches from the head on; messages before it are answered. */
  #next(fits: (expected: Expected) => boolean): Expected | undefined {
    for (let at = this.#at; at < this.#queue.length; at++) {
      const expected = this.#queue[at];
      if (expected !== undefined && fits(expected)) return expected;
    }
    return undefined;
  }

  /** Records that the message goes to the server now. */
  push(expected: Expected): void {
    const { message } = expected;
    if (message === "sync") {
      if (this.isCopying) {
        if (this.#hasData()) this.#queue.push(CLIENT.copySync);
        return;
      }
      this.isSkipping = false;
    } else if (this.isSkipping) return;
    if (message === "flush" && this.isCopying) return;
    const isSame = this.#queue.at(-1)?.message === message;
    if (isSame && (message === "copyData" || message === "flush")) return;
    if (message === "copyEnd") this.isCopying = false;
    if (UNANSWERED.has(message) && this.isEmpty) return;
    this.#queue.push(expected);
    if (SENDS.has(message)) this.#sending++;
  }

  /** True when the message sent last belongs to the data of the current COPY. */
  #hasData(): boolean {
    const last = this.#queue.at(-1)?.message;
    return last === "copyData" || last === "copySync";
  }

  /** A COPY that was running has failed: the server answers each Sync that it has yet to read. */
  failCopy(): void {
    this.isCopying = false;
    this.#hasCopy = false;
    for (let at = this.#at; at < this.#queue.length; at++) {
      const message = this.#queue[at]?.message;
      if (message === "copyEnd") break;
      if (message !== "copySync") continue;
      this.#queue[at] = CLIENT.sync;
      this.#sending++;
    }
  }

  /** A statement of the head has ended. If it was a COPY, only data of the next one is left. */
  endCopy(): void {
    const { head } = this;
    if (!this.#hasCopy || head === undefined) return;
    this.#hasCopy = false;
    const queue = this.#queue;
    let end = this.#at + 1;
    while (queue[end]?.message === "copyData" || queue[end]?.message === "copySync") end++;
    if (queue[end]?.message !== "copyEnd") return;
    queue[end] = head;
    this.#at = end;
  }

  pop(): void {
    const popped = this.#queue[this.#at];
    if (popped !== undefined && SENDS.has(popped.message)) this.#sending--;
    if (popped?.message === "execute") this.isUnsynced = true;
    else if (popped?.message === "sync") this.isUnsynced = false;
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
   * The server answered the head, an extended message, with an error. True when the server
   * therefore skipped a Parse of ours.
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
   * The head has begun to read COPY data, so the server ignores each Sync and Flush up to the end
   * of the data. It answers one after the first data if the COPY fails before it.
   */
  beginCopy(): void {
    if (this.head?.message !== "execute" && this.head?.message !== "query") return;
    this.#hasCopy = true;
    const queue = this.#queue;
    let end = this.#at;
    let data = -1;
    for (; end < queue.length && queue[end]?.message !== "copyEnd"; end++)
      if (data < 0 && queue[end]?.message === "copyData") data = end;
    this.isCopying = end === queue.length;
    // Moves the remaining messages up to the end of the data and leaves all later ones in place.
    let to = end;
    for (let at = end - 1; at >= this.#at; at--) {
      const expected = queue[at];
      if (expected === undefined) continue;
      if (expected.message !== "sync" && expected.message !== "flush") {
        queue[--to] = expected;
        continue;
      }
      this.#sending--;
      if (expected.message === "sync" && data >= 0 && at > data) queue[--to] = CLIENT.copySync;
    }
    this.#at = to;
  }
}
