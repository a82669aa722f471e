// Decides where the stream to the client waits: at the session's commits, and before answers that
// reveal commits of others. Reads no frames; the server leg reports what has arrived.
import { noticeResponse, parameterStatus } from "../frames/build.ts";
import { type Gate } from "./hold-queue.ts";
import { type Run } from "./run.ts";
import { type SessionState } from "./state.ts";
import { type Tag } from "./tags.ts";

/**
 * Bytes behind a gate that is not decided. The shell stops reading while more is held, and then the
 * message that decides would never arrive.
 */
const UNDECIDED_BYTES_MAX = 32_768;
/** The SQLSTATE class of integrity violations: they reveal that a row exists, or does not. */
const INTEGRITY = "23";
export const TOKEN_PARAMETER = "highwater.token";
/** The level of the commit with the token; empty: it was answered before it was durable. */
export const ACHIEVED_PARAMETER = "highwater.achieved";
/** With a token: whether a tracker has the transaction's contents. */
const KEPT_PARAMETER = "highwater.kept";
/** With a durable-only answer: the token for `highwater.after` of the next session. */
export const FLOOR_PARAMETER = "highwater.floor";
/** How old that answer is at most, in milliseconds; empty: not known. */
export const AGE_PARAMETER = "highwater.age_ms";
const NO_TOKEN = Buffer.concat([
  parameterStatus(TOKEN_PARAMETER, ""),
  parameterStatus(ACHIEVED_PARAMETER, ""),
]);
const NOT_KEPT = parameterStatus(KEPT_PARAMETER, "off");

/**
 * Says at the gate whether its transaction is kept. Null: nothing waited for that, which is said
 * only to a client that may have the answer of an earlier transaction.
 */
export function sayKept(gate: Gate, isKept: boolean | null, state: SessionState): void {
  if (isKept === null && (gate.attempt === null || !state.hasSaidKept)) return;
  state.hasSaidKept = true;
  gate.say(isKept === true ? parameterStatus(KEPT_PARAMETER, "on") : NOT_KEPT);
}

const withoutReceipt = (hint: string): Buffer =>
  noticeResponse({
    severity: "WARNING",
    code: "01000",
    message:
      "highwater.id has no effect on this transaction, which has no receipt; sent again with the id, it runs again",
    hint,
  });
const WITHOUT_RECEIPT = withoutReceipt(
  "Send it between BEGIN and COMMIT, each statement in a message of its own, as a role that can write receipts.",
);
const ON_READ_PORT = withoutReceipt("Send it to the gateway's main port.");
export const SET_TOO_LATE =
  "highwater.id has no effect on what the text that sets it has committed; set it in a message of its own";

export class Holds {
  readonly #state: SessionState;
  readonly #run: Run;
  /** Before the answer to a statement that has committed if it was the last of its Query. */
  #maybeLast: Gate | null = null;
  /** Before the rows of a locking read. */
  #locked: Gate | null = null;
  /** Behind that one of the two that is there: never both are. */
  #undecidedBytes = 0;
  #isFirstRow = true;
  /** A token is sent since the last ReadyForQuery. */
  #hasNewToken = false;
  /** Before the answer to the last commit since then. */
  #commit: Gate | null = null;
  /** A commit since then has no receipt. */
  #lacksReceipt = false;
  /** The client has been warned of that. */
  #hasWarned = false;

  /** `run`: bytes for the client that have not been pushed. */
  constructor(state: SessionState, run: Run) {
    this.#state = state;
    this.#run = run;
  }

  /** Holds the stream here until the current end of the log is durable. */
  hold(isCommit: boolean): void {
    this.#run.flush();
    const gate = this.#state.client.gate(isCommit);
    if (isCommit) this.#committed(gate);
    this.#state.outside.wait(gate);
  }

