// The state that both legs of a session share.
import { ExpectedAnswers, type Expected, OWN, type Purpose, QUIET } from "./expected.ts";
import { type Change, Doubts } from "./doubts.ts";
import { type HoldQueue, type Gate } from "./hold-queue.ts";
import { type OwnAttempt } from "./attempt.ts";
import { type Position } from "../positions.ts";
import { Recorder, type RecordedStatements } from "./recorder.ts";
import { FLUSH, query, type Report, SYNC } from "../frames/build.ts";
import {
  DEFAULT_SETTINGS,
  OWN_BORDER,
  OWN_CHECK,
  OWN_CHECK_UNNAMED,
  type OwnMessages,
  ownReceipt,
  UNNAMED_BORDER,
  type ReceiptValues,
  type Settings,
} from "./own.ts";

export type TransactionStatus = "I" | "T" | "E";

/** `later`: the shell wakes the client leg when the write may go on. A report: why it may not. */
export type Admission = "now" | "later" | Report;

const HEADER_BYTES = 5;
const ROLLBACK = query("ROLLBACK");

/** The status in a ReadyForQuery. */
export function statusAt(bytes: Buffer, start: number): TransactionStatus {
  return String.fromCharCode(bytes[start + HEADER_BYTES] ?? 0) as TransactionStatus;
}

/** What a replica showed before a read began. */
export interface Look extends Position {
  readonly atMs: number;
  /** Age of the newest commit; null: unknown. */
  readonly ageMs: number | null;
}

/** The model's requests to the shell. */
export interface Outside {
  toServer(bytes: Buffer): void;
  /** Reads the log's end now, and opens the gate when that position is durable at its level. */
  wait(gate: Gate): void;
  /** Opens the gate with an error that gives the outcome of the id's earlier transaction. */
  explain(used: ReceiptValues, gate: Gate): void;
  /** Warns about wrong settings, once for each change. */
  warn(faults: readonly string[]): void;
  /**
   * Gives a transaction that is about to commit an id, and announces it. Null: the transaction gets
   * no receipt and is answered when it is durable. `ran`: what is to be kept of it; null: nothing.
   */
  attempt(ran: RecordedStatements | null): OwnAttempt | null;
  /** The strongest of the configured levels. */
  strictestLevel(): string;
  /** Whether a transaction in commit mode may begin to write. */
  admission(): Admission;
  /**
   * On the read port: a statement waits until the server shows the token's transaction. Without a
   * token, until it is known how old the replica's state is.
   */
  await(token: string): void;
  /** The server was a replica and has been promoted. */
  promoted(): void;
  /** The server's answers are not PostgreSQL's: the session has to end. */
  broken(reason: string): void;
}

/** A statement of ours has failed, and its transaction with it. */
export interface Failure {
  readonly bytes: Buffer;
  /** The values of this transaction's receipt, when the store already has a receipt of its id. */
  readonly used: ReceiptValues | null;
}

interface StateParts {
  readonly outside: Outside;
  readonly own: OwnMessages;
  readonly isReader?: boolean;
  readonly isAtReplica?: boolean;
  readonly least?: string | null;
  readonly keeping?: Keeping | null;
}

/** How the session's transactions are kept. */
export interface Keeping {
  readonly mostBytes: number;
  readonly isDefault: boolean;
}

