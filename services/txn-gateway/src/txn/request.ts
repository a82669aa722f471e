// Turns a request body into an accepted transaction: schema, defaults and the rules that need
// neither clock nor database.
import {
  type ValueAtRisk,
  BatchRequest,
  BeginRequest,
  CommitRequest,
  HighwaterError,
  type Isolation,
  LIMITS,
  openToken,
  parseTxnId,
  REDO_NAME,
  RollbackRequest,
  type Statement,
  StatementsRequest,
  type Static,
  TicketEnd,
  TicketEndsRequest,
  TicketRequest,
  TicketsRequest,
  type TokenContent,
  type TokenVerifier,
  TransactionRequest,
  type TSchema,
  type TxnId,
  validate,
} from "@highwater/protocol";

export type Ack = "commit" | "durable";

/** How a transaction runs. */
interface ExecutionOptions {
  readonly id: TxnId;
  readonly isolation: Isolation;
  readonly readOnly: boolean;
  readonly deferrable: boolean;
  readonly metadata: Readonly<Record<string, string>> | undefined;
  /** Not durable after so long: trackers report it. */
  readonly maxDelayMs: number | undefined;
  /** Undefined: as the gateway is set. */
  readonly keep?: boolean | undefined;
  /** The gateways bring it back if it is lost, unless its client waits for durability. */
  readonly onLost?: "replay" | undefined;
  readonly atRisk?: ValueAtRisk | undefined;
}

/** When its commit is answered. */
export interface Acknowledgement {
  readonly ack: Ack;
  readonly level: string;
  readonly maxWaitMs: number;
  /** A read that is answered with what is durable, or not at all. */
  readonly isDurableOnly?: boolean;
}

/** A token that this deployment has signed, and its text, for questions to trackers. */
export interface PresentedToken extends TokenContent {
  readonly text: string;
}

/**
 * Where a read may run. `local`: in the gateway's region, if what it must contain has got there.
 */
export interface ReadPlacement {
  readonly after: PresentedToken | null;
  readonly mode: "primary" | "local";
}

export interface Accepted extends ExecutionOptions, Acknowledgement {
  readonly statements: readonly Statement[];
  /** Null for a transaction that says nothing of it: the primary runs it. */
  readonly placement: ReadPlacement | null;
  /** The columns in full; for wires that show them. */
  readonly fieldDetails?: true;
}

export interface AcceptedBegin extends ExecutionOptions {
  readonly statements: readonly Statement[];
}

export interface AcceptedCommit extends Acknowledgement {
  readonly seq: number;
  readonly statements: readonly Statement[];
  /** Instead of that of the begin. */
  readonly maxDelayMs: number | undefined;
  /** Instead of that of the begin. */
  readonly atRisk?: ValueAtRisk | undefined;
}

export interface AcceptedTicket extends Pick<ExecutionOptions, "id" | "metadata" | "maxDelayMs" | "atRisk"> {
  readonly level: string;
}

export interface AcceptedEnd extends TicketEnd {
  /** Of the answer. */
  readonly level: string;
}

export interface RequestRules {
  /** Weakest first. */
  readonly levels: readonly string[];
  readonly maxWaitMs: number;
  readonly tokens: TokenVerifier;
}

const PREFERRED_LEVEL = "region";
const HALF_A_PAIR = "must not contain an unpaired surrogate";
const FAULTS_MAX = 20;

/** The level of a request that names none: `region` where it exists, or else the strongest. */
export function defaultLevel(levels: readonly string[]): string {
  const level = levels.includes(PREFERRED_LEVEL) ? PREFERRED_LEVEL : levels.at(-1);
  if (level === undefined) throw new Error("no level is configured");
  return level;
}

export function checkLevel(level: string | undefined, levels: readonly string[]): string {
  if (level === undefined) return defaultLevel(levels);
  if (levels.includes(level)) return level;
  throw new HighwaterError("unknown_level", {
    detail: `The level ${JSON.stringify(level)} is not configured; use one of ${levels.join(", ")}.`,
  });
}

export function checkId(text: string): TxnId {
  const id = parseTxnId(text);
  if (id === undefined)
    throw new HighwaterError("invalid_id", { detail: "The id must be a UUID of version 7." });
  return id;
}

/** Throws `invalid_request` with every fault, `invalid_id`, `invalid_token` or `unknown_level`. */
export function acceptRequest(body: unknown, rules: RequestRules): Accepted {
  const request = checked(TransactionRequest, body);
  const isDurableOnly = request.reads === "durable";
  const hasPlacement = request.after !== undefined || request.mode !== undefined || isDurableOnly;
  refuse([
    ...executionFaults(request),
    ...statementFaults(request.statements),
    ...(hasPlacement && request.readOnly !== true
      ? ["/readOnly: must be true with `after`, `mode` or `reads: durable`; writes run on the primary"]
      : []),
    ...(isDurableOnly && request.ack === "commit"
      ? ["/ack: must be `durable` or absent with `reads: durable`, which waits for durability"]
      : []),
  ]);
  return {
    ...executionOptionsOf(
      request,
      request.mode === "primary" || !hasPlacement ? "serializable" : "repeatable read",
    ),
    ...acknowledgementOf(request, rules),
    ...(isDurableOnly && { ack: "durable", isDurableOnly }),
    statements: request.statements,
    placement: hasPlacement ? { after: tokenOf(request.after, rules), mode: request.mode ?? "local" } : null,
  };
}

/**
 * Throws `invalid_request` for what is wrong with the whole; each transaction is for
 * `acceptRequest`.
 */
