// What CockroachDB understands and PostgreSQL does not, and a request may not send: each of these
// ends the transaction behind the service.
import { HighwaterError, type Statement, type TxnId } from "@highwater/protocol";
import { leadingWords } from "../postgres/statement-guard.ts";

/** Its release commits the transaction, and rolling back to it begins it anew. */
const RESTART_SAVEPOINT = /^"?cockroach_restart"?$/i;
/** They commit what came before, or run outside of the transaction. */
const OUTSIDE = new Set(["BACKUP", "RESTORE", "IMPORT", "EXPORT", "CANCEL", "PAUSE", "RESUME"]);

/** With it, DDL commits what came before it in the transaction, the receipt included. */
const COMMITS_BEFORE_DDL = /\bautocommit_before_ddl\b/i;

/** A read's time is that of its token. With another one, the server would refuse it in mid-run. */
const AS_OF = /\bas\s+of\s+system\s+time\b/i;
/** Comments, and what stands in quotes. */
const NOT_CODE =
  /--[^\n\r]*|\/\*[\s\S]*?\*\/|\be'(?:[^'\\]|\\[\s\S]|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(\w*)\$[\s\S]*?\$\1\$/gi;

/** Errors: `transaction_control`. */
export function refuseForCockroach(statements: readonly Statement[], id?: TxnId): void {
  for (const [index, { sql }] of statements.entries()) {
    const why = refusedFor(sql);
    if (why !== null)
      throw new HighwaterError("transaction_control", {
        detail: `Statement ${String(index)}: ${why}`,
        statement: index,
        transactionId: id,
      });
  }
}

function refusedFor(sql: string): string | null {
  const [first = "", second = "", third = ""] = leadingWords(sql, 3);
  if (first === "SHOW" && second === "COMMIT" && third === "TIMESTAMP")
    return "SHOW COMMIT TIMESTAMP commits the transaction; the token has its position.";
  if (COMMITS_BEFORE_DDL.test(sql))
    return "autocommit_before_ddl stays off: DDL would commit what came before it, without the rest.";
  if (/\bsystem\b/i.test(sql) && AS_OF.test(sql.replaceAll(NOT_CODE, " ")))
    return "AS OF SYSTEM TIME is the service's; give a read the token that it has to follow as `after`.";
  if (OUTSIDE.has(first)) return `${first} does not run inside the service's transaction.`;
  if (!["SAVEPOINT", "RELEASE", "ROLLBACK"].includes(first)) return null;
  const name =
    sql
      .trim()
      .replace(/;+\s*$/, "")
      .split(/\s+/)
      .at(-1) ?? "";
  return RESTART_SAVEPOINT.test(name)
    ? "The savepoint cockroach_restart commits the transaction when it is released; give it another name."
    : null;
}
