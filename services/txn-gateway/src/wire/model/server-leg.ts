// What the server sends, on its way to the client. Answers to our own statements stop here; an
// answer that may reveal a commit waits behind a gate. Every CommandComplete is read: a statement
// that may have written, and was not found to have written nothing, counts as a write.
import { FrameScanner, type FrameSink, type PartRange } from "../frames/scanner.ts";
import { errorResponse, parameterStatus, reportField, rowTexts } from "../frames/build.ts";
import { type OwnAttempt } from "./attempt.ts";
import { type Expected, type Purpose } from "./expected.ts";
import { type Gate } from "./hold-queue.ts";
import { type CheckAnswer, readCheck, readSettings } from "./own.ts";
import { Run } from "./run.ts";
import { type Failure, type SessionState, type TransactionStatus } from "./state.ts";
import { readTag, type Tag } from "./tags.ts";

const HEADER_BYTES = 5;
const WHOLE_TYPES = "CZEKSNA123tnsIGHWV";
/** Held rows of a locking read; more go out behind a gate of their own. */
const LOCKED_BYTES_MAX = 32_768;
/** The class of integrity constraint violations: what is there already, or is missing. */
const INTEGRITY = "23";
export const TOKEN_PARAMETER = "highwater.token";
const NO_TOKEN = parameterStatus(TOKEN_PARAMETER, "");

const code = (type: string): number => type.charCodeAt(0);
const [PARSED, BOUND, CLOSED] = [code("1"), code("2"), code("3")];
const [PARAMETERS, ROW_DESCRIPTION, NO_DATA, ROW] = [code("t"), code("T"), code("n"), code("D")];
const [COMPLETE, EMPTY, SUSPENDED, ERROR, READY] = [code("C"), code("I"), code("s"), code("E"), code("Z")];
const [COPY_IN, COPY_OUT, COPY_BOTH] = [code("G"), code("H"), code("W")];
const [COPY_DATA, NOTICE, NOTIFICATION, CALLED] = [code("d"), code("N"), code("A"), code("V")];
const PARAMETER = code("S");
const PROMOTED = "in_hot_standby\0off\0";
const AFTER_IN_BLOCK =
  "highwater.after was set in a transaction that keeps one snapshot; set it before the transaction begins";

const ID_LOST =
  "highwater.id has no effect on what the text that sets it has committed; set it in a message of its own";

/** Statements that cannot commit before they end. */
const ENDS_WHOLE = new Set(["read", "checkable", "data", "commit", "begin", "rollback", "copy"]);

export interface ServerLegOptions {
  readonly state: SessionState;
  readonly levels: () => readonly string[];
  /** A transaction has ended, or a block goes on. */
  readonly onReady: (status: TransactionStatus) => void;
}

export class ServerLeg implements FrameSink {
  readonly #state: SessionState;
  readonly #options: ServerLegOptions;
  readonly #scanner = new FrameScanner(this, WHOLE_TYPES);
  readonly #run: Run;
  #isInBlock = false;
  /** Since the last ReadyForQuery, or the last commit behind it. */
  #hasWritten = false;
  #hasCommitted = false;
  /** A function may have changed settings, and they were not read since. */
  #hasCalled = false;
  /** Something may have been set since the block began. */
  #hasSet = false;
  /** Before the answer to a statement that has committed if it was the last of its Query. */
  #maybeLast: Gate | null = null;
  /** Before the rows of a read that locks. */
  #locked: Gate | null = null;
  #lockedBytes = 0;
  #isFirstRow = true;
  #answer: CheckAnswer | null = null;
  /** The frame that comes in parts is for us alone. */
  #isOwnPart = false;
  /** The end of a statement sent in another form: its transaction has not committed yet. */
  #result: Buffer | null = null;
  /** A token goes out behind the last ReadyForQuery. */
  #hasNewToken = false;
  /** Before the answer to the last commit behind it. */
  #commit: Gate | null = null;

