// Sends several statements in one write with one Sync, on top of node-postgres. Its client owns the
// connection, and its codec the bytes.
import { type Connection, type DatabaseError, type Submittable } from "pg";
import { serialize } from "pg-protocol";
import { type StatementResult } from "@highwater/protocol";
import { type FieldDetails, type ResultLimits } from "../port.ts";
import { type PreparedStatements } from "./prepared.ts";

export interface Step {
  readonly sql: string;
  /** A Buffer is sent in the binary format. */
  readonly params: readonly (string | Buffer | null)[];
  /** Types that its sender has declared. The step has no name in the session. */
  readonly types?: readonly number[];
  /** Whether to ask for the names and types of the columns. */
  readonly describe: boolean;
  /** 0: no limit. More rows are left out, and the result is marked as truncated. */
  readonly maxRows: number;
  /**
   * Whether rows that are left out are still requested: only then does the server report how many
   * rows it has changed.
   */
  readonly countAll: boolean;
  /**
   * For a step of the service: the command tag that the server must answer. The step has no name in
   * the session.
   */
  readonly tag?: RegExp | string;
  /**
   * The step has a name in the session nevertheless, because its planning costs too much. `RESET`
   * must allow for it.
   */
  readonly isNamed?: true;
  /** The tag may be ROLLBACK: the step returns to a savepoint. */
  readonly mayRollBack?: true;
  /** The step is always the same: no parameters, no columns, no limit. */
  readonly isFixed?: true;
}

export interface PipelineOutcome {
  /**
   * Results of the steps that completed, in order. The first step without a result is the one that
   * failed, if any did.
   */
  readonly results: StatementResult[];
  readonly error: DatabaseError | null;
  /** Transaction status of the session afterwards: idle, in a transaction, in a failed one. */
  readonly status: "I" | "T" | "E";
  /** Whether rows were left out because they had too many bytes. */
  readonly isCut: boolean;
}

/** A row is an array of strings. Each has a header, and one or two bytes per character. */
const CHAR_BYTES = 2;
const VALUE_BYTES = 40;
const ROW_BYTES = 64;
/** A large row is in memory as a message, too. */
const LARGE_ROW_FACTOR = CHAR_BYTES + 1;
/** The meter is asked after this many bytes, and at the end. */
const METERED_BYTES = 64 * 1_024;
/**
 * The session is not in the state that the service's own statements put it into, so the outcome of
 * the transaction must be looked up.
 */
export class OutOfStep extends Error {}

const NOTHING = Buffer.alloc(0);
const SYNC = serialize.sync();
const DESCRIBE_PORTAL = serialize.describe({ type: "P", name: "" });

export interface PipelineLimits extends Pick<ResultLimits, "maxBytes" | "fieldDetails" | "meter"> {
  /** The session's transaction status when no step fails: idle, or in the transaction. */
  readonly leaves: "I" | "T";
}

interface Building {
  fields: { name: string; oid: number }[];
  rows: (string | null)[][];
  truncated: boolean;
}

/**
 * Writes all steps at once. Resolves at the server's ReadyForQuery, and rejects when the connection
 * is lost before that.
 */
export class Pipeline implements Submittable {
  readonly done: Promise<PipelineOutcome>;
  readonly #steps: readonly Step[];
  readonly #prepared: PreparedStatements;
  readonly #limits: PipelineLimits;
  readonly #results: StatementResult[] = [];
  #settle!: { resolve: (outcome: PipelineOutcome) => void; reject: (cause: unknown) => void };
  #current = freshResult();
  #error: DatabaseError | null = null;
  #bytes = 0;
  /** Bytes that the meter has not been asked for yet. */
  #unmetered = 0;
  /** Whether the next row has been counted. */
  #isCounted = false;
  #isCut = false;
  #onCut: () => void = () => undefined;
  /**
   * Statements that the server has been asked to parse and has not parsed yet. Later pipelines may
   * wait for them.
   */
  #unparsed = 0;
  #detach: () => void = () => undefined;
  /** The bytes that it writes in its turn, if these are not just its own messages. */
  #joined: Buffer | null = null;
  /** Statements of the service in one simple query, in place of steps. */
  #script: string | null = null;
  #outOfStep: string | null = null;

  constructor(steps: readonly Step[], prepared: PreparedStatements, limits: PipelineLimits) {
    this.#steps = steps;
    this.#prepared = prepared;
    this.#limits = limits;
    this.done = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
  }

  /**
   * Sends several statements of the service in one simple query. It needs no Sync, because it ends
   * like one.
   */
  static script(text: string, prepared: PreparedStatements): Pipeline {
    const pipeline = new Pipeline([], prepared, { maxBytes: 0, fieldDetails: false, leaves: "I" });
    pipeline.#script = text;
    return pipeline;
  }

