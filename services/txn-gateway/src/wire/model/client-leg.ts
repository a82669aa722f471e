// Passes the client's messages on to the server, unchanged but for two cases. A simple Query that
// reads is sent as extended messages, so that a check can follow it. The gateway puts its own
// checks before a COMMIT and before a Sync that ends reads.
import { FrameError, FrameScanner, type FrameSink, type PartRange } from "../frames/scanner.ts";
import {
  bind,
  closeStatement,
  describePortal,
  errorResponse,
  execute,
  message,
  PARSE_TAIL,
  parseHeader,
  type Report,
  SYNC,
} from "../frames/build.ts";
import { Batch } from "./batch.ts";
import { CommitSteps } from "./commit-steps.ts";
import { CLIENT, type Expected, QUIET } from "./expected.ts";
import { Names } from "./names.ts";
import { Questions } from "./questions.ts";
import { ReadStops } from "./read-stops.ts";
import { type Ran } from "./recorder.ts";
import { Run } from "./run.ts";
import { type Admission, type Failure, type SessionState } from "./state.ts";
import { type StatementInfo, statementInfo, UNSEEN_STATEMENT } from "./statement.ts";

const HEADER_BYTES = 5;
/** These messages are read in full. Only a Sync can end a batch. */
const WHOLE_TYPES = "QPBDECS";

const [QUERY, PARSE, BIND, DESCRIBE, EXECUTE, CLOSE] = [..."QPBDEC"].map((type) => type.charCodeAt(0));
const [SYNC_TYPE, CALL, COPY_DATA, COPY_DONE, COPY_FAIL, FLUSH_TYPE, TERMINATE] = [..."SFdcfHX"].map((type) =>
  type.charCodeAt(0),
);

const EXECUTE_TYPE = "E".charCodeAt(0);
/** These messages begin a new unit of work when no batch is open. */
const UNIT_TYPES = new Set([..."QPBDECF"].map((type) => type.charCodeAt(0)));
const ID_SYNC: Expected = { ...CLIENT.sync, mayLoseId: true };
const READY_IDLE = message("Z", "I");
const READY_FAILED = message("Z", "E");

interface Deferred {
  readonly type: number;
  readonly bytes: Buffer;
  readonly range: PartRange | null;
}

const NO_WRITES: Report = {
  severity: "ERROR",
  code: "25006",
  message: "highwater.reads is durable, and this transaction writes: what it has written is not durable yet",
  hint: "Use SET LOCAL highwater.reads = 'wait' or 'committed' in a transaction that writes.",
};
const READ_TAIL = Buffer.concat([PARSE_TAIL, bind("", ""), describePortal(""), execute("")]);
const UNNAMED_CLOSE = closeStatement("");

export class ClientLeg implements FrameSink {
  readonly #state: SessionState;
  readonly #scanner = new FrameScanner(this, WHOLE_TYPES);
  readonly #run: Run;
  readonly #commitSteps: CommitSteps;
  readonly #questions: Questions;
  readonly #readStops: ReadStops;
  readonly #names = new Names();
  #batch = Batch.closed();
  /**
   * Unsent bytes from the frame with which the client broke the protocol. No frames can be read
   * from there on. Null: the client has kept the protocol.
   */
  #broken: Buffer[] | null = null;
  /** Messages that wait until the server has answered; null when none has to wait. */
  #deferred: Deferred[] | null = null;
  /** The messages wait for the admission of a write instead. */
  #isSlowed = false;
  /** The block of a Query that begins with COMMIT, and goes on behind it, has been checked. */
  #isCommitChecked = false;
  /** Drops the remaining parts of the current frame. */
  #isRefusing = false;
  /** A Query that was sent as extended messages may have left an unnamed statement. */
  #hasUnnamed = false;
  /** The client has sent Terminate. */
  isOver = false;