export class SessionState {
  readonly expected = new ExpectedAnswers();
  readonly client: HoldQueue;
  readonly outside: Outside;
  readonly own: OwnMessages;
  /** As the last ReadyForQuery reported. */
  status: TransactionStatus = "I";
  settings: Settings = DEFAULT_SETTINGS;
  /** The texts from which the settings were read. */
  settingsText = "";
  /** The settings may have changed. They are read before the client's next message is sent. */
  isStale = true;
  /**
   * A text that may change the settings, or a batch that drops our statements, was sent, and the
   * server has not been idle with known settings since.
   */
  mayHaveSet = false;
  readonly doubts = new Doubts();
  /** Something without a receipt has committed while it was in doubt whether an id is set. */
  mayHaveLostId = false;
  /** Why they could not be read. */
  unread: Buffer | null = null;
  /** The check is prepared. */
  isPrepared = false;
  /** The statement that writes receipts is prepared. */
  isReceiptPrepared = false;
  isKeptPrepared = false;
  /** `current_user`, as the server last reported it. */
  role: string | null = null;
  /** Whether a role can write receipts in this database. Null: not probed yet. */
  probed: { readonly role: string | null; readonly canWrite: boolean } | null = null;
  /** The transaction whose receipt the gateway has sent. */
  asked: OwnAttempt | null = null;
  /** The same transaction, once the server has confirmed its receipt. */
  receipted: OwnAttempt | null = null;
  /** The block has executed statements that write. */
  hasWrittenInBlock = false;
  /** The error of our statement before a COMMIT. The client gets it instead of the answer. */
  failure: Failure | null = null;
  /** The client's messages up to its next Sync are dropped, as the server does after an error. */
  isDiscarding = false;
  /** The client has a token of an earlier transaction. */
  hasOldToken = false;
  /** It knows whether an earlier transaction is kept. */
  hasSaidKept = false;
  /** The gate of its last transaction's answer; null when that transaction has not committed. */
  lastCommit: Gate | null = null;
  /** What the check before a COMMIT found; null when there was no check. */
  isReadOnlyCommit: boolean | null = null;

  /** Null: nothing can be kept. */
  readonly recorder: Recorder | null;
  readonly #keepsByDefault: boolean;
  /** The key's minimum level; null: none. */
  readonly least: string | null;
  /** The session connected to the read port. */
  readonly isReader: boolean;
  /** Nothing commits in the session. */
  readonly isAtReplica: boolean;
  /** The token whose transaction its reads have to see; empty: none. */
  after = "";
  /** The server may not show the token's transaction yet: the client's reads wait. */
  isAwaiting = false;
  /** Of the transaction that runs; null: not known. */
  look: Look | null = null;
  /** Of the next transaction; null: not asked yet. */
  nextLook: { readonly found: Look | null } | null = null;
  /** Why the token's transaction will not arrive: the answer to the next read. */
  refusal: Report | null = null;

  constructor(
    client: HoldQueue,
    { outside, own, isReader = false, isAtReplica = false, least = null, keeping = null }: StateParts,
  ) {
    this.client = client;
    this.outside = outside;
    this.own = own;
    this.least = least;
    this.recorder = keeping === null || isReader ? null : new Recorder(keeping.mostBytes);
    this.#keepsByDefault = keeping?.isDefault === true;
    this.isReader = isReader;
    this.isAtReplica = isAtReplica;
  }

  /** A durable-only read at a replica has to say how old it is. */
  get wantsLook(): boolean {
    return this.isAtReplica && this.settings.isDurableOnly && this.status === "I" && this.nextLook === null;
  }

  /** What an answer has to keep to now. */
  get inForce(): Settings {
    if (this.doubts.isEmpty) return this.settings;
    return this.doubts.inForce(this.settings, this.outside.strictestLevel());
  }

  /** A text may have changed the settings. */
  doubt(change: Change): void {
    this.doubts.add(change, this.settings);
    this.isStale = true;
  }

  /** The transaction has ended, or went back to a savepoint. */
  reverted(isEnd: boolean): void {
    if (this.doubts.revert(isEnd)) this.isStale = true;
  }

  /** This session's transactions are to have receipts. */
  get wantsReceipts(): boolean {
    if (this.settings.ack === "durable" && this.settings.id === null) return false;
    // A receipt that the role cannot write would undo its transaction.
    return this.probed?.canWrite === true && this.isProbed;
  }