export function acceptBatch(body: unknown): BatchRequest {
  return checked(BatchRequest, body);
}

/** As `acceptBatch`; each is for `acceptTicket`. */
export function acceptTickets(body: unknown): TicketsRequest {
  return checked(TicketsRequest, body);
}

export function acceptTicket(body: unknown, { levels }: RequestRules): AcceptedTicket {
  const { id, level, metadata, maxDelayMs, atRisk } = checked(TicketRequest, body);
  return { id: checkId(id), level: checkLevel(level, levels), metadata, maxDelayMs, atRisk };
}

/** As `acceptBatch`; each is for `acceptEnd`. */
export function acceptEnds(body: unknown): TicketEndsRequest {
  return checked(TicketEndsRequest, body);
}

export function acceptEnd(body: unknown, { levels }: RequestRules): AcceptedEnd {
  return { ...checked(TicketEnd, body), level: defaultLevel(levels) };
}

export function acceptBegin(body: unknown): AcceptedBegin {
  const request = checked(BeginRequest, body);
  const statements = request.statements ?? [];
  refuse([...executionFaults(request), ...statementFaults(statements)]);
  return { ...executionOptionsOf(request, "serializable"), statements };
}

export function acceptStatements(body: unknown): StatementsRequest {
  const request = checked(StatementsRequest, body);
  refuse(statementFaults(request.statements));
  return request;
}

export function acceptCommit(body: unknown, rules: RequestRules): AcceptedCommit {
  const request = checked(CommitRequest, body);
  const statements = request.statements ?? [];
  refuse(statementFaults(statements));
  const { seq, maxDelayMs, atRisk } = request;
  return { seq, statements, maxDelayMs, atRisk, ...acknowledgementOf(request, rules) };
}

export function acceptRollback(body: unknown): RollbackRequest {
  return checked(RollbackRequest, body);
}

function checked<Schema extends TSchema>(schema: Schema, body: unknown): Static<Schema> {
  const found = validate(schema, body);
  if (!found.ok) throw invalid(found.faults);
  return found.value;
}

function refuse(faults: readonly string[]): void {
  if (faults.length > 0) throw invalid(faults);
}

function executionOptionsOf(
  request: Omit<BeginRequest, "statements">,
  isolation: Isolation,
): ExecutionOptions {
  return {
    id: checkId(request.id),
    isolation: request.isolation ?? isolation,
    readOnly: request.readOnly ?? false,
    deferrable: request.deferrable ?? false,
    metadata: request.metadata,
    maxDelayMs: request.maxDelayMs,
    keep: request.onLost === undefined ? request.keep : true,
    onLost: request.onLost,
    atRisk: request.atRisk,
  };
}

function acknowledgementOf(
  request: Pick<TransactionRequest, "ack" | "level" | "maxWaitMs">,
  rules: RequestRules,
): Acknowledgement {
  return {
    ack: request.ack ?? "commit",
    level: checkLevel(request.level, rules.levels),
    maxWaitMs: request.maxWaitMs ?? rules.maxWaitMs,
  };
}

function tokenOf(text: string | undefined, { tokens }: RequestRules): PresentedToken | null {
  if (text === undefined) return null;
  const content = openToken(text, tokens);
  if (content === undefined)
    throw new HighwaterError("invalid_token", { detail: "`after` is not a token of this deployment." });
  return { ...content, text };
}

function executionFaults(request: Omit<BeginRequest, "statements" | "id">): string[] {
  const { deferrable = false, readOnly = false, isolation = "serializable", keep, atRisk } = request;
  const { onLost, metadata = {} } = request;
  const isUseful = readOnly && isolation === "serializable";
  return [
    ...(deferrable && !isUseful
      ? ["/deferrable: only a serializable read-only transaction can wait for a safe snapshot"]
      : []),
    ...(atRisk !== undefined && readOnly
      ? ["/atRisk: only a transaction that writes can lose something"]
      : []),
    ...(keep === true && readOnly ? ["/keep: only a transaction that writes can be kept"] : []),
    ...(onLost !== undefined && (readOnly || keep === false)
      ? ["/onLost: only a transaction that writes, and is kept, can be brought back"]
      : []),
    ...(onLost !== undefined && Object.keys(metadata).length >= LIMITS.metadataEntries
      ? [`/metadata: must have fewer than ${String(LIMITS.metadataEntries)} entries with \`onLost\``]
      : []),
    ...(Object.hasOwn(metadata, REDO_NAME) ? [`/metadata: the name ${REDO_NAME} is the service's`] : []),
  ];
}

/**
 * PostgreSQL's wire ends a text at its first zero character, and half of a surrogate pair has no
 * UTF-8: with either, another text would arrive than the one that was sent.
 */
function statementFaults(statements: readonly Statement[]): string[] {
  const faults: string[] = [];
  for (const [index, { sql, params = [] }] of statements.entries()) {
    const path = `/statements/${String(index)}`;
    if (sql.includes("\0")) faults.push(`${path}/sql: must not contain a zero character`);
    if (!sql.isWellFormed()) faults.push(`${path}/sql: ${HALF_A_PAIR}`);
    for (const [at, param] of params.entries())
      if (typeof param === "string" && !param.isWellFormed())
        faults.push(`${path}/params/${String(at)}: ${HALF_A_PAIR}`);
  }
  return faults.slice(0, FAULTS_MAX);
}

function invalid(faults: readonly string[]): HighwaterError {
  return new HighwaterError("invalid_request", { detail: faults.join("; "), fields: faults });
}
