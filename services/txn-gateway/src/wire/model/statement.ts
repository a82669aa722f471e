// Classifies a statement by its text before it runs. A guess only saves time: it decides where a
// statement of ours may stand, and never that an answer need not be held.
import { ALL_SETTINGS, type Change, type Setting } from "./doubts.ts";

/**
 * `read`: a check may follow it, and it answers like SELECT. `checkable`: the same, but sent as it
 * is. `data`: certainly writes, so it needs no check. `commit`: ends the block. `copy`: nothing may
 * follow it. `other`: may commit inside, or refuse to share a batch.
 */
export type Kind = "read" | "checkable" | "data" | "commit" | "begin" | "rollback" | "copy" | "other";

export interface StatementInfo {
  readonly kind: Kind;
  /** Its first words show that it writes. */
  readonly writes: boolean;
  /** It may lock rows that it reads. */
  readonly isLocking: boolean;
  /** It takes a snapshot, judging by its first word. */
  readonly takesSnapshot: boolean;
  /** It calls set_config, judging by its text. */
  readonly callsSetConfig: boolean;
  /** It may drop prepared statements, including ours. */
  readonly dropsStatements: boolean;
  /** One statement without parameters: both protocols can send it. */
  readonly isPlain: boolean;
  /** How it may change `highwater.*`; null: not judging by its text. */
  readonly changes: Change | null;
  /** It may set `highwater.id`, judging by its text. */
  readonly namesId: boolean;
  /** The text has several statements. */
  readonly isSeveral: boolean;
  /** The SQL name that it makes or uses; null: none. */
  readonly names: NameUse | null;
}

/** A name is null where the text does not show it plainly. `anything`: it may make any name. */
export type NameUse =
  | { readonly does: "prepare"; readonly name: string; readonly isLocking: boolean }
  | {
      readonly does: "declare";
      readonly name: string;
      readonly isLocking: boolean;
      readonly isHoldable: boolean;
    }
  | { readonly does: "execute" | "fetch"; readonly name: string | null }
  | { readonly does: "anything" };

const KINDS: ReadonlyMap<string, Kind> = new Map<string, Kind>([
  ...["select", "with", "values", "table", "explain"].map((word) => [word, "read"] as const),
  ...["show", "set", "reset", "fetch", "move", "close", "declare", "execute", "listen", "unlisten"].map(
    (word) => [word, "checkable"] as const,
  ),
  ...["deallocate", "savepoint", "release", "prepare"].map((word) => [word, "checkable"] as const),
  ...["insert", "update", "delete", "merge", "truncate", "lock", "notify"].map(
    (word) => [word, "data"] as const,
  ),
  ...["commit", "end"].map((word) => [word, "commit"] as const),
  ...["begin", "start"].map((word) => [word, "begin"] as const),
  ...["rollback", "abort"].map((word) => [word, "rollback"] as const),
  ["copy", "copy"],
]);

const WRITES = new Set(["insert", "update", "delete", "merge"]);
/**
 * Writes of other kinds than `data`. Left out: maintenance, whose answers are held anyway, and the
 * end of a prepared transaction.
 */
const ALSO_WRITES = new Set([
  ...["create", "alter", "drop", "comment", "grant", "revoke", "reassign", "security"],
  ...["refresh", "import", "call", "do"],
]);
const COPY_FROM = /^copy\s+(?:binary\s+)?(?:"[^"]*"|[^\s"()])+\s*(?:\([^()]*\)\s*)?from\b/i;
const WITHOUT_SNAPSHOT: ReadonlySet<string> = new Set([
  "set",
  "reset",
  "show",
  "lock",
  "savepoint",
  "release",
  "rollback",
  "abort",
]);
/**
 * Finds it in any case and anywhere, with comments between the words, but not inside functions. A
 * text that only looks like a locking read is held as well, which costs only time.
 */
function locks(text: string): boolean {
  return text.split(";").some((part) => {
    const at = part.search(FOR);
    return at >= 0 && UPDATE_OR_SHARE.test(part.slice(at));
  });
}