  submit(connection: Connection): void {
    const onParsed = (): void => {
      this.#unparsed--;
      this.#prepared.confirmOne();
    };
    const onReady = (message: { status: "I" | "T" | "E" }): void => {
      this.#detach();
      this.#prepared.dropUnconfirmed(this.#unparsed);
      if (this.#unmetered > 0) this.#limits.meter?.note(this.#unmetered);
      const [results, error, isCut] = [this.#results, this.#error, this.#isCut];
      const outcome = { results, error, status: message.status, isCut };
      const outOfStep = this.#outOfStep ?? wrongStatus(this.#limits.leaves, this.#steps[0], outcome);
      if (outOfStep === null) this.#settle.resolve(outcome);
      else this.#settle.reject(new OutOfStep(outOfStep));
    };
    // node-postgres forgets a query after passing on its error. After a FATAL error only the
    // connection reports the end.
    const onEnd = (): void => {
      this.#detach();
      this.#settle.reject(this.#error ?? new Error("the connection ended"));
    };
    connection.on("parseComplete", onParsed);
    connection.on("readyForQuery", onReady);
    connection.on("end", onEnd);
    this.#detach = () => {
      connection.off("parseComplete", onParsed);
      connection.off("readyForQuery", onReady);
      connection.off("end", onEnd);
    };
    const bytes = this.#joined ?? Buffer.concat(this.#messages());
    if (bytes.length > 0) connection.stream.write(bytes);
  }

  /**
   * Makes the first of them write the messages of all. Each keeps its own Sync, so that a failure
   * ends its own transaction only. They must then be given to one client, in this order and with
   * nothing in between.
   */
  static join(pipelines: readonly Pipeline[]): void {
    const [first, ...others] = pipelines;
    if (first === undefined || others.length === 0) return;
    first.#joined = Buffer.concat(pipelines.flatMap((pipeline) => pipeline.#messages()));
    for (const other of others) other.#joined = NOTHING;
  }

  #messages(): Buffer[] {
    if (this.#script !== null) return [serialize.query(this.#script)];
    const messages: Buffer[] = [];
    for (const evicted of this.#prepared.takeEvicted())
      messages.push(serialize.close({ type: "S", name: evicted }));
    for (const step of this.#steps) {
      if ((step.tag !== undefined || step.types !== undefined) && step.isNamed !== true) {
        this.#unparsed++;
        this.#prepared.useUnnamed();
        messages.push(...unnamedMessages(step));
        continue;
      }
      const { name, isNew } = this.#prepared.use(step.sql);
      if (isNew) {
        this.#unparsed++;
        messages.push(serialize.parse({ name, text: step.sql }));
      }
      messages.push(...executionOf(name, step));
    }
    messages.push(SYNC);
    return messages;
  }

  #complete(command: string, rowCount: number): void {
    const { fields, rows, truncated } = this.#current;
    this.#results.push({
      command,
      rowCount,
      fields,
      rows,
      ...(truncated ? { truncated: true as const } : {}),
    });
    this.#current = freshResult();
  }

  handleRowDescription(message: { fields: RowField[] }): void {
    this.#current.fields =
      this.#limits.fieldDetails === true
        ? message.fields.map(detailed)
        : message.fields.map((field) => ({ name: field.name, oid: field.dataTypeID }));
  }

  /** Calls back once, when the first row is left out because of its bytes. */
  whenCut(onCut: () => void): void {
    this.#onCut = onCut;
    if (this.#isCut) onCut();
  }

  /** True if a large row may be kept. Asked before the row is read. */
  mayTakeRow(length: number): boolean {
    const step = this.#steps[this.#results.length];
    if (step?.describe !== true) return true;
    this.#isCounted = this.#takes(step, length, () => {
      const { meter } = this.#limits;
      return meter?.take(LARGE_ROW_FACTOR * length) ?? true;
    });
    return this.#isCounted;
  }

  #takes(step: Step, length: number, hasRoom: () => boolean): boolean {
    this.#bytes += length;
    const isFull = step.maxRows > 0 && this.#current.rows.length >= step.maxRows;
    if (!isFull && !this.#isCut && this.#bytes <= this.#limits.maxBytes && hasRoom()) return true;
    this.#current.truncated = true;
    if (isFull || this.#isCut) return false;
    this.#isCut = true;
    this.#onCut();
    return false;
  }

  #meterRow(message: { fields: readonly unknown[]; length: number }): boolean {
    this.#unmetered += ROW_BYTES + VALUE_BYTES * message.fields.length + CHAR_BYTES * message.length;
    if (this.#unmetered < METERED_BYTES) return true;
    if (this.#limits.meter?.take(this.#unmetered) === false) return false;
    this.#unmetered = 0;
    return true;
  }

  handleDataRow(message: { fields: (string | null)[]; length: number }): void {
    const { rows } = this.#current;
    const step = this.#steps[this.#results.length];
    // The service's own answers are never cut.
    if (step?.describe === true) {
      if (!this.#isCounted && !this.#takes(step, message.length, () => this.#meterRow(message))) return;
      this.#isCounted = false;
    }
    if (rows === NO_ROWS) this.#current.rows = [message.fields];
    else rows.push(message.fields);
  }

  handleCommandComplete(message: { text: string }): void {
    const step = this.#steps[this.#results.length];
    if (step !== undefined) this.#outOfStep ??= wrongTag(step, message.text);
    if (step?.describe !== true) {
      // The rows of a step of the service are not counted.
      this.#complete(message.text, 0);
      return;
    }
    const words = message.text.split(" ");
    const last = words.at(-1) ?? "";
    const counted = /^[0-9]+$/.test(last);
    // "INSERT 0 5", "UPDATE 3", "SELECT 7"; "CREATE TABLE" has no count.
    const command = counted ? (words[0] ?? "") : message.text;
    this.#complete(command, counted ? Number(last) : this.#current.rows.length);
  }

  handlePortalSuspended(): void {
    this.#current.truncated = true;
    this.#complete("SELECT", this.#current.rows.length);
  }

  handleEmptyQuery(): void {
    this.#complete("", 0);
  }

  handleError(error: Error): void {
    // An error message of the server ends the pipeline at its Sync, and ReadyForQuery follows. Any
    // other error is the end of the connection.
    if ("severity" in error && !this.#error) {
      this.#error = error as DatabaseError;
      return;
    }
    this.#detach();
    this.#settle.reject(this.#error ?? error);
  }

  handleReadyForQuery(): void {
    // Received directly from the connection, which also reports it after an error.
  }

  handleCopyInResponse(connection: Connection): void {
    (connection as unknown as { sendCopyFail(reason: string): void }).sendCopyFail(
      "COPY is not supported in a transaction of this service",
    );
  }

  handleCopyData(): void {
    // COPY TO is refused before it is sent; a function cannot start one.
  }
}

function executionOf(name: string, step: Step): Buffer[] {
  const bind = serialize.bind({ statement: name, values: step.params as (string | Buffer | null)[] });
  // Asks for one row more than wanted: at the limit itself the server would not report whether
  // there are more.
  const rows = step.maxRows === 0 || step.countAll ? 0 : step.maxRows + 1;
  const execute = serialize.execute({ portal: "", rows });
  return step.describe ? [bind, DESCRIBE_PORTAL, execute] : [bind, execute];
}

/** The texts contain the limits of keys, so there can be many. */
const FIXED_KEPT = 1_024;
const fixed = new Map<string, readonly Buffer[]>();

/** Returns the messages that parse and run a statement without a name. */
function unnamedMessages(step: Step): readonly Buffer[] {
  const known = step.isFixed === true ? fixed.get(step.sql) : undefined;
  if (known !== undefined) return known;
  const messages = [
    serialize.parse({ name: "", text: step.sql, types: step.types as number[] }),
    ...executionOf("", step),
  ];
  if (step.isFixed !== true) return messages;
  if (fixed.size >= FIXED_KEPT) fixed.clear();
  const one = [Buffer.concat(messages)];
  fixed.set(step.sql, one);
  return one;
}

/**
 * Only the service's own statements may begin and end transactions. EXECUTE answers with the tag of
 * the statement that it has run.
 */
const CONTROL_TAGS = new Set(["BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK", "PREPARE TRANSACTION"]);

/** Returns null if the step succeeded. */
function wrongTag(step: Step, tag: string): string | null {
  const { tag: wanted } = step;
  if (wanted === undefined) {
    if (!CONTROL_TAGS.has(tag) || step.mayRollBack === true) return null;
    return `a statement of the request was answered with ${tag}`;
  }
  const isRight = typeof wanted === "string" ? wanted === tag : wanted.test(tag);
  return isRight ? null : `${step.sql.slice(0, 40)} was answered with ${tag}`;
}

/**
 * Returns null if the session's status is as expected: idle or in the transaction, or in a failed
 * one after an error.
 */
function wrongStatus(
  leaves: "I" | "T",
  first: Step | undefined,
  { results, error, status }: PipelineOutcome,
): string | null {
  if (error === null) return status === leaves ? null : `the session is left in status ${status}`;
  const hasNotBegun = results.length === 0 && first?.tag === "BEGIN";
  const isRight = status === "E" || (status === "I" && (leaves === "I" || hasNotBegun));
  return isRight ? null : `the session is left in status ${status} by an error`;
}

interface RowField {
  readonly name: string;
  readonly tableID: number;
  readonly columnID: number;
  readonly dataTypeID: number;
  readonly dataTypeSize: number;
  readonly dataTypeModifier: number;
}

function detailed(field: RowField): FieldDetails {
  return {
    name: field.name,
    oid: field.dataTypeID,
    tableOid: field.tableID,
    columnNumber: field.columnID,
    typeSize: field.dataTypeSize,
    typeModifier: field.dataTypeModifier,
  };
}

/** Most results have no fields. No code writes to this array. */
const NO_FIELDS: Building["fields"] = [];
const NO_ROWS: Building["rows"] = [];

function freshResult(): Building {
  return { fields: NO_FIELDS, rows: NO_ROWS, truncated: false };
}
