// What the client sends, on its way to the server. Everything goes on as it came, but for a read in
// a simple Query, which is sent so that a check can follow it; and our checks stand in front of a
// COMMIT, or of the Sync that ends reads.
import { FrameError, FrameScanner, type FrameSink, type PartRange } from "../frames/scanner.ts";
import {
  bind,
  closeStatement,
  describePortal,
  execute,
  PARSE_TAIL,
  parseHeader,
  SYNC,
} from "../frames/build.ts";
import { CLIENT, type Expected, OWN, QUIET } from "./expected.ts";
import { OWN_CHECK, OWN_UNIT } from "./own.ts";
import { Run } from "./run.ts";
import { type SessionState } from "./state.ts";
import { type StatementInfo, statementInfo, UNSEEN_STATEMENT } from "./statement.ts";
import { Statements } from "./statements.ts";

const HEADER_BYTES = 5;
/** More than the type is read of these messages. */
const WHOLE_TYPES = "QPBDEC";

const [QUERY, PARSE, BIND, DESCRIBE, EXECUTE, CLOSE] = [..."QPBDEC"].map((type) => type.charCodeAt(0));
const [SYNC_TYPE, CALL, COPY_DONE, COPY_FAIL, TERMINATE] = [..."SFcfX"].map((type) => type.charCodeAt(0));

const READ_TAIL = Buffer.concat([PARSE_TAIL, bind("", ""), describePortal(""), execute("")]);
const UNNAMED_CLOSE = closeStatement("");

export class ClientLeg implements FrameSink {
  readonly #state: SessionState;
  readonly #scanner = new FrameScanner(this, WHOLE_TYPES);
  readonly #run: Run;
  readonly #statements = new Statements();
  /** Extended messages have been sent since the last Sync. */
  #isInBatch = false;
  /** All that the batch executes may have a check behind it. */
  #isCheckable = true;
  #executed = 0;
  /** When the batch began the server had nothing to do and was in a block. */
  #beganIdleInBlock = false;
  /** A frame of the client broke the protocol: there are no frames behind it. */
  #isBroken = false;
  /** The client has said goodbye. */
  isOver = false;

