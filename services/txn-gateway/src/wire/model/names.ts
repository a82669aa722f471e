// The statements that the client's messages prepare, and those that they run by a name.
import { type PartRange } from "../frames/scanner.ts";
import { type FoundInText, LongText } from "./long-text.ts";
import { SqlNames } from "./sql-names.ts";
import {
  firstKind,
  type StatementInfo,
  statementInfo,
  takesSnapshot,
  UNSEEN_STATEMENT,
} from "./statement.ts";
import { Statements } from "./statements.ts";

const HEADER_BYTES = 5;
const [BIND, EXECUTE, DESCRIBE, CLOSE] = [..."BEDC"].map((type) => type.charCodeAt(0));

export class Names {
  readonly #statements = new Statements();
  readonly #sqlNames = new SqlNames();
  /** A text in parts. Of a Parse: what its first part shows, and the statement's name. */
  #text = new LongText("other");
  #textStart = UNSEEN_STATEMENT;
  #textName = "";

  /** `bytes[start..end)` is a Parse. */
  parsed(bytes: Buffer, start: number, end: number): void {
    const nameEnd = bytes.indexOf(0, start + HEADER_BYTES);
    const textEnd = nameEnd < 0 ? -1 : bytes.indexOf(0, nameEnd + 1);
    if (nameEnd < 0 || textEnd < 0 || textEnd >= end) return;
    const name = bytes.toString("utf8", start + HEADER_BYTES, nameEnd);
    this.#parsed(name, statementInfo(bytes, nameEnd + 1, textEnd));
  }

  #parsed(name: string, info: StatementInfo): void {
    this.#statements.parsed(name, info);
    this.#sqlNames.parsed(name, info);
  }

  bound(bytes: Buffer, start: number, end: number): void {
    const portal = textAt(bytes, start + HEADER_BYTES, end);
    this.#statements.bound(portal, boundName(bytes, start, end));
    this.#sqlNames.bound(portal);
  }

  closed(bytes: Buffer, start: number, end: number): void {
    const kind = String.fromCharCode(bytes[start + HEADER_BYTES] ?? 0);
    this.#statements.closed(kind, textAt(bytes, start + HEADER_BYTES + 1, end));
  }

  /** Whether the message takes a snapshot, judging by the first word of its statement. */
  takesSnapshot(type: number, bytes: Buffer, start: number, end: number): boolean {
    if (type === BIND) return this.#statements.of(boundName(bytes, start, end)).takesSnapshot;
    if (type === EXECUTE) return this.ofExecute(bytes, start, end).takesSnapshot;
    if (type === DESCRIBE || type === CLOSE) return false;
    return takesSnapshot(type, bytes, start, end);
  }

  /** The statement of an Execute. */
  ofExecute(bytes: Buffer, start: number, end: number): StatementInfo {
    return this.#statements.ofPortal(textAt(bytes, start + HEADER_BYTES, end));
  }

  /** The statement goes to the server. Adds what it does by the names in it. */
  used(info: StatementInfo): StatementInfo {
    if (info.names === null) return info;
    const { isLocking, changes } = this.#sqlNames.used(info.names, info.changes);
    if (changes === null && (info.isLocking || !isLocking)) return info;
    return { ...info, isLocking: info.isLocking || isLocking, changes: changes ?? info.changes };
  }

  /**
   * A part of a Query that is too long to be read whole. With the last part it returns what the
   * text seems to change; null: nothing.
   */
  queryPart(bytes: Buffer, { start, end, isFirst, isLast }: PartRange): FoundInText | null {
    const textStart = isFirst ? start + HEADER_BYTES : start;
    if (isFirst) this.#text = new LongText(firstKind(bytes, textStart, end));
    this.#text.see(bytes, textStart, end);
    const found = isLast ? this.#text.found : null;
    if (found !== null) this.#sqlNames.mayHide = true;
    return found;
  }

  /** The same of a Parse. */
  parsePart(bytes: Buffer, { start, end, isFirst, isLast }: PartRange): void {
    let textStart = start;
    if (isFirst) {
      const nameEnd = bytes.indexOf(0, start + HEADER_BYTES);
      textStart = nameEnd < 0 || nameEnd >= end ? end : nameEnd + 1;
      this.#textName = textAt(bytes, start + HEADER_BYTES, end);
      this.#textStart = statementInfo(bytes, textStart, end);
      this.#text = new LongText(this.#textStart.kind);
    }
    this.#text.see(bytes, textStart, end);
    if (!isLast) return;
    const { names, changes } = UNSEEN_STATEMENT;
    const info = { ...this.#textStart, isLocking: true, isPlain: false, names, ...this.#text.found };
    const isUnseen = info.kind === "checkable" && info.changes === null;
    this.#parsed(this.#textName, isUnseen ? { ...info, changes } : info);
  }

  /** The server is idle. */
  transactionEnded(): void {
    this.#statements.transactionEnded();
    this.#sqlNames.transactionEnded();
  }
}

/** The statement's name in a Bind. */
function boundName(bytes: Buffer, start: number, end: number): string {
  const portalEnd = bytes.indexOf(0, start + HEADER_BYTES);
  return portalEnd < 0 ? "" : textAt(bytes, portalEnd + 1, end);
}

function textAt(bytes: Buffer, start: number, end: number): string {
  const stop = bytes.indexOf(0, start);
  return bytes.toString("utf8", start, stop < 0 || stop > end ? end : stop);
}
