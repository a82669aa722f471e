// Names in the SQL that commands print.
import pg from "pg";

/** Quoted only where PostgreSQL needs it, so that a line reads as a person would write it. */
export function pgIdentifier(name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : pg.escapeIdentifier(name);
}
