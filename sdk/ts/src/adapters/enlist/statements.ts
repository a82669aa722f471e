// The texts that begin and end transactions, the statements that ride on COMMIT, and what an error
// of theirs means.
import { type HighwaterError, TransactionAbortedError } from "../../index.ts";
import { type Issued } from "./ticket-service.ts";

/** User code may have changed it; no lock may outlive the commit point. */
export const EARLY = "SET LOCAL synchronous_commit TO off";

/**
 * The receipt, where the transaction has written anything. The epoch is the one that the ticket
 * names, or the row has no id and is refused.
 */
export const RECEIPT = `INSERT INTO highwater.receipt (id, tag, epoch, digest)
SELECT CASE WHEN s.ids_from OPERATOR(pg_catalog.>) asked.id THEN NULL ELSE asked.id END, asked.tag, s.id, asked.digest
FROM (VALUES ($1::pg_catalog.uuid, $2::pg_catalog.uuid, $3::pg_catalog.uuid, $4::pg_catalog.int8)) asked (id, tag, epoch, digest)
LEFT JOIN highwater.current_epoch s ON s.id OPERATOR(pg_catalog.=) asked.epoch
WHERE pg_catalog.pg_current_xact_id_if_assigned() IS NOT NULL`;

export const receiptValues = ({ id, tag, epoch, digest }: Issued): string[] => [id, tag, epoch, digest];

export type Boundary = "begin" | "commit" | "rollback" | "refused" | undefined;

/** Other texts are not looked at. */
const FIRST = /^\s*(?:begin|start|commit|end|rollback|abort|prepare|--|\/\*|;)/i;
const BEGIN = /^(?:begin|start\s+transaction)\b[^;]*[\s;]*$/i;
const END = /^(?:(commit|end)|rollback|abort)(?:\s+(?:work|transaction))?(?:\s+and\s+no\s+chain)?[\s;]*$/i;
/**
 * The transaction would end without its receipt, or a second one would begin without a ticket.
 * PostgreSQL itself refuses COMMIT PREPARED inside a transaction.
 */
const REFUSED = /^(?:commit(?!\s+prepared)|end|(?:rollback|abort)[^;]*and\s+chain|prepare\s+transaction)\b/i;

/** A text of several statements is passed on as it is, but refused where COMMIT is the first. */
export function boundaryOf(text: string): Boundary {
  if (!FIRST.test(text)) return undefined;
  const bare = withoutComments(text).replace(/^[\s;]+/, "");
  const end = END.exec(bare);
  if (end !== null) return end[1] === undefined ? "rollback" : "commit";
  if (REFUSED.test(bare)) return "refused";
  return BEGIN.test(bare) && !/\bread\s+only\b/i.test(bare) ? "begin" : undefined;
}

/** Puts blanks for comments. The texts that are meant have no quotes before their semicolon. */
function withoutComments(text: string): string {
  let [depth, isLine] = [0, false];
  return text.replace(/\/\*|\*\/|--|[^-/*\n\r]+|[^]/g, (part) => {
    if (depth === 0 && part === "--") isLine = true;
    if (isLine) isLine = part !== "\n" && part !== "\r";
    else if (part === "/*") depth++;
    else if (depth === 0) return part;
    else if (part === "*/") depth--;
    return " ";
  });
}

interface ServerError {
  readonly code?: string;
  readonly severity?: string;
  readonly routine?: string;
}

/** The server itself said that the statement failed, and its session goes on. */
export function isRefusal(cause: unknown): boolean {
  const { severity, code } = (cause ?? {}) as ServerError;
  return severity === "ERROR" && code !== undefined;
}

/** The transaction had failed before: its COMMIT is a ROLLBACK. */
export const isFailed = (cause: unknown): boolean => (cause as ServerError).code === "25P02";

/**
 * What the server's refusal of the receipt means: another epoch (its NOT NULL or its policy, or a
 * node that takes no writes), or that the id was settled. Other errors are the application's own.
 */
export function refusalOf(cause: unknown, id: string): unknown {
  const { code = "", routine } = cause as ServerError;
  const isOfReceipt = code === "23505" || code === "23502" || code === "25006";
  if (!isOfReceipt && !(code === "42501" && routine === "ExecWithCheckOptions")) return cause;
  return aborted(id, "a failover, or the end of its ticket's time, has settled the transaction", cause);
}

export function aborted(id: string, message: string, cause?: unknown): HighwaterError {
  const about = { outcome: "not_applied", retry: "transaction", transactionId: id, cause } as const;
  return new TransactionAbortedError(`${message}: run it again`, { code: "transaction_aborted", ...about });
}
