// Reads from a stopped server's control file where its log ends; the embedded programs lack
// pg_controldata.
import { readFile } from "node:fs/promises";
import { join } from "node:path";

/** After the system identifier, two versions, state and time. The same since PostgreSQL 9. */
const CHECKPOINT_AT = 32;

/**
 * The position of the last checkpoint record. After a clean stop it is the last record, and no
 * commit follows it.
 */
export async function readCheckpoint(dataDir: string): Promise<bigint> {
  const bytes = await readFile(join(dataDir, "global", "pg_control"));
  return bytes.readBigUInt64LE(CHECKPOINT_AT);
}