  constructor(state: SessionState) {
    this.#state = state;
    this.#run = new Run((bytes) => {
      state.outside.toServer(bytes);
    });
  }

  push(chunk: Buffer): void {
    if (this.#isBroken) {
      this.#state.outside.toServer(chunk);
      return;
    }
    try {
      this.#scanner.push(chunk);
      this.#run.flush();
    } catch (cause) {
      if (!(cause instanceof FrameError)) throw cause;
      // The server answers what came before, and then ends the session, which it does with any
      // frame that the scanner refuses.
      this.#isBroken = true;
      this.#run.flush();
      this.#state.outside.toServer(cause.rest);
    }
  }

  frame(type: number, bytes: Buffer, start: number, end: number): void {
    if (this.#state.isStale) this.#readSettings();
    switch (type) {
      case QUERY:
        this.#query(bytes, start, end);
        return;
      case PARSE:
        this.#parse(bytes, start, end);
        break;
      case BIND:
        this.#bind(bytes, start, end);
        break;
      case DESCRIBE:
        this.#begin(CLIENT.describe);
        break;
      case EXECUTE:
        this.#execute(bytes, start, end);
        return;
      case CLOSE:
        this.#statements.closed(
          String.fromCharCode(bytes[start + HEADER_BYTES] ?? 0),
          textAt(bytes, start + HEADER_BYTES + 1, end),
        );
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

  part(type: number, bytes: Buffer, { start, end, isFirst }: PartRange): void {
    if (isFirst) {
      if (this.#state.isStale) this.#readSettings();
      // Only a part of the text is here: nothing is known of it.
      if (type === QUERY) this.#expectQuery(UNSEEN_STATEMENT);
      else if (type === PARSE) {
        this.#statements.parsed(
          textAt(bytes, start + HEADER_BYTES, end),
          this.#partialInfo(bytes, start, end),
        );
        this.#begin(CLIENT.parse);
      } else if (type === BIND) this.#bind(bytes, start, end);
      else if (type === DESCRIBE) this.#begin(CLIENT.describe);
      else if (type === CLOSE) this.#begin(CLIENT.close);
      else if (type === EXECUTE) this.#expectExecute(UNSEEN_STATEMENT);
      else this.#other(type);
    }
    this.#run.add(bytes, start, end);
  }

  #other(type: number): void {
    const { expected } = this.#state;
    if (type === CALL) expected.push(CLIENT.call);
    else if (type === COPY_DONE || type === COPY_FAIL) expected.push(CLIENT.copyEnd);
    else if (type === TERMINATE) this.isOver = true;
  }

  #begin(expected: Expected): void {
    const state = this.#state;
    if (!this.#isInBatch) {
      this.#isInBatch = true;
      this.#isCheckable = true;
      this.#executed = 0;
      this.#beganIdleInBlock = state.expected.isEmpty && state.status === "T";
    }
    state.expected.push(expected);
  }

  #query(bytes: Buffer, start: number, end: number): void {
    const { expected, status } = this.#state;
    const info = statementInfo(bytes, start + HEADER_BYTES, end - 1);
    // Only then the server is sure to run what is sent now: an error without a Sync behind it makes
    // it skip the Query, which a Sync of ours would end, and a COPY takes our messages for data.
    const isIdle = expected.isEmpty && !expected.isSkipping && !this.#isInBatch;
    if (info.kind === "read" && info.isPlain && isIdle && status === "I") {
      this.#sendRead(bytes, start, end, info);
      return;
    }
    if (info.kind === "commit" && isIdle && status === "T") {
      this.#state.isReadOnlyCommit = null;
      this.#sendUnit("commit");
    }
    if (info.dropsStatements) this.#state.isPrepared = false;
    this.#expectQuery(info);
    this.#isInBatch = false;
    this.#run.add(bytes, start, end);
  }

  #expectQuery({ kind, isLocking }: StatementInfo): void {
    this.#state.expected.push({ message: "query", whose: "client", kind, isLocking });
  }

  /** As Parse, Bind, Describe, Execute, our check and Sync; answered as the Query that it was. */
  #sendRead(bytes: Buffer, start: number, end: number, { kind, isLocking }: StatementInfo): void {
    const { expected, outside } = this.#state;
    this.#run.flush();
    const text = bytes.subarray(start + HEADER_BYTES, end);
    outside.toServer(parseHeader("", text.length));
    outside.toServer(text);
    outside.toServer(READ_TAIL);
    expected.push(QUIET.parse);
    expected.push(QUIET.bind);
    expected.push(QUIET.describe);
    expected.push({ message: "execute", whose: "quiet", kind, isLocking });
    this.#sendCheck();
    // As behind a simple Query, there is no unnamed statement.
    outside.toServer(UNNAMED_CLOSE);
    outside.toServer(SYNC);
    expected.push(QUIET.close);
    expected.push(CLIENT.sync);
  }

  #sendCheck(): void {
    this.#state.prepareOwn();
    this.#state.outside.toServer(OWN_CHECK);
    this.#state.expectOwn("check");
  }

  #parse(bytes: Buffer, start: number, end: number): void {
    const nameEnd = bytes.indexOf(0, start + HEADER_BYTES);
    const textEnd = nameEnd < 0 ? -1 : bytes.indexOf(0, nameEnd + 1);
    if (nameEnd >= 0 && textEnd >= 0 && textEnd < end) {
      const name = bytes.toString("utf8", start + HEADER_BYTES, nameEnd);
      const info = statementInfo(bytes, nameEnd + 1, textEnd);
      this.#statements.parsed(name, info);
    }
    this.#begin(CLIENT.parse);
  }

  #partialInfo(bytes: Buffer, start: number, end: number): StatementInfo {
    const nameEnd = bytes.indexOf(0, start + HEADER_BYTES);
    if (nameEnd < 0 || nameEnd >= end) return UNSEEN_STATEMENT;
    return { ...statementInfo(bytes, nameEnd + 1, end), isLocking: true, isPlain: false };
  }

  #bind(bytes: Buffer, start: number, end: number): void {
    const portal = textAt(bytes, start + HEADER_BYTES, end);
    const portalEnd = bytes.indexOf(0, start + HEADER_BYTES);
    const statement = portalEnd < 0 ? "" : textAt(bytes, portalEnd + 1, end);
    this.#statements.bound(portal, statement);
    this.#begin(CLIENT.bind);
  }

  #execute(bytes: Buffer, start: number, end: number): void {
    const info = this.#statements.ofPortal(textAt(bytes, start + HEADER_BYTES, end));
    const { expected } = this.#state;
    if (info.kind === "commit" && this.#beganIdleInBlock && this.#executed === 0 && !expected.isSkipping) {
      // Nothing in front of it can fail in this block, and so our check cannot be in its way.
      this.#run.flush();
      this.#state.isReadOnlyCommit = null;
      this.#state.prepareOwn();
      this.#state.outside.toServer(OWN_CHECK);
      this.#state.expectOwn("inline");
    }
    if (info.dropsStatements) this.#state.isPrepared = false;
    this.#expectExecute(info);
    this.#run.add(bytes, start, end);
  }

  #expectExecute({ kind, isLocking }: StatementInfo): void {
    this.#begin({ message: "execute", whose: "client", kind, isLocking });
    this.#executed++;
    if (kind !== "read" && kind !== "checkable") this.#isCheckable = false;
  }

  #sync(bytes: Buffer, start: number, end: number): void {
    const { expected } = this.#state;
    const isWanted = this.#isCheckable && this.#executed > 0 && !this.#beganIdleInBlock;
    if (this.#isInBatch && isWanted && !expected.isSkipping && !expected.isCopying) {
      this.#run.flush();
      this.#sendCheck();
    }
    this.#isInBatch = false;
    this.#executed = 0;
    expected.push(CLIENT.sync);
    this.#run.add(bytes, start, end);
  }

  /**
   * Only while the server has nothing to do: behind a Query that turns out to be a COPY a statement
   * of ours would end the session.
   */
  #readSettings(): void {
    const { expected, status } = this.#state;
    if (this.#isInBatch || !expected.isEmpty || expected.isSkipping || status === "E") return;
    this.#state.isStale = false;
    this.#sendUnit("settings");
  }

  #sendUnit(purpose: "settings" | "commit"): void {
    this.#run.flush();
    this.#state.prepareOwn();
    this.#state.outside.toServer(OWN_UNIT);
    this.#state.expectOwn(purpose);
    this.#state.expected.push(OWN.sync);
  }

  transactionEnded(): void {
    this.#statements.transactionEnded();
  }
}

function textAt(bytes: Buffer, start: number, end: number): string {
  const stop = bytes.indexOf(0, start);
  return bytes.toString("utf8", start, stop < 0 || stop > end ? end : stop);
}
