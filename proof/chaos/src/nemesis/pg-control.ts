// Where a stopped server's log ends, read from its control file; pg_controldata is not among the
// embedded programs.
import { readFile } from "node:fs/promises";
import { join } from "node:path";

/** After system identifier, two version numbers, state and time. The same since PostgreSQL 9. */
const CHECKPOINT_AT = 32;

/**
 * The place of the last checkpoint record. After a clean stop it is the last record, and nothing
 * was committed behind it.
 */
export async function readCheckpoint(dataDir: string): Promise<bigint> {
  const bytes = await readFile(join(dataDir, "global", "pg_control"));
  return bytes.readBigUInt64LE(CHECKPOINT_AT);
}
