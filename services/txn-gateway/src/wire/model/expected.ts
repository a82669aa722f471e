// The answers that the server owes, message by message. By PostgreSQL's rules the server skips
// everything from an error to the next Sync, and ignores Sync while it reads COPY data.
import { type Change } from "./doubts.ts";
import { type Ran, type Text } from "./recorder.ts";
import { type Kind } from "./statement.ts";

/**
 * Messages that were sent. `flush`, `copyData` and `copyEnd` have no answer. Nor has `copySync`, a
 * Sync among the COPY data, unless the COPY fails before it. `fence` stands for what the gateway
 * sends to learn how many of these Syncs are answered.
 */
type Message = Extended | "sync" | "fence" | "query" | "call" | Unanswered;
type Extended = "parse" | "bind" | "close" | "describe" | "execute";
type Unanswered = "flush" | "copyData" | "copyEnd" | "copySync";
const UNANSWERED: ReadonlySet<Message> = new Set<Unanswered>(["flush", "copyData", "copyEnd", "copySync"]);
/** The server keeps the answers to the other messages in its buffer until it reads one of these. */
const SENDS: ReadonlySet<Message> = new Set<Message>(["sync", "fence", "query", "call", "flush"]);

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
  /**
   * Set for a `copyEnd` behind a Sync among its data: how its COPY ends decides whether the server
   * skips what follows. Set for a Sync that the server may have ignored.
   */
  readonly isUnclear?: boolean;
  /** Set for `query` and `execute`: the statement, if it is recorded. */
  readonly ran?: Ran | null;
  /** Set for `describe`: whose columns the answer shows. */
  readonly describes?: Text | null;
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
  unclearEnd: { message: "copyEnd", whose: "client", isUnclear: true },
  unclearSync: { message: "sync", whose: "client", isUnclear: true },
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
  fence: { message: "fence", whose: "own" },
} as const satisfies Record<string, Expected>;

const isSending = ({ message, isUnclear }: Expected): boolean => SENDS.has(message) && isUnclear !== true;

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
  /** An extended COPY has failed, and the server has answered no Sync since then. */
  #isUnsyncedCopy = false;

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
    // Any other message than data ends the COPY, or reaches the server when it has failed.
    if (message !== "copyData") this.isCopying = false;
    if (UNANSWERED.has(message) && this.isEmpty) return;
    const isUnclear = message === "copyEnd" && this.#endsSyncs();
    this.#queue.push(isUnclear ? CLIENT.unclearEnd : expected);
    if (isSending(expected)) this.#sending++;
  }

  /** All of the text of the Query that was sent last is known, and it may change settings. */
  amendQuery(changes: Change | null, mayLoseId: boolean): void {
    const last = this.#queue.at(-1);
    if (!this.isEmpty && last?.message === "query")
      this.#queue[this.#queue.length - 1] = { ...last, changes, mayLoseId };
  }

  /** True when a Sync was sent behind the first data of the COPY that ends now. */
  #endsSyncs(): boolean {
    let hasSync = false;
    for (let at = this.#queue.length - 1; at >= this.#at; at--) {
      const message = this.#queue[at]?.message;
      if (message === "copyData" && hasSync) return true;
      if (message === "sync" || message === "copySync") hasSync = true;
      else if (message !== "copyData" && message !== "flush") return false;
    }
    return false;
  }

  /** What the server does with the next message depends on an answer that is not here yet. */
  get isUnclear(): boolean {
    return !this.isEmpty && this.#queue.at(-1)?.isUnclear === true;
  }

  /** A COPY has failed, and it is not known which Syncs among its data are answered. */
  get hasUnclearSync(): boolean {
    return this.isUnclear && this.#queue.at(-1)?.message === "sync";
  }

  /** True when the message sent last belongs to the data of the current COPY. */
  #hasData(): boolean {
    const last = this.#queue.at(-1)?.message;
    return last === "copyData" || last === "copySync";
  }

  /**
   * A COPY that was running has failed. Of the Syncs among its data the server answers those that
   * it had yet to read. If there was none, it skips what is behind an extended COPY.
   */
  failCopy(): void {
    this.isCopying = false;
    if (!this.#hasCopy) return;
    this.#hasCopy = false;
    const queue = this.#queue;
    let last = -1;
    let hasData = false;
    for (let at = this.#at + 1; at < queue.length; at++) {
      const message = queue[at]?.message;
      if (message === "copySync") {
        queue[at] = CLIENT.unclearSync;
        last = at;
      } else if (message === "copyData") hasData = true;
      else if (hasData) break;
    }
    if (last < 0) return;
    this.#isUnsyncedCopy = this.head?.message === "execute";
    this.#dropUnanswered(last + 1);
  }

  /** Drops what has no answer, if there is nothing else from here on. */
  #dropUnanswered(from: number): void {
    const queue = this.#queue;
    let sending = 0;
    for (let at = from; at < queue.length; at++) {
      const expected = queue[at];
      if (expected === undefined || !UNANSWERED.has(expected.message)) return;
      if (isSending(expected)) sending++;
    }
    this.#sending -= sending;
    queue.length = from;
  }

  /** The fence goes to the server. It stands for the Syncs that are unclear. */
  pushFence(): void {
    const queue = this.#queue;
    while (queue.length > this.#at) {
      const last = queue.at(-1);
      // Data may stand between them.
      if (last?.isUnclear !== true && last?.message !== "copyData") break;
      queue.pop();
    }
    for (const expected of [OWN.fence, OWN.close, OWN.sync]) this.push(expected);
  }

  /** The server has answered a Sync in front of the fence. */
  answerBeforeFence(): void {
    this.#isUnsyncedCopy = false;
  }

  /**
   * The server has reached the fence. True: it was skipping up to there, so the client's messages
   * up to its next Sync do not count.
   */
  endFence(): boolean {
    this.pop();
    const wasSkipping = this.#isUnsyncedCopy;
    this.#isUnsyncedCopy = false;
    return wasSkipping;
  }

  /** The server has answered what is behind the unclear Syncs, so it answers none of them. */
  dropUnclear(): void {
    while (this.head?.isUnclear === true) this.pop();
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
    if (popped !== undefined && isSending(popped)) this.#sending--;
    if (popped?.message === "execute") this.isUnsynced = true;
    else if (popped?.message === "sync") {
      this.isUnsynced = false;
      this.#isUnsyncedCopy = false;
    }
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
    for (; end < queue.length; end++) {
      const message = queue[end]?.message;
      if (message === "copyEnd") break;
      if (message === "copyData" && data < 0) data = end;
      // Any other message behind data reaches the server when the COPY has failed.
      else if (data >= 0 && message !== "copyData" && message !== "sync" && message !== "flush") break;
    }
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