  /** The contents of transactions with receipts are kept. */
  get keeps(): boolean {
    return this.recorder !== null && this.wantsReceipts && (this.settings.keep ?? this.#keepsByDefault);
  }

  /** With an id every transaction may get a receipt, because it must not run twice. */
  get hasId(): boolean {
    return this.settings.id !== null;
  }

  /**
   * Sends the check, with the receipt if the transaction is to have one. `isOurs`: the unnamed
   * portal of the batch is not the client's.
   */
  sendCheck(purpose: Purpose, mayHaveReceipt: boolean, isOurs = false): void {
    const isReceipted = mayHaveReceipt && this.wantsReceipts;
    const ran = isReceipted && this.keeps ? (this.recorder?.take() ?? null) : null;
    const attempt = isReceipted ? this.outside.attempt(ran) : null;
    if (attempt === null) {
      if (isOurs) {
        this.outside.toServer(UNNAMED_BORDER);
        this.expected.push(QUIET.close);
      }
      // An error in the batch makes the server skip our Parse. The next unit waits to know that.
      if (purpose === "check" && !this.isPrepared) this.mayHaveSet = true;
      if (!isOurs || !this.isPrepared)
        this.#begin(this.isPrepared, this.isReader ? this.own.readPrepare : this.own.prepare);
      this.isPrepared = true;
      this.outside.toServer(isOurs ? OWN_CHECK_UNNAMED : OWN_CHECK);
    } else {
      const { isKept, receipt } = attempt;
      if (isKept) this.#begin(this.isKeptPrepared, this.own.keptPrepare);
      else this.#begin(this.isReceiptPrepared, this.own.receiptPrepare);
      this.isKeptPrepared ||= isKept;
      this.isReceiptPrepared ||= !isKept;
      this.outside.toServer(ownReceipt(receipt, isKept));
      this.asked = attempt;
    }
    this.expected.push(OWN.bind);
    this.expected.push(OWN_EXECUTE[purpose]);
    if (attempt !== null || !isOurs) this.expected.push(OWN.close);
  }

  /** It is known whether the current role can write receipts. */
  get isProbed(): boolean {
    return this.probed !== null && this.probed.role === this.role;
  }

  /** Messages before the answer to this Close belong to the client's message before it. */
  #begin(isPrepared: boolean, prepare: Buffer): void {
    this.outside.toServer(isPrepared ? OWN_BORDER : prepare);
    this.expected.push(QUIET.close);
    if (!isPrepared) this.expected.push(OWN.parse);
  }

  /**
   * Makes the server show how a COPY has ended that had Syncs among its data. The fence ends the
   * skipping behind a failed COPY. Its Close is answered behind its first Sync, so the last
   * ReadyForQuery before that answer belongs to the fence.
   */
  clarify(): void {
    const { expected, outside } = this;
    if (expected.hasUnclearSync) {
      for (const bytes of [SYNC, OWN_BORDER, SYNC]) outside.toServer(bytes);
      expected.pushFence();
    } else this.collect();
  }

  /** Makes the server send the answers that it owes. */
  collect(): void {
    this.outside.toServer(FLUSH);
    this.expected.push(OWN.flush);
  }

  /** The server may have dropped all prepared statements. */
  forgetPrepared(): void {
    this.isPrepared = false;
    this.isReceiptPrepared = false;
    this.isKeptPrepared = false;
  }

  /** Sends the error to the client. If the id has a receipt already, that is looked up first. */
  sendFailure({ bytes, used }: Failure): void {
    if (used === null) this.client.push(bytes);
    else this.outside.explain(used, this.client.gate(false));
  }

  /** The client gets the error that has undone its block, and the block is ended for it. */
  undo(failure: Failure): void {
    this.sendFailure(failure);
    this.outside.toServer(ROLLBACK);
    this.expected.push(OWN.query);
  }

  /** The transaction has not committed. */
  rolledBack(): void {
    this.asked?.withdraw();
    this.receipted?.withdraw();
    this.asked = null;
    this.receipted = null;
  }
}

const OWN_EXECUTE: Readonly<Record<Purpose, Expected>> = {
  check: { message: "execute", whose: "own", purpose: "check" },
  settings: { message: "execute", whose: "own", purpose: "settings" },
  commit: { message: "execute", whose: "own", purpose: "commit" },
  probe: { message: "execute", whose: "own", purpose: "probe" },
  awaited: { message: "execute", whose: "own", purpose: "awaited" },
  inline: { message: "execute", whose: "own", purpose: "inline" },
};
