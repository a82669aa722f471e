// The texts that begin and end transactions, the statements that ride on COMMIT, and what an error
// of theirs means.
import { aborted } from "./outcomes.ts";
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
const ENDS = /\b(?:commit|end|prepare)\b/i;
const BEGIN = /^(?:begin|start\s+transaction)\b[^;]*[\s;]*$/i;
const END = /^(?:(commit|end)|rollback|abort)(?:\s+(?:work|transaction))?(?:\s+and\s+no\s+chain)?[\s;]*$/i;
/**
 * The transaction would end without its receipt, or a second one would begin without a ticket.
 * PostgreSQL itself refuses COMMIT PREPARED inside a transaction.
 */
const REFUSED = /^(?:commit(?!\s+prepared)|end|(?:rollback|abort)[^;]*and\s+chain|prepare\s+transaction)\b/i;
/** The same for a later statement of a text. */
const REFUSED_LATER = /;\s*(?:commit(?!\s+prepared)|end|prepare\s+transaction)\b/i;
/** The body of a function, whose END ends no transaction. */
const ATOMIC = /\bbegin\s+atomic\b/i;
const REFUSED_LATER_ATOMIC = /;\s*(?:commit(?!\s+prepared)|prepare\s+transaction)\b/i;

/** A text of several statements is passed on as it is, but refused if one of them is COMMIT. */
export function boundaryOf(text: string): Boundary {
  if (!FIRST.test(text) && !(text.includes(";") && ENDS.test(text))) return undefined;
  const bare = bareOf(text).replace(/^[\s;]+/, "");
  const end = END.exec(bare);
  if (end !== null) return end[1] === undefined ? "rollback" : "commit";
  const later = ATOMIC.test(bare) ? REFUSED_LATER_ATOMIC : REFUSED_LATER;
  if (REFUSED.test(bare) || later.test(bare)) return "refused";
  return BEGIN.test(bare) && !/\bread\s+only\b/i.test(bare) ? "begin" : undefined;
}

const MARK = /['"]|(?<![\w$\x80-\uffff])\$(?:[a-z_\x80-\uffff][\w\x80-\uffff]*)?\$|--|\/\*/gi;
const NEWLINE = /[\n\r]/g;
const COMMENT = /\/\*|\*\//g;

/**
 * Puts blanks for comments, and `''` for what is quoted. It ends where it is not certain what is
 * quoted: a backslash may hide the end of the quotes.
 */
function bareOf(text: string): string {
  let bare = "";
  for (let at = 0; ;) {
    MARK.lastIndex = at;
    const mark = MARK.exec(text);
    if (mark === null) return bare + text.slice(at);
    bare += text.slice(at, mark.index);
    const isComment = mark[0] === "--" || mark[0] === "/*";
    const start = MARK.lastIndex;
    const end = isComment ? endOfComment(text, start, mark[0]) : text.indexOf(mark[0], start);
    const isPlain = mark[0] === "'" || mark[0] === '"';
    const isCertain = isComment || (end >= 0 && !(isPlain && text.slice(start, end).includes("\\")));
    bare += isComment ? " " : "''";
    if (!isCertain) return bare;
    at = isComment ? end : end + mark[0].length;
  }
}

/** Comments nest. One without an end is as long as the text. */
function endOfComment(text: string, start: number, mark: string): number {
  const ends = mark === "--" ? NEWLINE : COMMENT;
  ends.lastIndex = start;
  for (let depth = 1; depth > 0;) {
    const found = ends.exec(text);
    if (found === null) return text.length;
    depth += found[0] === "/*" ? 1 : -1;
  }
  return ends.lastIndex;
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
