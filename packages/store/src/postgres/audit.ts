// Who makes a change, and the entries of the audit log. The database writes the entries itself
// (migration 0021).
import { type ClientBase } from "pg";
import { type Act, type AuditEntry, type AuditQuestion } from "../audit.ts";

/** $1 actor, $2 reason. Until the transaction ends. */
const ACT = "SELECT set_config('highwater.actor', $1, true), set_config('highwater.reason', $2, true)";

/** Says in the transaction that is open who acts in it, and why. */
export async function enterAct(client: Pick<ClientBase, "query">, { by, reason }: Act): Promise<void> {
  await client.query(ACT, [by, reason ?? ""]);
}

/**
 * Runs work in a transaction that says who acts. Errors leave the transaction to the caller, who
 * ends the connection.
 */
export async function actingAs<T>(
  client: ClientBase,
  act: Act | undefined,
  work: () => Promise<T>,
): Promise<T> {
  if (act === undefined) return work();
  await client.query("BEGIN");
  await enterAct(client, act);
  const result = await work();
  await client.query("COMMIT");
  return result;
}

/** $1 number, $2 milliseconds since 1970 or NULL, $3 how many. */
const READ = `SELECT n::text, to_char(e.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at, actor, login, host(address) AS address, program,
  action, target, reason, detail
FROM highwater_audit.entry e WHERE e.n > $1 AND ($2::float8 IS NULL OR e.at >= to_timestamp($2 / 1000)) ORDER BY e.n LIMIT $3`;

interface EntryRow extends Omit<AuditEntry, "n"> {
  readonly n: string;
}

/** Lowest number first. */
export async function readAudit(
  client: Pick<ClientBase, "query">,
  { after, sinceMs, limit }: AuditQuestion,
): Promise<AuditEntry[]> {
  const { rows } = await client.query<EntryRow>(READ, [String(after), sinceMs, limit]);
  return rows.map((row) => ({ ...row, n: Number(row.n) }));
}
