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
