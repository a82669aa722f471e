// Where the stream to the client waits: behind commits of the session, and in front of what says
// something of commits of others. It knows no frame: the server's leg says what has come.
import { noticeResponse, parameterStatus } from "../frames/build.ts";
import { type Gate } from "./hold-queue.ts";
import { type Run } from "./run.ts";
import { type SessionState } from "./state.ts";
import { type Tag } from "./tags.ts";

/** Held rows of a locking read; more go out behind a gate of their own. */
const LOCKED_BYTES_MAX = 32_768;
/** The class of integrity constraint violations: what is there already, or is missing. */
const INTEGRITY = "23";
export const TOKEN_PARAMETER = "highwater.token";
const NO_TOKEN = parameterStatus(TOKEN_PARAMETER, "");

const WITHOUT_RECEIPT = noticeResponse({
  severity: "WARNING",
  code: "01000",
  message:
    "highwater.id has no effect on this transaction, which has no receipt; sent again with the id, it runs again",
  hint: "Send it between BEGIN and COMMIT, each statement in a message of its own, as a role that can write receipts.",
});
const SET_TOO_LATE =
  "highwater.id has no effect on what the text that sets it has committed; set it in a message of its own";

export class Holds {
  readonly #state: SessionState;
  readonly #run: Run;
  /** Before the answer to a statement that has committed if it was the last of its Query. */
  #maybeLast: Gate | null = null;
  /** Before the rows of a read that locks. */
  #locked: Gate | null = null;
  #lockedBytes = 0;
  #isFirstRow = true;
  /** A token goes out behind the last ReadyForQuery. */
  #hasNewToken = false;
  /** Before the answer to the last commit behind it. */
  #commit: Gate | null = null;
  /** Something was committed behind it that has no receipt. */
  #lacksReceipt = false;
  /** The client has a warning of that. */
  #hasWarned = false;

  /** `run`: what goes to the client and has not been pushed. */
  constructor(state: SessionState, run: Run) {
    this.#state = state;
    this.#run = run;
  }

  /** From here on the stream waits for a position that is read from now on. */
  hold(isCommit: boolean): void {
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
    else this.#lackReceipt(gate);
  }

  /** On the read port nothing commits. */
  #lackReceipt(gate: Gate): void {
    const { settings, isReader } = this.#state;
    this.#lacksReceipt = !isReader;
    if (settings.id === null || isReader || this.#hasWarned) return;
    this.#hasWarned = true;
    gate.say(WITHOUT_RECEIPT);
  }

  /** A result follows: what came before it in its Query has not committed by itself. */
  begun(): void {
    this.notLast();
    this.#isFirstRow = true;
  }

  /** Something follows the statement in its Query. */
  notLast(): void {
    const gate = this.#maybeLast;
    if (gate === null) return;
    this.#maybeLast = null;
    this.#run.flush();
    this.#state.client.open(gate);
  }

  /** The last result's statement has committed if nothing follows it in its Query. */
  get hasMaybeLast(): boolean {
    return this.#maybeLast !== null;
  }

  /** Whether the statement is the last of its Query, and so has committed, is what comes next. */
  mayBeLast(): void {
    this.#run.flush();
    this.#maybeLast = this.#state.client.gate(true);
  }

  row(size: number, isLocking: boolean): void {
    this.notLast();
    const { settings, client } = this.#state;
    if (isLocking && settings.ack === "durable") {
      if (this.#locked === null) {
        this.#run.flush();
        this.#locked = client.gate(false);
        this.#lockedBytes = 0;
      }
      this.grown(size);
    } else if (settings.readsDurably && this.#isFirstRow) this.hold(false);
    this.#isFirstRow = false;
  }

  /**
   * So much more stands behind the rows of a locking read. The shell reads no more while much is
   * held, so a large row cannot wait for the end of its statement.
   */
  grown(size: number): void {
    if (this.#locked === null) return;
    this.#lockedBytes += size;
    if (this.#lockedBytes > LOCKED_BYTES_MAX) this.unlock();
  }

  /** No more rows of a locking read: what they show is safe behind what is committed now. */
  unlock(): void {
    const gate = this.#locked;
    this.#locked = null;
    if (gate !== null) this.#state.outside.wait(gate);
  }

  /** The end of a statement. A write that finds nothing speaks of rows that others have written. */
  completed(tag: Tag, isLocking: boolean): void {
    const { settings } = this.#state;
    const wasLocked = this.#locked !== null;
    this.unlock();
    const saysOfOthers = tag.isEmptyWrite || (isLocking && tag.isRead && !wasLocked);
    if (settings.readsDurably || (saysOfOthers && settings.ack === "durable")) this.hold(false);
  }

  /** `sqlstate`: empty when it is not known, and then it may be any. */
  failed(sqlstate: string): void {
    const { settings } = this.#state;
    this.begun();
    this.unlock();
    const saysOfOthers = sqlstate === "" || sqlstate.startsWith(INTEGRITY);
    if (settings.readsDurably || (saysOfOthers && settings.ack === "durable")) this.hold(false);
  }

  /** What comes next shows what others have committed. */
  shown(): void {
    if (this.#state.settings.readsDurably) this.hold(false);
  }

  /** In front of a ReadyForQuery. `hasCommitted`: behind something that may have written. */
  ready(hasCommitted: boolean): void {
    const gate = this.#maybeLast;
    if (gate !== null && hasCommitted) {
      this.#maybeLast = null;
      this.#run.flush();
      this.#committed(gate);
      this.#state.outside.wait(gate);
    } else {
      this.notLast();
      if (hasCommitted) this.hold(true);
    }
    this.unlock();
  }

  /**
   * The ReadyForQuery comes now. `isEnd`: a transaction has ended, and not only a statement.
   * `mayLoseId`: an id may have been set in front of it.
   */
  ended(isEnd: boolean, mayLoseId: boolean): void {
    const state = this.#state;
    if (mayLoseId && this.#lacksReceipt && !this.#hasWarned) {
      this.#run.flush();
      state.outside.warn([SET_TOO_LATE]);
    }
    this.#lacksReceipt = false;
    this.#hasWarned = false;
    if (isEnd) {
      if (state.hasOldToken && !this.#hasNewToken) this.#sendNoToken();
      state.hasOldToken ||= this.#hasNewToken;
      this.#hasNewToken = false;
      state.lastCommit = this.#commit;
    }
    this.#commit = null;
  }

  /** Nothing was committed that has a token: the client must not read that of another. */
  #sendNoToken(): void {
    const gate = this.#commit;
    // In front of an answer that waits, because that gets a token if it goes out early.
    if (gate !== null && gate.decision !== "open") gate.say(NO_TOKEN);
    else {
      this.#run.flush();
      this.#state.client.push(NO_TOKEN);
    }
    this.#state.hasOldToken = false;
  }
}