  /** If a transaction has a receipt, the commit at this gate is that transaction's. */
  #committed(gate: Gate): void {
    const state = this.#state;
    this.#commit = gate;
    gate.attempt = state.receipted;
    state.receipted = null;
    if (gate.attempt !== null) this.#hasNewToken = true;
    else this.#lackReceipt(gate);
  }

  /** No warning at a replica: what looks like a commit there is none. */
  #lackReceipt(gate: Gate): void {
    const { settings, isReader, isAtReplica } = this.#state;
    this.#lacksReceipt = !isAtReplica;
    if (settings.id === null || isAtReplica || this.#hasWarned) return;
    this.#hasWarned = true;
    gate.say(isReader ? ON_READ_PORT : WITHOUT_RECEIPT);
  }

  /** A result follows, so the statement before it in the same Query has not committed by itself. */
  begun(): void {
    this.notLast();
    this.#isFirstRow = true;
  }

  /** More of the same Query follows the statement, so it has not committed yet. */
  notLast(): void {
    const gate = this.#maybeLast;
    if (gate === null) return;
    this.#maybeLast = null;
    this.#run.flush();
    this.#state.client.open(gate);
  }

  /** True when the last statement has committed if its Query ends there. */
  get hasMaybeLast(): boolean {
    return this.#maybeLast !== null;
  }

  /** The statement has committed if it is the last of its Query. The next message decides. */
  mayBeLast(): void {
    this.#run.flush();
    this.#maybeLast = this.#state.client.gate(true);
    this.#undecidedBytes = 0;
  }

  /**
   * Notices and notifications decide nothing, and there may be any number of them. If the statement
   * has committed, the log's present end is behind its commit, so the gate may wait for that. If it
   * was not the last, its answer only comes later.
   */
  #waitBeforeLast(): void {
    const gate = this.#maybeLast;
    this.#maybeLast = null;
    if (gate !== null) this.#state.outside.wait(gate);
  }

  row(size: number, isLocking: boolean): void {
    this.notLast();
    const { inForce, client } = this.#state;
    if (isLocking && inForce.ack === "durable") {
      if (this.#locked === null) {
        this.#run.flush();
        this.#locked = client.gate(false);
        this.#undecidedBytes = 0;
      }
      this.grown(size);
    } else if (inForce.readsDurably && this.#isFirstRow) this.hold(false);
    this.#isFirstRow = false;
  }

  /** Counts bytes behind a gate that is not decided. */
  grown(size: number): void {
    if (this.#maybeLast === null && this.#locked === null) return;
    this.#undecidedBytes += size;
    if (this.#undecidedBytes <= UNDECIDED_BYTES_MAX) return;
    this.#waitBeforeLast();
    this.unlock();
  }

  /** No more held rows: they go out once the log up to its current end is durable. */
  unlock(): void {
    const gate = this.#locked;
    this.#locked = null;
    if (gate !== null) this.#state.outside.wait(gate);
  }

  /** Ends a statement. A write that finds no rows reveals what other sessions have committed. */
  completed(tag: Tag, isLocking: boolean): void {
    const { inForce } = this.#state;
    const wasLocked = this.#locked !== null;
    this.unlock();
    const saysOfOthers = tag.isEmptyWrite || (isLocking && tag.isRead && !wasLocked);
    const isShowing = tag.effect !== "none" && tag.effect !== "begin";
    if ((inForce.readsDurably && isShowing) || (saysOfOthers && inForce.ack === "durable")) this.hold(false);
  }

  /** `sqlstate`: empty when it is not known; the error may then be of any class. */
  failed(sqlstate: string): void {
    const { inForce } = this.#state;
    this.begun();
    this.unlock();
    const saysOfOthers = sqlstate === "" || sqlstate.startsWith(INTEGRITY);
    if (inForce.readsDurably || (saysOfOthers && inForce.ack === "durable")) this.hold(false);
  }

  /** The next message shows what others have committed. */
  shown(): void {
    if (this.#state.inForce.readsDurably) this.hold(false);
  }

  /** Just before a ReadyForQuery. `hasCommitted`: a statement before it may have written. */
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
   * The ReadyForQuery follows. `isEnd`: a transaction has ended, not only a statement. `mayLoseId`:
   * an id may have been set too late for it.
   */
  ended(isEnd: boolean, mayLoseId: boolean): void {
    const state = this.#state;
    if (this.#lacksReceipt && !this.#hasWarned) {
      if (mayLoseId) {
        this.#run.flush();
        state.outside.warn([SET_TOO_LATE]);
      } else if (state.doubts.has("id")) state.mayHaveLostId = true;
    }
    this.#lacksReceipt = false;
    this.#hasWarned = false;
    if (isEnd) {
      if (state.hasOldToken && !this.#hasNewToken) this.#sendNoToken();
      state.lastCommit = this.#commit;
    }
    // Behind COMMIT AND CHAIN the token is already that of an earlier transaction.
    state.hasOldToken ||= this.#hasNewToken;
    this.#hasNewToken = false;
    this.#commit = null;
  }

  /** No commit gets a token, so the client must not keep the token of an earlier transaction. */
  #sendNoToken(): void {
    const gate = this.#commit;
    const nothing = this.#state.hasSaidKept ? Buffer.concat([NO_TOKEN, NOT_KEPT]) : NO_TOKEN;
    // At the gate, because the answer gets a token of its own there if it goes out early.
    if (gate !== null && gate.decision !== "open") gate.say(nothing);
    else {
      this.#run.flush();
      this.#state.client.push(nothing);
    }
    this.#state.hasOldToken = false;
  }
}
