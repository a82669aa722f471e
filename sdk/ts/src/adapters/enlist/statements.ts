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

const BEGIN = /^(?:begin|start\s+transaction)\b[^;]*;?$/i;
const COMMIT = /^(?:commit|end)(?:\s+(?:work|transaction))?(?:\s+and\s+no\s+chain)?\s*;?$/i;
const ROLLBACK = /^(?:rollback|abort)(?:\s+(?:work|transaction))?(?:\s+and\s+no\s+chain)?\s*;?$/i;
/** A second transaction would begin, or end elsewhere, without a ticket. */
const REFUSED = /^(?:(?:commit|end|rollback|abort)\b.*\band\s+chain\b|prepare\s+transaction\b)/i;

/** Of a text that is one statement. A text of several is passed on as it is. */
export function boundaryOf(text: string): Boundary {
  const trimmed = text.trim();
  if (COMMIT.test(trimmed)) return "commit";
  if (ROLLBACK.test(trimmed)) return "rollback";
  if (REFUSED.test(trimmed)) return "refused";
  return BEGIN.test(trimmed) && !/\bread\s+only\b/i.test(trimmed) ? "begin" : undefined;
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