const FOR = /\bfor\b/i;
const UPDATE_OR_SHARE = /\b(?:update|share)\b/i;
/** For texts with several statements. */
const READS_BY_NAME = /\b(?:execute|fetch|move)\b/i;
const DROPS = /\b(?:discard|deallocate)\b/i;
const MAKES_NAMES = /\b(?:prepare|declare)\b/i;
export const ID = /\bhighwater\.id\b/i;
const ANYTHING: NameUse = { does: "anything" };
const UNKNOWN_NAME: NameUse = { does: "execute", name: null };
export const HIGHWATER = /highwater/i;
const NAMED = /highwater[^\w.]*\.[^\w.]*(\w*)/gi;
const COMMENT = /\/\*|--/;
const SETTINGS: ReadonlyMap<string, readonly Setting[]> = new Map<string, readonly Setting[]>([
  ["ack", ["ack"]],
  ["level", ["level"]],
  ["max_wait", ["maxWaitMs"]],
  ["read_ack", ["readsDurably"]],
  ["reads", ["readsDurably", "isDurableOnly"]],
  ["at_risk", ["atRisk"]],
  ["keep", ["keep"]],
  ["id", ["id"]],
  // Read with every check of the read port, so it is never in doubt.
  ["after", []],
]);
const RESETS = /\b(?:reset|discard)\b/i;
const ALL = /\ball\b/i;
export const SET_CONFIG = /\bset_config\b/i;
const LONGEST_WORD = 10;
const [DOLLAR, QUOTE, DOUBLE_QUOTE, BACKSLASH] = [36, 39, 34, 92];
const [SLASH, STAR, DASH, NEWLINE, RETURN, OPEN, SEMICOLON] = [47, 42, 45, 10, 13, 40, 59];
const UNKNOWN: StatementInfo = {
  kind: "other",
  writes: false,
  isLocking: true,
  takesSnapshot: true,
  callsSetConfig: true,
  dropsStatements: true,
  isPlain: false,
  changes: { when: "by_tag", settings: ALL_SETTINGS, resets: true },
  namesId: false,
  isSeveral: true,
  names: ANYTHING,
};

function kindAt(bytes: Buffer, at: number, word: string): Kind {
  return bytes[at] === OPEN ? "read" : (KINDS.get(word) ?? "other");
}

/** By its first word alone. */
export function firstKind(bytes: Buffer, start: number, end: number): Kind {
  const at = firstWord(bytes, start, end);
  return at < 0 ? "other" : kindAt(bytes, at, wordAt(bytes, at, end));
}

/** `bytes[start..end)` is the text without its final zero byte. */
export function statementInfo(bytes: Buffer, start: number, end: number): StatementInfo {
  const at = firstWord(bytes, start, end);
  if (at < 0) return UNKNOWN;
  const word = wordAt(bytes, at, end);
  let kind = kindAt(bytes, at, word);
  // PREPARE TRANSACTION begins a two-phase commit. `PREPARE name AS` is an ordinary statement.
  if (kind === "checkable" && word === "prepare" && /^prepare\s+transaction\b/i.test(head(bytes, at, end)))
    kind = "other";
  if ((word === "commit" || word === "rollback") && /^\w+\s+prepared\b/i.test(head(bytes, at, end)))
    kind = "other";
  const isRead = kind === "read";
  const isSeveral = !isWithoutSemicolon(bytes, at, end);
  const canLock = isRead || isSeveral || kind === "copy";
  const text = bytes.toString("latin1", at, end);
  const callsSetConfig = SET_CONFIG.test(text);
  const readsByName = isSeveral && READS_BY_NAME.test(text);
  return {
    kind,
    writes:
      kind === "data" ||
      (kind === "other" && ALSO_WRITES.has(word)) ||
      (kind === "copy" && COPY_FROM.test(text)),
    isLocking: canLock && (locks(text) || readsByName),
    takesSnapshot: isSeveral || !WITHOUT_SNAPSHOT.has(word),
    callsSetConfig,
    dropsStatements: word === "discard" || word === "deallocate" || (isSeveral && DROPS.test(text)),
    isPlain: (isRead || WRITES.has(word)) && isOne(bytes, at, end),
    changes:
      word === "show" && !isSeveral ? null : changeOf(text, { kind, isSeveral, callsSetConfig, readsByName }),
    namesId: ID.test(text),
    isSeveral,
    names: isSeveral ? nameUseOfSeveral(text, readsByName) : nameUse(word, text),
  };
}