  constructor(options: ServerLegOptions) {
    this.#state = options.state;
    this.#options = options;
    this.#run = new Run((bytes) => {
      options.state.client.push(bytes);
    });
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
    const { head } = expected;
    if (head?.whose === "own" && this.#ours(type, head, bytes, start, end)) return;
    switch (type) {
      case ROW:
      case COPY_DATA:
        this.#row(end - start, head);
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
        this.#notLast();
        this.#isFirstRow = true;
        if (head?.message === "describe") expected.pop();
        break;
      case NO_DATA:
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
        this.#notLast();
        this.#unlock();
        if (head?.message === "execute") expected.pop();
        break;
      case SUSPENDED:
        this.#suspended(head);
        break;
      case COPY_IN:
      case COPY_OUT:
      case COPY_BOTH:
        this.#notLast();
        this.#isFirstRow = true;
        if (type !== COPY_OUT) expected.beginCopy();
        break;
      case CALLED:
        this.#hasWritten = true;
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
    if (type !== ROW && this.#locked !== null) this.#locks(end - start);
    this.#run.add(bytes, start, end);
  }

  wantsWhole(): boolean {
    return this.#state.expected.head?.whose === "own";
  }

  part(type: number, bytes: Buffer, { start, end, isFirst }: PartRange): void {
    const { head } = this.#state.expected;
    if (isFirst) this.#isOwnPart = head?.whose === "own" && type !== PARAMETER;
    if (this.#isOwnPart) {
      if (type !== NOTICE) this.#state.outside.broken("an answer to the gateway is too long");
      return;
    }
    if (isFirst) {
      if (type === ROW || type === COPY_DATA) this.#row(end - start, head);
      // Too long to be read: it may be anything.
      else if (type === ERROR) this.#error(bytes, start, end, head);
      else if (type === NOTICE) this.#noticed(head);
      else if (type === ROW_DESCRIPTION) {
        this.#notLast();
        if (head?.message === "describe") this.#state.expected.pop();
      }
    } else if (this.#locked !== null) this.#locks(end - start);
    this.#run.add(bytes, start, end);
  }

  /** True: the frame is for us alone. */
  #ours(type: number, head: Expected, bytes: Buffer, start: number, end: number): boolean {
    const { expected, outside } = this.#state;
    switch (type) {
      case NOTICE:
        // With `debug_print_plan` it shows the receipt's tag.
        return true;
      case NOTIFICATION:
      case PARAMETER:
        return false;
      case PARSED:
      case BOUND:
      case CLOSED:
        expected.pop();
        return true;
      case ROW:
        if (head.purpose === "probe") this.#probed(rowTexts(bytes, start));
        else this.#answer = readCheck(rowTexts(bytes, start));
        return true;
      case COMPLETE:
        if (head.message !== "execute") return true;
        expected.pop();
        if (head.purpose === "probe") return true;
        if (this.#answer === null || head.purpose === undefined) outside.broken("a check has no answer");
        else this.#checked(head.purpose, this.#answer);
        this.#answer = null;
        return true;
      case READY:
        expected.pop();
        this.#state.status = statusAt(bytes, start);
        if (head.message === "query") this.#endBlock();
        this.#isInBlock = this.#state.status !== "I";
        if (this.#state.status === "I") this.#state.failure = null;
        return true;
      case ERROR: {
        // The session ends, whatever it was doing.
        if (isFatal(bytes, start, end)) return false;
        // Of a check behind reads: their transaction is undone, and the client has to know.
        const purpose = expected.ownPurpose();
        const isCommit = purpose === "commit" || purpose === "inline" || this.#isAlone();
        const failed = ownFailure(bytes, start, end, this.#state.asked);
        this.#state.forgetPrepared();
        this.#answer = null;
        this.#result = null;
        expected.fail();
        this.#state.isReadOnlyCommit = null;
        this.#state.rolledBack();
        if (isCommit) this.#state.failure = failed;
        else {
          this.#run.flush();
          this.#state.sendFailure(failed);
        }
        return true;
      }
      default:
        outside.broken("a statement of the gateway was replaced");
        return true;
    }
  }

  /** What fails is in front of a Sync of ours. */
  #isAlone(): boolean {
    return this.#state.expected.nextSync()?.whose === "own";
  }

  #checked(purpose: Purpose, answer: CheckAnswer): void {
    this.#takeSettings(answer);
    if (this.#state.isReader) this.#takeAfter(answer);
    const { asked } = this.#state;
    if (asked !== null && purpose !== "settings") {
      this.#state.asked = null;
      if (answer.hasReceipt) this.#state.receipted = asked;
      else asked.withdraw();
    }
    if (purpose === "check") {
      this.#hasWritten = answer.hasWritten;
      this.#hasCalled = false;
    }
    if (purpose === "commit" || purpose === "inline") this.#state.isReadOnlyCommit = !answer.hasWritten;
  }

  #probed([canWrite, role = null]: readonly (string | null)[]): void {
    this.#state.probed = { role, canWrite: canWrite === "t" };
  }

  #takeSettings({ settings, role }: CheckAnswer): void {
    const state = this.#state;
    if (role !== state.role) {
      state.role = role;
      if (this.#isInBlock) this.#hasSet = true;
      // The probe waits for the end of a block, which it must not disturb.
      else if (!state.isProbed) state.isStale = true;
    }
    const text = settings.map((one) => one ?? "").join("\0");
    if (text === state.settingsText) return;
    state.settingsText = text;
    if (this.#isInBlock) this.#hasSet = true;
    const read = readSettings(settings, this.#options.levels());
    state.settings = read.settings;
    if (read.faults.length > 0) {
      this.#run.flush();
      state.outside.warn(read.faults);
    }
  }

  #takeAfter({ after, isolation }: CheckAnswer): void {
    const state = this.#state;
    if (after === state.after) return;
    state.after = after;
    state.refusal = null;
    state.isAwaiting = after !== "";
    const isTooLate = state.status === "T" && isolation !== "read committed";
    if (state.isAwaiting && isTooLate) state.outside.broken(AFTER_IN_BLOCK);
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

  #row(size: number, head: Expected | undefined): void {
    this.#notLast();
    const { settings } = this.#state;
    if (head?.isLocking === true && settings.ack === "durable") {
      if (this.#locked === null) {
        this.#run.flush();
        this.#locked = this.#state.client.gate(false);
        this.#lockedBytes = 0;
      }
      this.#locks(size);
    } else if (settings.readsDurably && this.#isFirstRow) this.#hold(false);
    this.#isFirstRow = false;
  }

  /**
   * The shell reads no more while much is held, so a large row cannot wait for the end of its
   * statement.
   */
  #locks(size: number): void {
    this.#lockedBytes += size;
    if (this.#lockedBytes > LOCKED_BYTES_MAX) this.#unlock();
  }

  #unlock(): void {
    const gate = this.#locked;
    this.#locked = null;
    if (gate !== null) this.#state.outside.wait(gate);
  }

  /** From here on the stream waits for a position that is read from now on. */
  #hold(isCommit: boolean): void {
    this.#run.flush();
    const gate = this.#state.client.gate(isCommit);
    if (isCommit) this.#committed(gate);
    this.#state.outside.wait(gate);
  }

  /** The commit behind the gate is that of the transaction which has the receipt, if one has. */
  #committed(gate: Gate): void {
    const state = this.#state;
    this.#commit = gate;
    gate.attempt = state.receipted;
    state.receipted = null;
    if (gate.attempt !== null) this.#hasNewToken = true;
  }

  /** Something follows the statement in its Query: it has not committed by itself. */
  #notLast(): void {
    const gate = this.#maybeLast;
    if (gate === null) return;
    this.#maybeLast = null;
    this.#run.flush();
    this.#state.client.open(gate);
  }

  #noticed(head: Expected | undefined): void {
    if (this.#state.settings.readsDurably && (this.#hasCommitted || mayCommitInside(head))) this.#hold(false);
  }

  /**
   * The server is between transactions. If that of the session has written, it has committed, and
   * the notification may be its own.
   */
  #notified(): void {
    if (this.#hasWritten && !this.#isInBlock && this.#maybeLast === null) {
      this.#hold(true);
      this.#hasWritten = false;
      this.#hasCommitted = true;
    } else if (this.#state.settings.readsDurably) this.#hold(false);
  }

  /**
   * A portal has shown as many rows as were asked for. A statement that writes has written
   * everything by then, and commits with its transaction. So may one without a check behind it.
   */
  #suspended(head: Expected | undefined): void {
    const state = this.#state;
    this.#notLast();
    this.#unlock();
    this.#isFirstRow = true;
    state.isReadOnlyCommit = null;
    this.#hasWritten = true;
    if (head?.kind === "data" || mayCommitInside(head)) state.hasWrittenInBlock = true;
    if (!this.#isInBlock && mayCommitInside(head)) {
      this.#hold(true);
      this.#hasCommitted = true;
    } else if (state.settings.readsDurably) this.#hold(false);
    if (head?.message === "execute") state.expected.pop();
  }

  /** False: it is not for the client. */
  #complete(bytes: Buffer, start: number, end: number, head: Expected | undefined): boolean {
    const state = this.#state;
    const isExecute = head?.message === "execute";
    if (!isExecute && head?.message !== "query") this.#unexpected("a result", head);
    this.#notLast();
    this.#isFirstRow = true;
    const tag = readTag(bytes.toString("latin1", start + HEADER_BYTES, end - 1));
    if (this.#failedBefore(tag, head)) return false;
    if (tag.dropsStatements) state.forgetPrepared();
    // Whether it is in a block is known only when the server is ready.
    if (tag.isWrite) state.hasWrittenInBlock = true;
    if (tag.effect !== "commit") state.isReadOnlyCommit = null;
    if (tag.changesSettings) {
      state.isStale = true;
      this.#hasSet = true;
    }
    const isCheck = head?.whose === "quiet";
    const wasLocked = this.#locked !== null;
    this.#unlock();
    const saysOfOthers = tag.isEmptyWrite || (head?.isLocking === true && tag.isRead && !wasLocked);
    if (state.settings.readsDurably || (saysOfOthers && state.settings.ack === "durable")) this.#hold(false);
    switch (tag.effect) {
      case "none":
        break;
      case "begin":
        this.#isInBlock = true;
        this.#hasSet = false;
        break;
      case "end":
        // Or what came behind a savepoint: then the block goes on, as the server says when ready.
        this.#isInBlock = false;
        state.rolledBack();
        if (this.#hasSet) state.isStale = true;
        break;
      case "commit":
        if (state.isReadOnlyCommit !== true) this.#hold(true);
        state.isReadOnlyCommit = null;
        this.#isInBlock = false;
        this.#hasWritten = false;
        this.#hasCommitted = true;
        this.#endBlock();
        break;
      case "data":
      case "alone":
        this.#hasWritten = true;
        if (tag.mayCallSettings && !this.#isInBlock) this.#hasCalled = true;
        if (this.#isInBlock || isCheck) break;
        if (!isExecute) this.#mayBeLast();
        else if (tag.effect === "alone") {
          this.#hold(true);
          this.#hasCommitted = true;
        }
        break;
    }
    if (isExecute) state.expected.pop();
    if (!isCheck) return true;
    // As in a simple Query: the notices and errors of its COMMIT come first.
    this.#result = Buffer.from(bytes.subarray(start, end));
    return false;
  }

  #mayBeLast(): void {
    this.#run.flush();
    this.#maybeLast = this.#state.client.gate(true);
  }

  /** A statement of ours has failed in front of this COMMIT, and so it has undone everything. */
  #failedBefore(tag: Tag, head: Expected | undefined): boolean {
    const { failure } = this.#state;
    if (failure === null || head?.kind !== "commit" || tag.effect !== "end") return false;
    this.#state.failure = null;
    this.#run.flush();
    this.#state.sendFailure(failure);
    this.#isInBlock = false;
    this.#endBlock();
    return true;
  }

  /** SET LOCAL ends with its block, and so does SET in one that was rolled back. */
  #endBlock(): void {
    if (this.#hasSet) this.#state.isStale = true;
    this.#hasSet = false;
    this.#state.hasWrittenInBlock = false;
  }

  #error(bytes: Buffer, start: number, end: number, head: Expected | undefined): void {
    const { expected, settings } = this.#state;
    this.#result = null;
    this.#notLast();
    this.#unlock();
    this.#isFirstRow = true;
    this.#state.isReadOnlyCommit = null;
    // When the session ends in a COMMIT, it is not known whether that has taken effect.
    if (!isFatal(bytes, start, end)) this.#state.rolledBack();
    const state = reportField(bytes, start, end, "C");
    const saysOfOthers = state === "" || state.startsWith(INTEGRITY);
    if (settings.readsDurably || (saysOfOthers && settings.ack === "durable")) this.#hold(false);
    // The transaction is undone; but a procedure may have committed before.
    this.#hasWritten = !this.#isInBlock && mayCommitInside(head);
    expected.isCopying = false;
    if (head === undefined || head.message === "sync" || head.message === "query" || head.message === "call")
      return;
    if (expected.fail()) this.#state.forgetPrepared();
  }

  /** Nothing was committed that has a token: the client must not read that of another. */
  #sendNoToken(): void {
    const gate = this.#commit;
    // In front of an answer that waits, because that gets a token if it goes out early.
    if (gate !== null && gate.decision !== "open") gate.prefix = NO_TOKEN;
    else {
      this.#run.flush();
      this.#state.client.push(NO_TOKEN);
    }
    this.#state.hasOldToken = false;
  }

  /** False: it is not for the client. */
  #ready(bytes: Buffer, start: number, head: Expected | undefined): boolean {
    const state = this.#state;
    const status = statusAt(bytes, start);
    if (head?.message !== "sync" && head?.message !== "query" && head?.message !== "call") {
      this.#unexpected("ReadyForQuery", head);
      return false;
    }
    state.expected.pop();
    state.status = status;
    const mustHold = status === "I" && this.#hasWritten;
    if (this.#maybeLast !== null && mustHold) {
      const gate = this.#maybeLast;
      this.#maybeLast = null;
      this.#run.flush();
      this.#committed(gate);
      state.outside.wait(gate);
    } else {
      this.#notLast();
      if (mustHold) this.#hold(true);
    }
    this.#unlock();
    if (this.#result !== null) {
      this.#run.flush();
      state.client.push(this.#result);
      this.#result = null;
    }
    if (head.mayLoseId === true && status === "I" && (mustHold || this.#hasCommitted)) {
      this.#run.flush();
      state.outside.warn([ID_LOST]);
    }
    if (status === "I") {
      if (!mustHold) state.rolledBack();
      if (state.hasOldToken && !this.#hasNewToken) this.#sendNoToken();
      state.hasOldToken = state.hasOldToken || this.#hasNewToken;
      this.#hasNewToken = false;
      state.lastCommit = this.#commit;
    }
    this.#commit = null;
    this.#isInBlock = status !== "I";
    if (!this.#isInBlock) this.#endBlock();
    this.#hasWritten = false;
    this.#hasCommitted = false;
    if (this.#hasCalled) state.isStale = true;
    this.#hasCalled = false;
    this.#options.onReady(status);
    return true;
  }
}

function mayCommitInside(head: Expected | undefined): boolean {
  return head?.kind !== undefined && !ENDS_WHOLE.has(head.kind);
}

function statusAt(bytes: Buffer, start: number): TransactionStatus {
  return String.fromCharCode(bytes[start + HEADER_BYTES] ?? 0) as TransactionStatus;
}

function isFatal(bytes: Buffer, start: number, end: number): boolean {
  return /^(?:FATAL|PANIC)$/.test(reportField(bytes, start, end, "V"));
}

const DUPLICATE = "23505";
const WRONG_VALUE = "22023";
const DENIED = "42501";
/** Of the server's source, and so in no language: where it refuses what a role has no right to. */
const DENIED_BY = "aclcheck_error";

/** Without its details, which name the receipt's tag. */
function ownFailure(bytes: Buffer, start: number, end: number, asked: OwnAttempt | null): Failure {
  const sqlstate = reportField(bytes, start, end, "C");
  if (sqlstate === DENIED && reportField(bytes, start, end, "R") === DENIED_BY)
    return {
      bytes: errorResponse({
        severity: "ERROR",
        code: DENIED,
        message:
          "the transaction was rolled back: its role cannot write the receipt that highwater.ack = commit and highwater.id need",
        detail: reportField(bytes, start, end, "M"),
        hint: "Change the role by SET ROLE in a statement of its own instead of in a function, or use highwater.ack = durable.",
      }),
      used: null,
    };
  const message = asked?.fault ?? reportField(bytes, start, end, "M");
  const code = asked?.fault == null ? sqlstate : WRONG_VALUE;
  return {
    bytes: errorResponse({ severity: "ERROR", code, message }),
    used: code === DUPLICATE ? (asked?.receipt ?? null) : null,
  };
}
