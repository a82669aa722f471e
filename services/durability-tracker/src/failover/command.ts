// The operator's command that names a node as the primary: what it says, and how it is written.
// The caller decides who may give it, and when.
import { createHash } from "node:crypto";
import { type ClientBase } from "pg";

/** What the command says. */
export interface Naming {
  readonly node: string;
  /** The newest epoch in the node's history, which the command ends or confirms. */
  readonly ends: string;
  /** Epochs outside the node's history that it gives up. */
  readonly overrules: readonly string[];
  readonly reason: string;
}

export interface AuthorityCommand extends Naming {
  /** The same words have the same id: what was written is not written again. */
  readonly id: string;
}

export function authorityCommand({ node, ends, overrules: given, reason }: Naming): AuthorityCommand {
  const overrules = [...given].sort();
  const digest = createHash("sha256")
    .update(JSON.stringify(["highwater/authorize", ends, node, overrules]))
    .digest();
  digest.writeUInt8((digest.readUInt8(6) & 0x0f) | 0x80, 6);
  digest.writeUInt8((digest.readUInt8(8) & 0x3f) | 0x80, 8);
  const hex = digest.toString("hex");
  const id = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    hex.slice(12, 16),
    hex.slice(16, 20),
    hex.slice(20, 32),
  ].join("-");
  return { id, node, ends, overrules, reason };
}

/**
 * Writes the command on a writable node. `other_history`: the node lacks the epoch that the command
 * ends, and nothing is written. `by`: who gives it; null: the login role.
 */
export async function writeCommand(
  client: Pick<ClientBase, "query">,
  { id, node, ends, overrules, reason }: AuthorityCommand,
  by: string | null,
): Promise<"written" | "there" | "other_history"> {
  const history = await client.query("SELECT FROM highwater.epoch WHERE id = $1", [ends]);
  if (history.rowCount !== 1) return "other_history";
  // A replica that hangs must not hold the command up.
  await client.query("SET synchronous_commit = local");
  const written = await client.query(
    `INSERT INTO highwater.authority_command (id, node, reason, overrules, issued_by)
     VALUES ($1, $2, $3, $4, coalesce($5, session_user)) ON CONFLICT (id) DO NOTHING`,
    [id, node, reason, overrules, by],
  );
  return written.rowCount === 1 ? "written" : "there";
}