/** Plain names, and quoted ones without quotes inside; up to the 63 bytes that PostgreSQL keeps. */
const NAME = String.raw`("[ !#-~]{1,63}"|[a-z_][\w$]{0,62})`;
const PREPARE = new RegExp(String.raw`^prepare\s+${NAME}\s*(?:\([^()]*\)\s*)?\bas\b`, "i");
const DECLARE = new RegExp(String.raw`^declare\s+${NAME}\s[\sa-z]*?\bcursor\b([\sa-z]*?)\bfor\b`, "i");
const EXECUTE = new RegExp(String.raw`^execute\s+${NAME}\s*(?:\(|;|$)`, "i");
const FETCH = new RegExp(String.raw`^\w+\s+(?:[-+]?\w+\s+)*?${NAME}[\s;]*$`, "i");
/** How much of a text goes to expressions that may look at a character more than once. */
const MATCHED_MAX = 512;
const HOLDABLE = /\bwith\s+hold\b/i;

function nameUseOfSeveral(text: string, readsByName: boolean): NameUse | null {
  if (MAKES_NAMES.test(text)) return ANYTHING;
  return readsByName ? UNKNOWN_NAME : null;
}

/** For a single statement. */
function nameUse(word: string, text: string): NameUse | null {
  switch (word) {
    case "prepare": {
      const [start, name] = PREPARE.exec(text) ?? [];
      if (start === undefined || name === undefined) return ANYTHING;
      return { does: "prepare", name: nameOf(name), isLocking: locks(text.slice(start.length)) };
    }
    case "declare": {
      const [start, name, options = ""] = DECLARE.exec(text.slice(0, MATCHED_MAX)) ?? [];
      if (start === undefined || name === undefined) return ANYTHING;
      const isLocking = locks(text.slice(start.length));
      return { does: "declare", name: nameOf(name), isLocking, isHoldable: HOLDABLE.test(options) };
    }
    case "execute":
      return { does: "execute", name: nameOf(EXECUTE.exec(text)?.[1]) };
    case "fetch":
    case "move":
      if (text.length > MATCHED_MAX) return { does: "fetch", name: null };
      return { does: "fetch", name: nameOf(FETCH.exec(text)?.[1]) };
    default:
      return null;
  }
}

function nameOf(text: string): string;
function nameOf(text: string | undefined): string | null;
function nameOf(text: string | undefined): string | null {
  if (text === undefined) return null;
  return text.startsWith('"') ? text.slice(1, -1) : text.toLowerCase();
}

/**
 * A text that calls set_config with a parameter may set anything. One statement that certainly
 * writes needs set_config to change a setting.
 */
function changeOf(
  text: string,
  {
    kind,
    isSeveral,
    callsSetConfig,
    readsByName,
  }: Pick<StatementInfo, "kind" | "isSeveral" | "callsSetConfig"> & { readonly readsByName: boolean },
): Change | null {
  const named = callsSetConfig && text.includes("$") ? ALL_SETTINGS : settingsIn(text);
  const resets = RESETS.test(text) && ALL.test(text);
  const isValue = kind === "data" && !isSeveral && !callsSetConfig;
  if (!resets && (named === null || isValue)) return null;
  const isSure = named !== null && (callsSetConfig || !isSeveral || readsByName);
  return { when: isSure ? "always" : "by_tag", settings: named ?? [], resets };
}

/** The settings that a text names; null: none. Blanks and quotes may stand around the dot. */
function settingsIn(text: string): readonly Setting[] | null {
  if (!HIGHWATER.test(text)) return null;
  const names = [...text.matchAll(NAMED)];
  // A comment may stand between the words.
  if (names.length === 0) return COMMENT.test(text) ? ALL_SETTINGS : null;
  const settings = names.map(([, name = ""]) => SETTINGS.get(name.toLowerCase()) ?? ALL_SETTINGS);
  return [...new Set(settings.flat())];
}

const HEADER_BYTES = 5;
const [QUERY, PARSE] = [..."QP"].map((type) => type.charCodeAt(0));

/**
 * Whether the Query or Parse `bytes[start..end)` takes a snapshot, judging by its first word. Any
 * other message counts as one that does. Our check takes the snapshot of a block that keeps one
 * snapshot. Before a message that takes none, that would be too early: SET TRANSACTION SNAPSHOT
 * would fail, and a block that locks a table and then reads would miss commits that came before its
 * lock. So the settings wait for the next message.
 */
