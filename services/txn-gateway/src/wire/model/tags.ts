// Reads a CommandComplete's tag. An unknown tag counts as a write that may have committed by
// itself.

/**
 * `none`: wrote nothing. `begin`, `end`: a block began, or ended without a commit. `commit`: a
 * commit. `data`: a statement that may have written and commits with its transaction. `alone`: may
 * have committed by itself.
 */
type Effect = "none" | "begin" | "end" | "commit" | "data" | "alone";

export interface Tag {
  readonly effect: Effect;
  /** A write that found no rows, which reveals what other sessions have committed. */
  readonly isEmptyWrite: boolean;
  /** The statement returns rows, or a count of those that it found. */
  readonly isRead: boolean;
  /** It writes rows, or may have done something else. */
  readonly isWrite: boolean;
  /** Settings may have changed. Changes by functions are not seen. */
  readonly changesSettings: boolean;
  /** It may have called a function that changes settings. */
  readonly mayCallSettings: boolean;
  readonly dropsStatements: boolean;
}

const EFFECTS: Readonly<Record<string, Effect>> = {
  BEGIN: "begin",
  "START TRANSACTION": "begin",
  ROLLBACK: "end",
  COMMIT: "commit",
  "PREPARE TRANSACTION": "commit",
  "COMMIT PREPARED": "commit",
  SELECT: "data",
  INSERT: "data",
  UPDATE: "data",
  DELETE: "data",
  MERGE: "data",
  COPY: "data",
  FETCH: "data",
  MOVE: "data",
  EXPLAIN: "data",
  SET: "none",
  RESET: "none",
  SHOW: "none",
  LISTEN: "none",
  UNLISTEN: "none",
  NOTIFY: "none",
  SAVEPOINT: "none",
  RELEASE: "none",
  PREPARE: "none",
  DEALLOCATE: "none",
  "DEALLOCATE ALL": "none",
  // What only the session has: no failover keeps it.
  "DISCARD ALL": "none",
  "DISCARD PLANS": "none",
  "DISCARD SEQUENCES": "none",
  "DISCARD TEMP": "none",
  "CLOSE CURSOR": "none",
  "CLOSE CURSOR ALL": "none",
};

const READS = new Set(["SELECT", "FETCH", "MOVE", "COPY", "EXPLAIN"]);
const CHANGES_SETTINGS = new Set(["SET", "RESET", "DISCARD ALL"]);
const WRITES = new Set(["INSERT", "UPDATE", "DELETE", "MERGE"]);
/** Row counts are many, tags are few: the cache is by tag without counts. */
const known = new Map<string, Tag>();

/** `text` is the tag as received, with its counts. */
export function readTag(text: string): Tag {
  const words = withoutCounts(text);
  const isEmptyWrite = text.endsWith(" 0") && WRITES.has(words);
  const key = isEmptyWrite ? text : words;
  const found = known.get(key);
  if (found !== undefined) return found;
  const tag = {
    effect: EFFECTS[words] ?? "alone",
    isEmptyWrite,
    isRead: READS.has(words),
    isWrite: WRITES.has(words) || words === "COPY" || !(words in EFFECTS),
    changesSettings: CHANGES_SETTINGS.has(words) || !(words in EFFECTS),
    mayCallSettings: words === "SELECT",
    dropsStatements: words === "DISCARD ALL" || words.startsWith("DEALLOCATE"),
  };
  if (known.size < 1_000) known.set(key, tag);
  return tag;
}

function withoutCounts(text: string): string {
  let end = text.length;
  while (end > 0 && " 0123456789".includes(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}
