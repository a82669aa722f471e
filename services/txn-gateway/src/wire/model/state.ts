// What both legs of a session know.
import { ExpectedAnswers, type Expected, OWN, type Purpose, QUIET } from "./expected.ts";
import { type HoldQueue, type Gate } from "./hold-queue.ts";
import { type OwnAttempt } from "./attempt.ts";
import { type Report } from "../frames/build.ts";
import {
  DEFAULT_SETTINGS,
  OWN_BORDER,
  OWN_CHECK,
  OWN_PREPARE,
  READ_PREPARE,
  ownReceipt,
  RECEIPT_PREPARE,
  type ReceiptValues,
  type Settings,
} from "./own.ts";

export type TransactionStatus = "I" | "T" | "E";

/** `later`: the shell lets the client leg go on. A report: why it may not. */
export type Admission = "now" | "later" | Report;

const HEADER_BYTES = 5;

/** Of a ReadyForQuery. */
export function statusAt(bytes: Buffer, start: number): TransactionStatus {
  return String.fromCharCode(bytes[start + HEADER_BYTES] ?? 0) as TransactionStatus;
}

/** What the model asks of the shell. */
export interface Outside {
  toServer(bytes: Buffer): void;
  /** Asks for a position now, and opens the gate when what lies below is as safe as was asked. */
  wait(gate: Gate): void;
  /** Opens the gate with an error that says what became of the earlier transaction of the id. */
  explain(used: ReceiptValues, gate: Gate): void;
  /** Settings that are wrong, said once for each change. */
  warn(faults: readonly string[]): void;
  /**
   * A transaction that is about to commit gets its id, and is announced. Null: it is not to have a
   * receipt, and is answered when it is durable.
   */
  attempt(): OwnAttempt | null;
  /** Whether a transaction in commit mode may begin to write. */
  admission(): Admission;
  /** On the read port: something waits for what the token stands for. */
  await(token: string): void;
  /** The server was a replica, and is none any more. */
  promoted(): void;
  /** The server does not answer as PostgreSQL does: the session cannot go on. */
  broken(reason: string): void;
}

/** A statement of ours has failed, and its transaction with it. */
export interface Failure {
  readonly bytes: Buffer;
  /** A receipt of its id was there already: this transaction's own. */
  readonly used: ReceiptValues | null;
}

export class SessionState {
  readonly expected = new ExpectedAnswers();
  readonly client: HoldQueue;
  readonly outside: Outside;
  /** As the last ReadyForQuery said. */
  status: TransactionStatus = "I";
  settings: Settings = DEFAULT_SETTINGS;
  /** The texts that they were read from. */
  settingsText = "";
  /** They may have changed: they are read before the next message of the client is sent on. */
  isStale = true;
  /** A text that names them was sent, and they were not read since. */
  mayHaveSet = false;
  /** Our statement is prepared. */
  isPrepared = false;
  /** The same of the statement that writes receipts. */
  isReceiptPrepared = false;
  /** `current_user`, as the server said last. */
  role: string | null = null;
  /** Whether a role can write receipts in this database. Null: it is not known of any. */
  probed: { readonly role: string | null; readonly canWrite: boolean } | null = null;
  /** The receipt of this transaction was asked for. */
  asked: OwnAttempt | null = null;
  /** The server has said that this transaction has its receipt. */
  receipted: OwnAttempt | null = null;
  /** The block has statements that write. */
  hasWrittenInBlock = false;
  /** An error of ours in front of a COMMIT: it goes out instead of the answer. */
  failure: Failure | null = null;
  /** The client has a token that is not that of its last transaction. */
  hasOldToken = false;
  /** Before the answer to its last transaction, if that has committed and has ended. */
  lastCommit: Gate | null = null;
  /** What the check in front of a COMMIT has found; null: there was none. */
  isReadOnlyCommit: boolean | null = null;

  /** The session came to the read port. */
  readonly isReader: boolean;
  /** The token that its reads have to see; empty: none. */
  after = "";
  /** It is not known that what the token stands for has arrived: reads of the client wait. */
  isAwaiting = false;
  /** The answer to the next read instead: why it will not arrive. */
  refusal: Buffer | null = null;

  constructor(client: HoldQueue, outside: Outside, isReader = false) {
    this.client = client;
    this.outside = outside;
    this.isReader = isReader;
  }

  /** Transactions of this session are to have receipts. */
  get wantsReceipts(): boolean {
    if (this.settings.ack === "durable" && this.settings.id === null) return false;
    // A receipt that the role cannot write would undo its transaction.
    return this.probed?.canWrite === true && this.isProbed;
  }

  /** Then every transaction may have a receipt: with an id it must not run twice. */
  get hasId(): boolean {
    return this.settings.id !== null;
  }

  /** The check, with the receipt where the transaction is to have one. */
  sendCheck(purpose: Purpose, mayHaveReceipt: boolean): void {
    const attempt = mayHaveReceipt && this.wantsReceipts ? this.outside.attempt() : null;
    if (attempt === null) {
      this.#begin(this.isPrepared, this.isReader ? READ_PREPARE : OWN_PREPARE);
      this.isPrepared = true;
      this.outside.toServer(OWN_CHECK);
    } else {
      this.#begin(this.isReceiptPrepared, RECEIPT_PREPARE);
      this.isReceiptPrepared = true;
      this.outside.toServer(ownReceipt(attempt.receipt));
      this.asked = attempt;
    }
    this.#expectOwn(purpose);
  }

  /** It is known whether the current role can write receipts. */
  get isProbed(): boolean {
    return this.probed !== null && this.probed.role === this.role;
  }

  /** What comes before the answer to the first message is of the client's in front of it. */
  #begin(isPrepared: boolean, prepare: Buffer): void {
    this.outside.toServer(isPrepared ? OWN_BORDER : prepare);
    this.expected.push(QUIET.close);
    if (!isPrepared) this.expected.push(OWN.parse);
  }

  /** All prepared statements may be gone. */
  forgetPrepared(): void {
    this.isPrepared = false;
    this.isReceiptPrepared = false;
  }

  /** The error goes to the client. A receipt that was there already has to be looked up first. */
  sendFailure({ bytes, used }: Failure): void {
    if (used === null) this.client.push(bytes);
    else this.outside.explain(used, this.client.gate(false));
  }

  /** The transaction has not committed. */
  rolledBack(): void {
    this.asked?.withdraw();
    this.receipted?.withdraw();
    this.asked = null;
    this.receipted = null;
  }

  #expectOwn(purpose: Purpose): void {
    this.expected.push(OWN.bind);
    this.expected.push(OWN_EXECUTE[purpose]);
    this.expected.push(OWN.close);
  }
}

const OWN_EXECUTE: Readonly<Record<Purpose, Expected>> = {
  check: { message: "execute", whose: "own", purpose: "check" },
  settings: { message: "execute", whose: "own", purpose: "settings" },
  commit: { message: "execute", whose: "own", purpose: "commit" },
  probe: { message: "execute", whose: "own", purpose: "probe" },
  inline: { message: "execute", whose: "own", purpose: "inline" },
};