  constructor(state: SessionState) {
    this.#state = state;
    this.#run = new Run((bytes) => {
      state.outside.toServer(bytes);
    });
    this.#commitSteps = new CommitSteps(state);
    this.#questions = new Questions(state);
    this.#readStops = new ReadStops(state);
  }

  push(chunk: Buffer): void {
    if (this.#broken !== null) {
      this.#broken.push(chunk);
      this.#sendBroken();
      return;
    }
    try {
      this.#scanner.push(chunk);
      this.#run.flush();
    } catch (cause) {
      if (!(cause instanceof FrameError)) throw cause;
      // Everything from here on goes to the server as it is. The server answers the messages before
      // it and then ends the session, as it does for every frame that the scanner refuses.
      this.#broken = [cause.rest];
      this.#run.flush();
      this.#sendBroken();
    }
  }

  /** Sends the bytes only after the deferred messages. */
  #sendBroken(): void {
    if (this.#deferred !== null) return;
    for (const bytes of this.#broken?.splice(0) ?? []) this.#state.outside.toServer(bytes);
  }

  /** The client's messages wait for the server. */
  get isBlocked(): boolean {
    return this.#deferred !== null;
  }

  /** The server has answered: sends the deferred messages. */
  resume(): void {
    const { expected } = this.#state;
    while (this.#deferred !== null && !this.#isSlowed && expected.isWaiting) {
      this.#sendDeferred(this.#deferred);
      if (this.#state.isAwaiting || this.#state.wantsLook) break;
    }
    this.#sendBroken();
  }

  /** The write is admitted: sends it, even if the server still owes answers of its batch. */
  admitted(): void {
    this.#isSlowed = false;
    if (this.#deferred !== null) this.#sendDeferred(this.#deferred);
    this.resume();
  }

  #sendDeferred(waiting: readonly Deferred[]): void {
    this.#deferred = null;
    for (const [at, { type, bytes, range }] of waiting.entries()) {
      if (range === null) this.frame(type, bytes, 0, bytes.length);
      else this.part(type, bytes, range);
      if (!this.isBlocked) continue;
      // The later messages wait, too: a long pipeline stops before each of its units.
      this.#deferred = [...(this.#deferred ?? []), ...waiting.slice(at + 1)];
      break;
    }
    this.#run.flush();
  }

  /** Defers this frame and all later ones until the server has answered everything. Always true. */
  #defer(type: number, bytes: Buffer, start: number, end: number): true {
    this.#run.flush();
    this.#deferred ??= [];
    this.#deferred.push({ type, bytes: bytes.subarray(start, end), range: null });
    return true;
  }

  /** A new unit has to wait for an idle server where the decision on its receipt needs one. */
  #mustWait(type: number): boolean {
    const { expected, wantsReceipts, mayHaveSet, doubts } = this.#state;
    if (expected.isUnclear) {
      this.#run.flush();
      this.#state.clarify();
      return true;
    }
    if (this.#batch.isOpen || expected.isWaiting) return false;
    if (!UNIT_TYPES.has(type)) return false;
    return wantsReceipts || this.#questions.isReading || mayHaveSet || !doubts.isEmpty || doubts.mayRevert;
  }

  #isUnit(type: number): boolean {
    return !this.#batch.isOpen && UNIT_TYPES.has(type);
  }

  /** The settings are read behind the batch's first messages. True: the message waits. */
  #asksLate(type: number, takesSnapshot: () => boolean): boolean {
    if (!this.#questions.isOwed || !this.#batch.isOpen || !UNIT_TYPES.has(type)) return false;
    if (!takesSnapshot()) return false;
    this.#run.flush();
    return this.#questions.readLate();
  }

  /** On the read port. `refused`: the message has got the error. */
  #readStop(type: number, takesSnapshot: () => boolean): "pass" | "wait" | "refused" {
    if (!this.#state.isReader) return "pass";
    const isFirst = !this.#batch.isOpen;
    if (!UNIT_TYPES.has(type) || !this.#readStops.mayStop(isFirst) || !takesSnapshot()) return "pass";
    this.#run.flush();
    const next = this.#readStops.next(isFirst);
    if (typeof next === "string") return next;
    if (isFirst) this.#refuse(type, errorResponse(next.refusal));
    // The error has to undo what the batch has done before.
    else this.#failBefore(next.refusal);
    return isFirst ? "refused" : "pass";
  }

  /** Answers the unit with the error, instead of the server. */
  #refuse(type: number, error: Buffer): void {
    const { client, status } = this.#state;
    client.push(error);
    if (type === QUERY || type === CALL) client.push(status === "E" ? READY_FAILED : READY_IDLE);
    else this.#state.isDiscarding = true;
  }

  /**
   * Before the client's message: asks for the settings if they may have changed. True: they could
   * not be read, and the message has got the error.
   */
  #isUnreadable(type: number, bytes: Buffer, start: number, end: number): boolean {
    const { isStale, status } = this.#state;
    if (this.#isUnit(type)) {
      const error = this.#questions.takeError();
      if (error !== null) {
        this.#isCommitChecked = false;
        const isCommit =
          type === QUERY && statementInfo(bytes, start + HEADER_BYTES, end - 1).kind === "commit";
        if (isCommit && status === "E") this.#endBlock({ bytes: error, used: null });
        else this.#refuse(type, error);
        return true;
      }
      const mayAsk = isStale && this.#questions.canRead;
      this.#questions.isOwed =
        mayAsk && status === "T" && !this.#names.takesSnapshot(type, bytes, start, end);
      if (mayAsk && !this.#questions.isOwed) {
        this.#run.flush();
        this.#questions.readSettings();
      }
    }
    this.#questions.seeIdle();
    return false;
  }

  frame(type: number, bytes: Buffer, start: number, end: number): void {
    if (this.#deferred !== null) {
      this.#defer(type, bytes, start, end);
      return;
    }
    if (this.#state.isDiscarding) {
      if (type !== SYNC_TYPE && type !== TERMINATE) return;
      this.#state.isDiscarding = false;
    }
    if (this.#isUnreadable(type, bytes, start, end)) return;
    const takes = (): boolean => this.#names.takesSnapshot(type, bytes, start, end);
    if (this.#mustWait(type) || this.#asksLate(type, takes)) {
      this.#defer(type, bytes, start, end);
      return;
    }
    const next = this.#readStop(type, takes);
    if (next === "wait") this.#defer(type, bytes, start, end);
    if (next !== "pass") return;
    this.#closeUnnamed(type);
    switch (type) {
      case QUERY:
        this.#query(bytes, start, end);
        return;
      case PARSE:
        this.#names.parsed(bytes, start, end);
        this.#state.recorder?.parsed(bytes, start, end);
        this.#begin(CLIENT.parse);
        break;
      case BIND:
        this.#names.bound(bytes, start, end);
        this.#state.recorder?.bound(bytes, start);
        this.#begin(CLIENT.bind);
        break;
      case DESCRIBE:
        this.#describe(bytes, start);
        break;
      case EXECUTE:
        this.#execute(bytes, start, end);
        return;
      case CLOSE:
        this.#names.closed(bytes, start, end);
        this.#state.recorder?.closed(bytes, start);
        this.#begin(CLIENT.close);
        break;
      case SYNC_TYPE:
        this.#sync(bytes, start, end);
        return;
      default:
        this.#other(type);
    }
    this.#run.add(bytes, start, end);
  }

  part(type: number, bytes: Buffer, range: PartRange): void {
    const { start, end, isFirst } = range;
    if (this.#deferred === null && isFirst && !this.#state.isDiscarding) {
      this.#isRefusing = this.#isUnreadable(type, bytes, start, end);
      if (!this.#isRefusing) this.#beginPart(type);
    }
    if (this.#deferred !== null) {
      const part = { start: 0, end: end - start, isFirst, isLast: range.isLast };
      this.#deferred.push({ type, bytes: bytes.subarray(start, end), range: part });
      return;
    }
    if (this.#isRefusing) this.#isRefusing = !range.isLast;
    else if (!this.#state.isDiscarding) this.#pass(type, bytes, range);
  }

  #beginPart(type: number): void {
    const takes = (): boolean => true;
    const waits = this.#mustWait(type) || this.#asksLate(type, takes);
    const next = waits ? "wait" : this.#readStop(type, takes);
    if (next === "wait") this.#deferred = [];
    this.#isRefusing = next === "refused";
  }

  #pass(type: number, bytes: Buffer, range: PartRange): void {
    const { start, end, isFirst } = range;
    if (isFirst) {
      this.#closeUnnamed(type);
      // Only a part of the text is here, so the statement counts as unknown.
      if (type === QUERY) this.#expectQuery(UNSEEN_STATEMENT, null);
      else if (type === PARSE) {
        this.#state.recorder?.parsedUnread(bytes, start);
        this.#begin(CLIENT.parse);
      } else if (type === BIND) {
        this.#names.bound(bytes, start, end);
        this.#state.recorder?.boundUnread(bytes, start);
        this.#begin(CLIENT.bind);
      } else if (type === DESCRIBE) this.#begin(CLIENT.describe);
      else if (type === CLOSE) this.#begin(CLIENT.close);
      else if (type === EXECUTE) this.#expectExecute(UNSEEN_STATEMENT, null);
      else this.#other(type);
    }
    if (type === QUERY) {
      const found = this.#names.queryPart(bytes, range);
      if (found !== null) this.#state.expected.amendQuery(found.changes, found.namesId && found.isSeveral);
    } else if (type === PARSE) this.#names.parsePart(bytes, range);
    this.#run.add(bytes, start, end);
  }

  #other(type: number): void {
    const { expected } = this.#state;
    if (type === COPY_DATA) expected.push(CLIENT.copyData);
    else if (type === CALL) {
      this.#state.recorder?.incomplete();
      expected.push(CLIENT.call);
    } else if (type === COPY_DONE || type === COPY_FAIL) expected.push(CLIENT.copyEnd);
    else if (type === FLUSH_TYPE) expected.push(CLIENT.flush);
    else if (type === TERMINATE) this.isOver = true;
  }

  #begin(expected: Expected): void {
    const state = this.#state;
    if (!this.#batch.isOpen) {
      this.#batch = this.#current;
      state.recorder?.unit(state.status !== "I");
    }
    state.expected.push(expected);
  }

  /** The open batch, or the one that the next extended message opens. */
  get #current(): Batch {
    const { expected, status } = this.#state;
    return this.#batch.isOpen ? this.#batch : new Batch(expected.isEmpty, status);
  }

  #query(bytes: Buffer, start: number, end: number): void {
    const { expected, status } = this.#state;
    const info = statementInfo(bytes, start + HEADER_BYTES, end - 1);
    // Only an idle server certainly runs the next message. After an error without a Sync it skips
    // the Query, which our Sync would end; during a COPY it takes our messages for data. Without a
    // Sync, our own would end the client's transaction.
    const isIdle = expected.isEmpty && !expected.isSkipping && !expected.isUnsynced && !this.#batch.isOpen;
    const admission = isIdle ? this.#admit(info) : "now";
    if (admission === "later") {
      this.#defer(QUERY ?? 0, bytes, start, end);
      return;
    }
    if (admission !== "now") {
      this.#run.flush();
      this.#state.outside.toServer(this.#state.own.error(admission).query);
      expected.push({ message: "query", whose: "client", kind: "data" });
      return;
    }
    const isAlone = info.isPlain && isIdle && status === "I";
    if (isAlone && (info.kind === "read" || (info.kind === "data" && this.#state.wantsReceipts))) {
      this.#sendPlain(bytes, start, end, info);
      return;
    }
    if (this.#isCommitChecked) {
      this.#isCommitChecked = false;
      if (this.#undoFailed()) return;
    } else if (info.kind === "commit" && isIdle && status === "T") {
      this.#run.flush();
      this.#questions.checkBlock();
      if (info.isSeveral) {
        // If the check fails, the server must not run what is behind the COMMIT.
        this.#isCommitChecked = true;
        this.#defer(QUERY ?? 0, bytes, start, end);
        return;
      }
    }
    this.#expectQuery(info, this.#record(bytes, start, end, info));
    this.#batch.isOpen = false;
    this.#run.add(bytes, start, end);
  }

  /**
   * In commit mode, a transaction that begins to write waits while exposure is near its limit, and
   * fails at the limit. A statement that fails then goes to the server in its place, so that the
   * client's block fails as well.
   */
  #admit({ writes, kind }: StatementInfo): Admission {
    const { wantsReceipts, settings, hasWrittenInBlock, outside, isAtReplica } = this.#state;
    const isWriting = writes || (hasWrittenInBlock && kind === "read");
    if (settings.isDurableOnly && isWriting && !isAtReplica) return NO_WRITES;
    if (!writes || settings.ack !== "commit" || !wantsReceipts || hasWrittenInBlock) return "now";
    const admission = outside.admission();
    this.#isSlowed = admission === "later";
    return admission;
  }

  #undoFailed(): boolean {
    const { failure } = this.#state;
    if (failure === null) return false;
    this.#state.failure = null;
    this.#endBlock(failure);
    return true;
  }

  /** Answers a COMMIT whose block one of our statements has undone. */
  #endBlock(failure: Failure): void {
    this.#state.undo(failure);
    this.#state.client.push(READY_IDLE);
  }

  /** A simple Query. */
  #record(bytes: Buffer, start: number, end: number, info: StatementInfo): Ran | null {
    const { recorder, keeps, status } = this.#state;
    if (recorder === null) return null;
    if (this.#batch.isOpen) recorder.incomplete();
    else recorder.unit(status !== "I");
    return recorder.query(bytes.toString("utf8", start + HEADER_BYTES, end - 1), info, keeps);
  }

  #describe(bytes: Buffer, start: number): void {
    const describes = this.#state.recorder?.described(bytes, start);
    this.#begin(describes == null ? CLIENT.describe : { ...CLIENT.describe, describes });
  }

  #expectQuery(statement: StatementInfo, ran: Ran | null): void {
    if (ran === null && statement === UNSEEN_STATEMENT) this.#state.recorder?.unread();
    const info = this.#names.used(statement);
    const { kind, isLocking, changes } = info;
    if (info.dropsStatements) this.#state.forgetPrepared();
    this.#noteChanges(info);
    const mayLoseId = info.namesId && info.isSeveral;
    const how = { kind, isLocking, changes, mayLoseId, ran };
    this.#state.expected.push({ message: "query", whose: "client", ...how });
  }

  #noteChanges({ callsSetConfig, changes }: StatementInfo): void {
    if (callsSetConfig) this.#state.isStale = true;
    if (changes !== null) this.#state.mayHaveSet = true;
  }

  /** Sends a Query as Parse, Bind, Describe, Execute, our check and Sync. */
  #sendPlain(bytes: Buffer, start: number, end: number, info: StatementInfo): void {
    const { kind, isLocking, changes } = info;
    const { expected, outside } = this.#state;
    this.#run.flush();
    const text = bytes.subarray(start + HEADER_BYTES, end);
    const ran = this.#record(bytes, start, end, info);
    outside.toServer(parseHeader("", text.length));
    outside.toServer(text);
    outside.toServer(READ_TAIL);
    expected.push(QUIET.parse);
    expected.push(QUIET.bind);
    expected.push(ran === null ? QUIET.describe : { ...QUIET.describe, describes: ran.text });
    if (changes !== null) this.#state.mayHaveSet = true;
    expected.push({ message: "execute", whose: "quiet", kind, isLocking, changes, ran });
    this.#state.sendCheck("check", kind === "data" || this.#state.hasId, true);
    this.#hasUnnamed = true;
    outside.toServer(SYNC);
    expected.push(CLIENT.sync);
  }

  /**
   * A simple Query leaves no unnamed statement. The Close goes before the next message, because
   * after an error the server would skip it in the same batch. A Query drops the statement itself.
   */
  #closeUnnamed(type: number): void {
    if (!this.#hasUnnamed || !UNIT_TYPES.has(type)) return;
    this.#hasUnnamed = false;
    if (type === QUERY) return;
    this.#run.flush();
    this.#state.outside.toServer(UNNAMED_CLOSE);
    this.#state.expected.push(QUIET.close);
  }

  #execute(bytes: Buffer, start: number, end: number): void {
    const info = this.#names.ofExecute(bytes, start, end);
    if (info.kind === "commit" && !this.#beforeCommit(bytes, start, end)) return;
    const admission = this.#admitExecute(info);
    if (admission === "later") {
      this.#defer(EXECUTE_TYPE, bytes, start, end);
      return;
    }
    if (admission !== "now") this.#failBefore(admission);
    if (info.dropsStatements) {
      this.#state.forgetPrepared();
      // An error in this batch makes the server skip our Parse. The next unit waits to know that.
      this.#state.mayHaveSet = true;
    }
    const { recorder, keeps } = this.#state;
    this.#expectExecute(info, recorder?.execute(bytes, start, info, keeps) ?? null);
    this.#run.add(bytes, start, end);
  }

  #admitExecute(info: StatementInfo): Admission {
    const { expected, status } = this.#state;
    const { mayCopy, hasData } = this.#current;
    // During a COPY the server takes a refusal for data; in a failed block it adds nothing.
    if (mayCopy || hasData || expected.isSkipping || expected.isCopying || status === "E") return "now";
    return this.#admit(info);
  }

  /** Puts a failing statement before the client's message, so that the server skips that. */
  #failBefore(refusal: Report): void {
    const { outside, own } = this.#state;
    this.#run.flush();
    outside.toServer(own.error(refusal).extended);
    for (const quiet of [QUIET.close, QUIET.parse, QUIET.bind]) this.#begin(quiet);
    this.#begin({ message: "execute", whose: "client", kind: "data" });
  }

  /** False when the COMMIT is sent later, or not at all. */
  #beforeCommit(bytes: Buffer, start: number, end: number): boolean {
    this.#run.flush();
    const { beganIdleInBlock, executed } = this.#current;
    const next = this.#commitSteps.next(beganIdleInBlock && executed === 0);
    if (next === "wait") this.#defer(EXECUTE_TYPE, bytes, start, end);
    if (next === "skip") this.#state.isDiscarding = true;
    return next === "send";
  }

  #expectExecute(statement: StatementInfo, ran: Ran | null): void {
    if (ran === null && statement === UNSEEN_STATEMENT) this.#state.recorder?.unread();
    const info = this.#names.used(statement);
    const { kind, isLocking, changes } = info;
    this.#noteChanges(info);
    this.#begin({ message: "execute", whose: "client", kind, isLocking, changes, ran });
    this.#batch.executes(info);
  }

  #sync(bytes: Buffer, start: number, end: number): void {
    const { expected, wantsReceipts, hasId, mayHaveSet } = this.#state;
    const batch = this.#batch;
    const mayHaveReceipt = (batch.hasData || hasId) && batch.isSociable && wantsReceipts;
    const isUseful = batch.isCheckable || mayHaveReceipt || (mayHaveSet && batch.isSociable);
    const isWanted = isUseful && batch.executed > 0 && !batch.beganIdleInBlock;
    // A pending answer may have begun a block. The check takes the block's snapshot, and the client
    // may still send SET TRANSACTION, which has to come before the snapshot.
    if (batch.isOpen && batch.mayTakeSnapshot && isWanted && !expected.isSkipping && !expected.isCopying) {
      this.#run.flush();
      this.#state.sendCheck("check", mayHaveReceipt);
    }
    this.#commitSteps.reset();
    expected.push(batch.isOpen && batch.namesId ? ID_SYNC : CLIENT.sync);
    batch.isOpen = false;
    this.#run.add(bytes, start, end);
  }

  /** The server is ready. If it is idle, the transaction has ended. */
  ready(): void {
    if (this.#state.status !== "I") return;
    this.#names.transactionEnded();
  }
}
