// Finds statements that would begin, end or prepare a transaction, by their first words. It never
// parses values.

export type Refusal = { readonly keyword: string } | null;

/** Statements after which a pooled connection must be reset before others use it. */
const SESSION_WORDS = new Set([
  "SET",
  "RESET",
  "LISTEN",
  "UNLISTEN",
  "PREPARE",
  "DEALLOCATE",
  "DISCARD",
  "LOAD",
  "DECLARE",
  "DO",
]);
const TRANSACTION_WORDS = new Set(["BEGIN", "START", "COMMIT", "END", "ABORT", "ROLLBACK"]);

/**
 * Up to `count` leading words of a statement in upper case; comments, white space and empty
 * statements are skipped.
 */
export function leadingWords(sql: string, count: number): string[] {
  const words: string[] = [];
  let at = 0;
  while (words.length < count) {
    at = skipBlank(sql, at);
    const match = /^[A-Za-z_][A-Za-z_0-9$]*/.exec(sql.slice(at, at + 64));
    if (match === null) break;
    words.push(match[0].toUpperCase());
    at += match[0].length;
  }
  return words;
}

/**
 * White space, `--` and nested block comments; `;` too, because PostgreSQL drops empty statements
 * before a command.
 */
function skipBlank(sql: string, from: number): number {
  let at = from;
  for (;;) {
    const char = sql[at];
    if (char === undefined) return at;
    // A byte order mark is no blank to PostgreSQL; everything that is a blank to it is one to us.
    if (char === ";" || " \t\n\r\f\v".includes(char)) at++;
    else if (sql.startsWith("--", at)) {
      const end = /[\n\r]/.exec(sql.slice(at));
      if (end === null) return sql.length;
      at += end.index;
    } else if (sql.startsWith("/*", at)) at = skipBlockComment(sql, at);
    else return at;
  }
}

function skipBlockComment(sql: string, from: number): number {
  let depth = 0;
  let at = from;
  do {
    if (sql.startsWith("/*", at)) {
      depth++;
      at += 2;
    } else if (sql.startsWith("*/", at)) {
      depth--;
      at += 2;
    } else at++;
  } while (depth > 0 && at < sql.length);
  return at;
}

/**
 * The keyword for which a statement is refused, or null when it may run inside the service's
 * transaction.
 */
export function refusal(sql: string): Refusal {
  const [first, second, third] = leadingWords(sql, 3);
  if (first === undefined) return null;
  if (first === "PREPARE" && second === "TRANSACTION") return { keyword: "PREPARE TRANSACTION" };
  if (first === "COPY") return { keyword: "COPY" };
  if (!TRANSACTION_WORDS.has(first)) return null;
  const toSavepoint = second === "TO" || ((second === "WORK" || second === "TRANSACTION") && third === "TO");
  return first === "ROLLBACK" && toSavepoint ? null : { keyword: first };
}

/** What a statement of any kind can leave behind in its session: settings, locks and tables. */
const SESSION_CALLS =
  /\bset_config\b|\bpg_(?:try_)?advisory_lock|\b(?:create|into)\s+(?:local\s+|global\s+)?temp(?:orary)?\b/i;

/**
 * True when a statement may change the session beyond its transaction. (What the functions it calls
 * do is not seen.)
 */
export function changesSession(sql: string): boolean {
  const [first, second] = leadingWords(sql, 2);
  if (first === undefined) return false;
  if (SESSION_CALLS.test(sql)) return true;
  if (!SESSION_WORDS.has(first)) return false;
  return !(first === "SET" && (second === "LOCAL" || second === "TRANSACTION" || second === "CONSTRAINTS"));
}

const ROW_WORDS = new Set(["INSERT", "UPDATE", "DELETE", "MERGE"]);

/** True when a statement may insert, update or delete rows, and answer with them. */
export function changesRows(sql: string): boolean {
  const [first] = leadingWords(sql, 1);
  if (first === undefined) return false;
  return ROW_WORDS.has(first) || (first === "WITH" && /\b(?:insert|update|delete|merge)\b/i.test(sql));
}

/** What the service has to know of a statement before it runs it. */
export interface StatementFacts {
  readonly refusal: Refusal;
  readonly changesSession: boolean;
  readonly changesRows: boolean;
  /** It goes back to a savepoint: of all that begins with ROLLBACK, nothing else is let through. */
  readonly rollsBack: boolean;
}

const FACTS_KEPT = 1_024;
/** Longer texts are seldom repeated. */
const KEPT_CHARS = 16_384;
const known = new Map<string, StatementFacts>();

/**
 * The same texts come again and again, and each is looked at once; when the memory is full it
 * begins anew.
 */
export function factsOf(sql: string): StatementFacts {
  const found = known.get(sql);
  if (found !== undefined) return found;
  const rollsBack = leadingWords(sql, 1)[0] === "ROLLBACK";
  const facts = {
    refusal: refusal(sql),
    changesSession: changesSession(sql),
    changesRows: changesRows(sql),
    rollsBack,
  };
  if (sql.length > KEPT_CHARS) return facts;
  if (known.size >= FACTS_KEPT) known.clear();
  known.set(sql, facts);
  return facts;
}
