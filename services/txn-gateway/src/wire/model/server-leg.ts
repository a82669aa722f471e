// Passes the server's answers on to the client. Answers to our own statements stop here; an answer
// that may reveal a commit waits at a gate. Every CommandComplete is read. A statement that may
// have written counts as a write unless a check found that it wrote nothing.
import { FrameScanner, type FrameSink, type PartRange } from "../frames/scanner.ts";
import {
  PARSED,
  BOUND,
  CLOSED,
  PARAMETERS,
  ROW_DESCRIPTION,
  NO_DATA,
  ROW,
  COMPLETE,
  EMPTY,
  SUSPENDED,
  ERROR,
  READY,
  COPY_IN,
  COPY_OUT,
  COPY_BOTH,
  COPY_DATA,
  NOTICE,
  NOTIFICATION,
  CALLED,
  PARAMETER,
} from "../frames/answers.ts";
import { reportField } from "../frames/build.ts";
import { type Expected } from "./expected.ts";
import { Holds } from "./holds.ts";
import { isFatal, OwnAnswers } from "./own-answers.ts";
import { Progress } from "./progress.ts";
import { Run } from "./run.ts";
import { type SessionState, statusAt, type TransactionStatus } from "./state.ts";
import { fieldsOf, type Text } from "./recorder.ts";
import { readTag, type Tag } from "./tags.ts";

const HEADER_BYTES = 5;
const WHOLE_TYPES = "CZEKSNA123tnsIGHWV";
/** Messages that come at any time, and therefore belong to no message of the client. */
const ANYTIME = new Set([NOTICE, NOTIFICATION, PARAMETER]);
const PROMOTED = "in_hot_standby\0off\0";

/** The name of a cursor or a statement is taken: the server keeps the first. */
const TAKEN = new Set(["42P03", "42P05"]);

/** Statements that cannot commit before they end. */
const ENDS_WHOLE = new Set(["read", "checkable", "data", "commit", "begin", "rollback", "copy"]);

export interface ServerLegOptions {
  readonly state: SessionState;
  readonly levels: () => readonly string[];
  /** Called when a transaction has ended, or a block goes on. */
  readonly onReady: (status: TransactionStatus) => void;
  /** Called when a client's statement has ended. `error`: its SQLSTATE, if it failed. */
  readonly onStatement: (error: string | null) => void;
}

export class ServerLeg implements FrameSink {
  readonly #state: SessionState;
  readonly #options: ServerLegOptions;
  readonly #scanner = new FrameScanner(this, WHOLE_TYPES);
  readonly #run: Run;
  readonly #holds: Holds;
  readonly #progress: Progress;
  readonly #own: OwnAnswers;
  /** The client must not see the frame that is arriving in parts. */
  #isOwnPart = false;
  /** The last ReadyForQuery in front of a fence: the client's, or that of the fence. */
  #lastReady: Buffer | null = null;