export function takesSnapshot(type: number, bytes: Buffer, start: number, end: number): boolean {
  const name = start + HEADER_BYTES;
  if (type === QUERY) return !hasNoSnapshot(bytes, name, end - 1);
  const text = type === PARSE ? bytes.indexOf(0, name) + 1 : 0;
  return text <= 0 || text >= end || !hasNoSnapshot(bytes, text, end - 1);
}

function hasNoSnapshot(bytes: Buffer, start: number, end: number): boolean {
  const at = firstWord(bytes, start, end);
  return at >= 0 && WITHOUT_SNAPSHOT.has(wordAt(bytes, at, end)) && isOne(bytes, start, end);
}

export const UNSEEN_STATEMENT = UNKNOWN;

/** Skips blanks and comments. -1 when nothing is left, or a comment has no end. */
function firstWord(bytes: Buffer, start: number, end: number): number {
  let at = start;
  while (at < end) {
    const byte = bytes[at] ?? 0;
    if (byte <= 32 || byte === SEMICOLON) at++;
    else if (byte === DASH && bytes[at + 1] === DASH) {
      while (at < end && bytes[at] !== NEWLINE && bytes[at] !== RETURN) at++;
    } else if (byte === SLASH && bytes[at + 1] === STAR) {
      at = endOfComment(bytes, at + 2, end);
      if (at < 0) return -1;
    } else return at;
  }
  return -1;
}

/** Comments nest. */
function endOfComment(bytes: Buffer, start: number, end: number): number {
  let depth = 1;
  for (let at = start; at + 1 < end; at++) {
    if (bytes[at] === SLASH && bytes[at + 1] === STAR) {
      depth++;
      at++;
    } else if (bytes[at] === STAR && bytes[at + 1] === SLASH) {
      depth--;
      at++;
      if (depth === 0) return at + 1;
    }
  }
  return -1;
}

function wordAt(bytes: Buffer, start: number, end: number): string {
  let at = start;
  const stop = Math.min(end, start + LONGEST_WORD + 1);
  while (at < stop) {
    const lower = (bytes[at] ?? 0) | 32;
    if (lower < 97 || lower > 122) break;
    at++;
  }
  // A digit, `_`, `$` or a byte that is not ASCII continues the word, so it is no keyword.
  const next = at < end ? (bytes[at] ?? 0) : 0;
  if (next > 127 || next === 95 || next === 36 || (next >= 48 && next <= 57)) return "";
  return bytes.toString("latin1", start, at).toLowerCase();
}

function head(bytes: Buffer, start: number, end: number): string {
  return bytes.toString("latin1", start, Math.min(end, start + 64));
}

/** True when the only semicolons are at the end. */
function isWithoutSemicolon(bytes: Buffer, start: number, end: number): boolean {
  const at = bytes.subarray(start, end).indexOf(SEMICOLON);
  return at < 0 || start + at >= endOfText(bytes, start, end);
}

/** The end of the text without trailing blanks and semicolons. */
function endOfText(bytes: Buffer, start: number, end: number): number {
  let last = end;
  while (last > start && ((bytes[last - 1] ?? 0) <= 32 || bytes[last - 1] === SEMICOLON)) last--;
  return last;
}

/**
 * True when the text, outside quotes, has no semicolon before its end and no `$`, which may be a
 * parameter or a quote. A comment, or a backslash in quotes, may hide the end of the quotes.
 */
function isOne(bytes: Buffer, start: number, end: number): boolean {
  const last = endOfText(bytes, start, end);
  const text = bytes.subarray(start, last);
  if (!text.includes(SEMICOLON) && !text.includes(DOLLAR)) return true;
  for (let at = 0; at < text.length; at++) {
    const byte = text[at];
    if (byte === SEMICOLON || byte === DOLLAR) return false;
    if (byte === DASH && text[at + 1] === DASH) return false;
    if (byte === SLASH && text[at + 1] === STAR) return false;
    if (byte !== QUOTE && byte !== DOUBLE_QUOTE) continue;
    const close = text.indexOf(byte, at + 1);
    if (close < 0 || text.subarray(at, close).includes(BACKSLASH)) return false;
    at = close;
  }
  return true;
}
