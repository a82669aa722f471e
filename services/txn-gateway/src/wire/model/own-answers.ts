// Reads the answers to the gateway's own statements and keeps them from the client. They report
// what the session's transaction has done, and its settings.
import {
  PARSED,
  BOUND,
  CLOSED,
  ROW,
  COMPLETE,
  ERROR,
  READY,
  NOTICE,
  NOTIFICATION,
  PARAMETER,
} from "../frames/answers.ts";
import { copyOf, errorResponse, reportField, rowTexts } from "../frames/build.ts";
import { type OwnAttempt } from "./attempt.ts";
import { type Expected, type Purpose } from "./expected.ts";
import { type CheckAnswer, readCheck, readSettings } from "./own.ts";
import { SET_TOO_LATE } from "./holds.ts";
import { type Progress } from "./progress.ts";
import { type Run } from "./run.ts";
import { type Failure, type SessionState, statusAt } from "./state.ts";

const DUPLICATE = "23505";
const WRONG_VALUE = "22023";
const DENIED = "42501";
/** The C function in which PostgreSQL refuses missing rights: a name that is not translated. */
const DENIED_BY = "aclcheck_error";
const AFTER_IN_BLOCK =
  "highwater.after was set in a transaction that keeps one snapshot; set it before the transaction begins";

interface OwnAnswersParts {
  readonly state: SessionState;
  readonly progress: Progress;
  /** Bytes for the client that have not been pushed. */
  readonly run: Run;
  readonly levels: () => readonly string[];
}

export class OwnAnswers {
  readonly #state: SessionState;
  readonly #progress: Progress;
  readonly #run: Run;
  readonly #levels: () => readonly string[];
  #answer: CheckAnswer | null = null;
  /** Of the last check: most say the same, byte for byte, and are not read again. */
  #last: { readonly row: Buffer; readonly answer: CheckAnswer } | null = null;

  constructor({ state, progress, run, levels }: OwnAnswersParts) {
    this.#state = state;
    this.#progress = progress;
    this.#run = run;
    this.#levels = levels;
  }

  /** Takes the frame `bytes[start..end)`. True when the client must not see it. */
  take(type: number, head: Expected, bytes: Buffer, start: number, end: number): boolean {
    const { expected, outside } = this.#state;
    switch (type) {
      case NOTICE:
        // With `debug_print_plan`, a notice shows the receipt's tag.
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
        else this.#answer = this.#read(bytes, start, end);
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
        if (head.message === "query") this.#progress.endBlock();
        this.#progress.isInBlock = this.#state.status !== "I";
        if (this.#state.status === "I") this.#state.failure = null;
        return true;
      case ERROR: {
        // A fatal error ends the session, so the client gets it.
        if (isFatal(bytes, start, end)) return false;
        const purpose = expected.ownPurpose();
        const isQuestion = this.#isAlone() && purpose !== "commit";
        const failed = ownFailure(bytes, start, end, this.#state.asked);
        this.#state.forgetPrepared();
        this.#answer = null;
        this.#progress.result = null;
        this.#progress.hasWritten = false;
        expected.fail();
        this.#state.isReadOnlyCommit = null;
        this.#state.rolledBack();
        this.#state.isStale = true;
        if (isQuestion) {
          this.#state.doubts.addAll();
          this.#state.unread = failed.bytes;
        } else if (purpose === "commit" || purpose === "awaited") this.#state.failure = failed;
        else {
          // It has undone the client's transaction, or keeps the server from its COMMIT.
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

  /** True when our Sync comes next, so the failed statement stood alone. */
  #isAlone(): boolean {
    return this.#state.expected.nextSync()?.whose === "own";
  }

  #read(bytes: Buffer, start: number, end: number): CheckAnswer | null {
    if (this.#last?.row.compare(bytes, start, end) === 0) return this.#last.answer;
    const answer = readCheck(rowTexts(bytes, start));
    this.#last = answer === null ? null : { row: copyOf(bytes, start, end), answer };
    return answer;
  }

  #checked(purpose: Purpose, answer: CheckAnswer): void {
    this.#takeSettings(purpose, answer);
    if (this.#state.isReader) this.#takeAfter(answer);
    const { asked } = this.#state;
    if (asked !== null && purpose !== "settings") {
      this.#state.asked = null;
      if (answer.hasReceipt) {
        this.#state.receipted = asked;
        asked.written(answer.kept);
      } else {
        asked.withdraw();
        this.#state.recorder?.incomplete();
      }
    }
    if (purpose === "check") {
      this.#progress.hasWritten = answer.hasWritten;
      this.#progress.hasCalled = false;
    }
    if (purpose === "commit" || purpose === "awaited" || purpose === "inline")
      this.#state.isReadOnlyCommit = !answer.hasWritten;
  }

  #probed([canWrite, role = null]: readonly (string | null)[]): void {
    this.#state.probed = { role, canWrite: canWrite === "t" };
  }

  #takeSettings(purpose: Purpose, { settings, settingsText, role }: CheckAnswer): void {
    const state = this.#state;
    if (role !== state.role) {
      state.role = role;
      if (this.#progress.isInBlock) this.#progress.hasSet = true;
      // Wait with the probe until the block ends: it would disturb the block.
      else if (!state.isProbed) state.isStale = true;
    }
    const isInTransaction = this.#progress.isInBlock || purpose !== "settings";
    const before = state.settings;
    const mayHaveLostId = state.mayHaveLostId;
    state.mayHaveLostId = false;
    if (settingsText === state.settingsText) {
      state.doubts.read(before, before, isInTransaction);
      return;
    }
    state.settingsText = settingsText;
    const read = readSettings(settings, this.#levels(), state.least);
    state.settings = read.settings;
    state.doubts.read(before, read.settings, isInTransaction);
    const { id } = read.settings;
    const isLate = mayHaveLostId && id !== null && id !== before.id;
    const faults = isLate ? [...read.faults, SET_TOO_LATE] : read.faults;
    if (faults.length > 0) {
      this.#run.flush();
      state.outside.warn(faults);
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
}

/** True when the session ends with this ErrorResponse. */
export function isFatal(bytes: Buffer, start: number, end: number): boolean {
  return /^(?:FATAL|PANIC)$/.test(reportField(bytes, start, end, "V"));
}

/** The error without its details, which name the receipt's tag. */
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
