// Writes the command that adopts a database, in one transaction, so that no process sees a part of
// it.
import { type ClientBase } from "pg";
import { type Adoption } from "../port.ts";
import { uuidFloor } from "./prepare.ts";

/**
 * Where the rows of ended epochs are still there and their receipts are not, no look-up can
 * distinguish a loss from a commit: those ids are expired, and `expired_before` says so to every
 * reader of receipts.
 */
export async function writeAdoption(client: ClientBase, node: string, adoption: Adoption): Promise<string> {
  const { overrules, reason, issuedBy, data } = adoption;
  await client.query("BEGIN ISOLATION LEVEL READ COMMITTED");
  try {
    await client.query("SET LOCAL synchronous_commit TO local");
    const clock = await client.query<{ now_ms: string }>(
      "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::text AS now_ms",
    );
    const nowMs = Math.ceil(Number(clock.rows[0]?.now_ms));
    if (data === "intact")
      await client.query(
        `UPDATE highwater.retention
         SET expired_before = greatest(expired_before, to_timestamp($1::float8 / 1000))`,
        [nowMs],
      );
    const { rows } = await client.query<{ id: string }>(
      `INSERT INTO highwater.authority_command (node, reason, issued_by, overrules, ids_from)
       VALUES ($1, $2, $3, $4, $5) RETURNING id::text`,
      [node, reason, issuedBy, overrules, uuidFloor(nowMs)],
    );
    await client.query("COMMIT");
    return rows[0]?.id ?? "";
  } catch (cause) {
    await client.query("ROLLBACK").catch(() => undefined);
    throw cause;
  }
}