  constructor(options: ServerLegOptions) {
    this.#state = options.state;
    this.#options = options;
    this.#run = new Run((bytes) => {
      options.state.client.push(bytes);
    });
    this.#holds = new Holds(options.state, this.#run);
    this.#progress = new Progress(options.state);
    this.#own = new OwnAnswers({ ...options, progress: this.#progress, run: this.#run });
  }

  get isBetweenFrames(): boolean {
    return this.#scanner.isBetweenFrames;
  }

  /** Errors: FrameError. */
  push(chunk: Buffer): void {
    this.#scanner.push(chunk);
    this.#run.flush();
  }

  frame(type: number, bytes: Buffer, start: number, end: number): void {
    const { expected } = this.#state;
    const head = this.#headOf(type);
    if (head?.message === "fence" && this.#fenced(type, bytes, start, end)) return;
    if (head?.whose === "own" && this.#own.take(type, head, bytes, start, end)) return;
    switch (type) {
      case ROW:
      case COPY_DATA:
        this.#holds.row(end - start, head?.isLocking === true);
        if (type === ROW) head?.ran?.row(bytes, start);
        break;
      case PARSED:
        if (this.#popped(head, "parse")) return;
        break;
      case BOUND:
        if (this.#popped(head, "bind")) return;
        break;
      case CLOSED:
        if (this.#popped(head, "close")) return;
        break;
      case ROW_DESCRIPTION:
        this.#described(head, bytes, start);
        break;
      case NO_DATA:
        describe(head, () => []);
        if (this.#popped(head, "describe")) return;
        break;
      case PARAMETERS:
        break;
      case PARAMETER:
        if (this.#state.isReader && bytes.toString("latin1", start + HEADER_BYTES, end) === PROMOTED)
          this.#state.outside.promoted();
        break;
      case COMPLETE:
        if (!this.#complete(bytes, start, end, head)) return;
        break;
      case EMPTY:
        this.#holds.notLast();
        this.#holds.unlock();
        if (head?.message === "execute") expected.pop();
        break;
      case SUSPENDED:
        this.#suspended(head);
        break;
      case COPY_IN:
      case COPY_OUT:
      case COPY_BOTH:
        this.#holds.begun();
        if (type !== COPY_OUT) expected.beginCopy();
        break;
      case CALLED:
        this.#progress.hasWritten = true;
        this.#progress.hasCalled = true;
        break;
      case ERROR:
        this.#error(bytes, start, end, head);
        break;
      case READY:
        if (!this.#ready(bytes, start, head)) return;
        break;
      case NOTICE:
        this.#noticed(head);
        break;
      case NOTIFICATION:
        this.#notified();
        break;
    }
    if (type !== ROW) this.#holds.grown(end - start);
    this.#run.add(bytes, start, end);
  }

  /** The client's message that an answer of this type belongs to. */
  #headOf(type: number): Expected | undefined {
    const { expected } = this.#state;
    const { head } = expected;
    if (head?.isUnclear !== true || type === READY || ANYTIME.has(type)) return head;
    expected.dropUnclear();
    return expected.head;
  }

  wantsWhole(): boolean {
    const { head } = this.#state.expected;
    return head?.whose === "own" || head?.ran != null || head?.describes != null;
  }

  part(type: number, bytes: Buffer, { start, end, isFirst }: PartRange): void {
    const { head } = this.#state.expected;
    if (isFirst) this.#isOwnPart = head?.whose === "own" && type !== PARAMETER;
    if (this.#isOwnPart) {
      if (type !== NOTICE) this.#state.outside.broken("an answer to the gateway is too long");
      return;
    }
    if (isFirst) {
      if (type !== PARAMETER && type !== NOTICE) head?.ran?.spoil("long_result");
      if (type === ROW || type === COPY_DATA) this.#holds.row(end - start, head?.isLocking === true);
      // Too long to be read, so it counts as any error.
      else if (type === ERROR) this.#error(bytes, start, end, head);
      else if (type === NOTICE) this.#noticed(head);
      else if (type === ROW_DESCRIPTION) {
        this.#holds.notLast();
        if (head?.message === "describe") this.#state.expected.pop();
      }
    }
    // A row counts itself.
    if (!isFirst || (type !== ROW && type !== COPY_DATA)) this.#holds.grown(end - start);
    this.#run.add(bytes, start, end);
  }

  #described(head: Expected | undefined, bytes: Buffer, start: number): void {
    this.#holds.begun();
    describe(head, () => fieldsOf(bytes, start));
    if (head?.message === "describe") this.#state.expected.pop();
  }

  /** True: the client did not ask for this answer. */
  #popped(head: Expected | undefined, message: Expected["message"]): boolean {
    if (head?.message !== message) {
      this.#unexpected(message, head);
      return false;
    }
    this.#state.expected.pop();
    return head.whose === "quiet";
  }

  #unexpected(what: string, head: Expected | undefined): void {
    this.#state.outside.broken(`the server answered ${what} to ${head?.message ?? "nothing"}`);
  }

  #noticed(head: Expected | undefined): void {
    if (this.#progress.hasCommitted || mayCommitInside(head)) this.#holds.shown();
  }

  /**
   * The server sends notifications between transactions. If the session's transaction has written,
   * it has committed, and the notification may be its own.
   */
  #notified(): void {
    const progress = this.#progress;
    if (progress.hasWritten && !progress.isInBlock && !this.#holds.hasMaybeLast) {
      this.#holds.hold(true);
      progress.hasWritten = false;
      progress.hasCommitted = true;
    } else this.#holds.shown();
  }

  /**
   * A portal has returned as many rows as the client asked for. A statement that writes has written
   * everything by now and commits with its transaction. A statement without a check may have, too.
   */
  #suspended(head: Expected | undefined): void {
    const state = this.#state;
    const progress = this.#progress;
    this.#holds.begun();
    this.#holds.unlock();
    this.#options.onStatement(null);
    state.isReadOnlyCommit = null;
    if (head?.changes?.when === "always") state.doubt(head.changes);
    progress.hasWritten = true;
    if (head?.kind === "data" || mayCommitInside(head)) state.hasWrittenInBlock = true;
    if (!progress.isInBlock && mayCommitInside(head)) {
      this.#holds.hold(true);
      progress.hasCommitted = true;
    } else this.#holds.shown();
    if (head?.message === "execute") state.expected.pop();
  }

  /** False: the client must not see the answer. */
  #complete(bytes: Buffer, start: number, end: number, head: Expected | undefined): boolean {
    const state = this.#state;
    const progress = this.#progress;
    const isExecute = head?.message === "execute";
    if (!isExecute && head?.message !== "query") this.#unexpected("a result", head);
    this.#holds.begun();
    state.expected.endCopy();
    const tagText = bytes.toString("latin1", start + HEADER_BYTES, end - 1);
    const tag = readTag(tagText);
    head?.ran?.completed(tagText);
    if (this.#failedBefore(tag, head)) return false;
    if (tag.dropsStatements) state.forgetPrepared();
    // Whether the statement is in a block is known only at the next ReadyForQuery.
    if (tag.isWrite) state.hasWrittenInBlock = true;
    if (tag.effect !== "commit") state.isReadOnlyCommit = null;
    if (tag.changesSettings) {
      state.isStale = true;
      progress.hasSet = true;
    }
    const isCheck = head?.whose === "quiet";
    this.#holds.completed(tag, head?.isLocking === true);
    const change = head?.changes;
    if (change != null && (change.when === "always" || tag.changesSettings)) state.doubt(change);
    switch (tag.effect) {
      case "none":
        // The transaction of a Query has ended before its last statement's tag arrives.
        if (progress.hasWritten && !progress.isInBlock && !isExecute) this.#holds.mayBeLast();
        break;
      case "begin":
        progress.begin();
        break;
      case "end":
        // If it was only to a savepoint, the next ReadyForQuery shows that the block goes on.
        progress.isInBlock = false;
        state.rolledBack();
        if (progress.hasSet) state.isStale = true;
        state.reverted(false);
        break;
      case "commit":
        if (state.isReadOnlyCommit !== true) this.#holds.hold(true);
        state.isReadOnlyCommit = null;
        progress.isInBlock = false;
        progress.hasWritten = false;
        progress.hasCommitted = true;
        progress.endBlock();
        break;
      case "data":
      case "alone":
        this.#options.onStatement(null);
        progress.hasWritten = true;
        if (tag.mayCallSettings && !progress.isInBlock) progress.hasCalled = true;
        if (progress.isInBlock || isCheck) break;
        if (!isExecute) this.#holds.mayBeLast();
        else if (tag.effect === "alone") {
          this.#holds.hold(true);
          progress.hasCommitted = true;
        }
        break;
    }
    if (isExecute) state.expected.pop();
    if (!isCheck) return true;
    // Held back, because a simple Query's result comes after the notices and errors of its COMMIT.
    progress.result = bytes.subarray(start, end);
    return false;
  }

  /** A statement of ours failed before this COMMIT, so the transaction is rolled back. */
  #failedBefore(tag: Tag, head: Expected | undefined): boolean {
    const { failure } = this.#state;
    if (failure === null || head?.kind !== "commit" || tag.effect !== "end") return false;
    this.#state.failure = null;
    this.#run.flush();
    this.#state.sendFailure(failure);
    this.#progress.isInBlock = false;
    this.#progress.endBlock();
    return true;
  }

  #error(bytes: Buffer, start: number, end: number, head: Expected | undefined): void {
    const { expected } = this.#state;
    this.#progress.result = null;
    this.#state.isReadOnlyCommit = null;
    // A session that ends during COMMIT leaves its outcome unknown.
    if (!isFatal(bytes, start, end)) this.#state.rolledBack();
    // It may have changed settings and committed before it failed.
    if (head?.changes != null) this.#state.doubt(head.changes);
    const sqlstate = reportField(bytes, start, end, "C");
    this.#holds.failed(sqlstate);
    if (TAKEN.has(sqlstate)) this.#state.recorder?.unread();
    this.#options.onStatement(sqlstate);
    // The transaction is rolled back, but a procedure may have committed before that.
    this.#progress.hasWritten = !this.#progress.isInBlock && mayCommitInside(head);
    expected.failCopy();
    if (head === undefined || head.message === "sync" || head.message === "query" || head.message === "call")
      return;
    if (expected.fail()) this.#state.forgetPrepared();
  }

  /** False: the client must not see the message. */
  #ready(bytes: Buffer, start: number, head: Expected | undefined): boolean {
    const state = this.#state;
    const status = statusAt(bytes, start);
    if (head?.message !== "sync" && head?.message !== "query" && head?.message !== "call") {
      this.#unexpected("ReadyForQuery", head);
      return false;
    }
    state.expected.pop();
    this.#ended(status, head.mayLoseId === true);
    return true;
  }

  /** The client's ReadyForQuery follows. */
  #ended(status: TransactionStatus, mayLoseId: boolean): void {
    const state = this.#state;
    const progress = this.#progress;
    state.status = status;
    if (status === "I") state.expected.isUnsynced = false;
    const mustHold = status === "I" && progress.hasWritten;
    this.#holds.ready(mustHold);
    if (progress.result !== null) {
      this.#run.flush();
      state.client.push(progress.result);
      progress.result = null;
    }
    if (status === "I" && !mustHold) state.rolledBack();
    this.#holds.ended(status === "I", mayLoseId);
    progress.ready();
    this.#options.onReady(status);
  }

  /**
   * The server answers a Sync in front of a fence, or has reached it. Each ReadyForQuery waits for
   * what follows, because the last one belongs to the fence. True: the frame is not passed on now.
   */
  #fenced(type: number, bytes: Buffer, start: number, end: number): boolean {
    if (type !== READY && type !== CLOSED) return false;
    const { expected } = this.#state;
    const last = this.#lastReady;
    this.#lastReady = null;
    if (type === CLOSED) {
      if (expected.endFence()) this.#state.isDiscarding = true;
      return false;
    }
    if (last !== null) {
      expected.answerBeforeFence();
      this.#ended(statusAt(last, 0), false);
      this.#run.add(last, 0, last.length);
    }
    this.#lastReady = Buffer.from(bytes.subarray(start, end));
    return true;
  }
}

/** Notes the columns of a result that is recorded. */
function describe(head: Expected | undefined, fields: () => NonNullable<Text["fields"]>): void {
  const text = head?.message === "query" ? head.ran?.text : head?.describes;
  if (text != null) text.fields = fields();
}

function mayCommitInside(head: Expected | undefined): boolean {
  return head?.kind !== undefined && !ENDS_WHOLE.has(head.kind);
}
