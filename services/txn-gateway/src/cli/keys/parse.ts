// Parses the arguments of the command `keys`. Reports every fault; does nothing else.
import { parseArgs, type ParseArgsOptionsConfig } from "node:util";
import { HighwaterError } from "@highwater/protocol";
import { parseFingerprint } from "@highwater/service";
import { type KeyLimits, type Scope, SCOPES } from "@highwater/store";

/** A moment: on the server's clock, or so long after now. */
export type Moment = { readonly atMs: number } | { readonly inMs: number };

/**
 * Who gives the command, and why: for the audit log. Null: the person who runs it, and no reason.
 */
export interface Given {
  readonly by: string | null;
  readonly reason: string | null;
}

export interface CreateCommand extends Given {
  readonly kind: "create";
  readonly name: string;
  readonly role: string;
  /** Of a key that was made elsewhere; null: it is made here, and printed. */
  readonly fingerprint: { readonly id: string; readonly secretHash: Buffer } | null;
  /** Null: the key's own id. */
  readonly owner: string | null;
  readonly scopes: readonly Scope[];
  readonly limits: KeyLimits;
  /** Absent: any. */
  readonly minLevel?: string;
  readonly onLost?: "replay";
  readonly expires: Moment | null;
  readonly createRole: boolean;
  readonly password: { readonly kind: "none" | "stdin" } | { readonly kind: "file"; readonly path: string };
  readonly json: boolean;
}

export type KeysCommand =
  | CreateCommand
  | { readonly kind: "generate"; readonly json: boolean }
  | { readonly kind: "list"; readonly json: boolean }
  | ({ readonly kind: "revoke"; readonly id: string; readonly json: boolean } & Given)
  | ({ readonly kind: "expire"; readonly id: string; readonly when: Moment; readonly json: boolean } & Given)
  | { readonly kind: "audit"; readonly after: number; readonly since: Moment | null }
  | { readonly kind: "help" };

export const USAGE = `Usage: highwater keys create --name NAME --role ROLE [options]    prints the new key, once
       highwater keys generate                                     prints an unregistered key and its fingerprint
       highwater keys list
       highwater keys revoke ID
       highwater keys expire ID --at TIME | --in DURATION
       highwater keys audit [--after N] [--since WHEN]             prints the audit log, one JSON object per line

create:
  --name NAME              the purpose of the key
  --role ROLE              the database login role for the key's transactions. All keys of a role have the same
                           owner, and either all have the scope write or none has it
  --fingerprint ID:SHA256  register a key that keys generate printed elsewhere; prints no secret
  --create-role            create the role if it does not exist: LOGIN, with only the rights of highwater_app, or
                           of highwater_read for a key without the scope write
  --password-stdin         read the new role's password from standard input
  --password-file FILE     read it from a file (default: no password)
  --scopes LIST            one or more of ${SCOPES.join(", ")}, separated by commas (default: read,write)
  --owner NAME             keys of one owner see each other's transactions (default: the key's own id)
  --expires WHEN           a duration or a time (default: never)
  --rate N                 maximum requests per second
  --burst N                maximum requests at once after a pause (default: one second's worth)
  --min-level LEVEL        the lowest level at which the key's commits are answered (default: any)
  --concurrency N          maximum requests in flight
  --open-transactions N    maximum open interactive transactions
  --idle-timeout DURATION, --total-timeout DURATION    time limits of an interactive transaction
  --statement-timeout DURATION, --lock-timeout DURATION    time limits of a statement
  --keep-bytes N           keep the contents of the key's writes, up to N bytes each, unless a request says otherwise
  --on-lost replay         keep the contents, and bring lost fast writes back before the next primary takes writes

create, revoke, expire:
  --by NAME                the person, for the audit log (default: the user and host that run the command)
  --reason TEXT            the reason, for the audit log

audit:
  --after N                only entries with a number above N
  --since WHEN             only entries since a time, or of the last DURATION

all: --json                print JSON

DURATION is a whole number with a unit: 500ms, 30s, 15m, 12h, 90d. TIME is 2030-01-31 or 2030-01-31T12:00:00Z.
Environment: HIGHWATER_TOPOLOGY, and HIGHWATER_AUTHORITY unless it is ancestry.
keys generate uses no database and needs neither.`;

const TEXT = { type: "string" } as const;
const FLAG = { type: "boolean" } as const;

const GIVEN = { by: TEXT, reason: TEXT } as const;

const OPTIONS: Readonly<Record<string, ParseArgsOptionsConfig>> = {
  create: {
    name: TEXT,
    role: TEXT,
    fingerprint: TEXT,
    owner: TEXT,
    scopes: TEXT,
    expires: TEXT,
    rate: TEXT,
    burst: TEXT,
    concurrency: TEXT,
    "min-level": TEXT,
    "open-transactions": TEXT,
    "idle-timeout": TEXT,
    "total-timeout": TEXT,
    "statement-timeout": TEXT,
    "lock-timeout": TEXT,
    "keep-bytes": TEXT,
    "on-lost": TEXT,
    "create-role": FLAG,
    "password-stdin": FLAG,
    "password-file": TEXT,
    json: FLAG,
    ...GIVEN,
  },
  generate: { json: FLAG },
  list: { json: FLAG },
  revoke: { json: FLAG, ...GIVEN },
  expire: { at: TEXT, in: TEXT, json: FLAG, ...GIVEN },
  audit: { after: TEXT, since: TEXT, json: FLAG },
};

type Values = Readonly<Record<string, string | boolean | undefined>>;

/** Errors: `invalid_request` with every fault in `fields`. */
export function parseKeysCommand(args: readonly string[]): KeysCommand {
  const [word, ...rest] = args;
  if (word === undefined || word === "help" || args.includes("--help") || args.includes("-h"))
    return { kind: "help" };
  const options = Object.hasOwn(OPTIONS, word) ? OPTIONS[word] : undefined;
  if (options === undefined)
    throw badInput(["the command must be create, generate, list, revoke, expire or audit"]);
  const { values, positionals } = readArgs(rest, options);
  const faults: string[] = [];
  const json = values["json"] === true;
  const wanted = word === "revoke" || word === "expire" ? 1 : 0;
  if (positionals.length !== wanted)
    faults.push(wanted === 1 ? "give exactly one key id" : `unexpected argument ${positionals[0] ?? ""}`);
  const id = positionals[0] ?? "";
  if (wanted === 1 && id.includes("_"))
    faults.push("that is not a key id: use the part of the key between the underscores");
  const command = ((): KeysCommand => {
    switch (word) {
      case "create":
        return readCreate(values, json, faults);
      case "generate":
        return { kind: "generate", json };
      case "revoke":
        return { kind: "revoke", id, json, ...readGiven(values, faults) };
      case "expire":
        return { kind: "expire", id, when: readWhen(values, faults), json, ...readGiven(values, faults) };
      case "audit":
        return { kind: "audit", ...readQuestion(values, faults) };
      default:
        return { kind: "list", json };
    }
  })();
  if (faults.length > 0) throw badInput(faults);
  return command;
}

export function badInput(fields: readonly string[]): HighwaterError {
  return new HighwaterError("invalid_request", { detail: fields.join("; "), fields });
}

function readArgs(
  args: string[],
  options: ParseArgsOptionsConfig,
): { values: Values; positionals: readonly string[] } {
  try {
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true });
    return { values: values as Values, positionals };
  } catch (cause) {
    throw badInput([cause instanceof Error ? cause.message : String(cause)]);
  }
}

/** Printable, so that it neither breaks a list nor hides in it. */
const NAME = /^[^\p{C}]{1,100}$/u;
const REMARK = /^[^\p{C}]{1,500}$/u;
/** Without `#`, which owners of tokens have: see jwt-claims.ts. */
const OWNER = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$/;

function readCreate(values: Values, json: boolean, faults: string[]): CreateCommand {
  const text = (option: string): string | null => {
    const value = values[option];
    return typeof value === "string" ? value : null;
  };
  const name = text("name") ?? "";
  const role = text("role") ?? "";
  const owner = text("owner");
  if (!NAME.test(name)) faults.push("--name is required: at most 100 printable characters");
  // The server would cut a longer name off, and then it is another role's.
  if (role === "" || role.includes("\0") || Buffer.byteLength(role) > 63)
    faults.push("--role is required: at most 63 bytes");
  if (owner !== null && !OWNER.test(owner))
    faults.push("--owner must be letters, digits, '.', '_', '@' and '-', beginning with a letter or digit");
  const given = text("fingerprint");
  const fingerprint = given === null ? null : parseFingerprint(given);
  if (given !== null && fingerprint === null)
    faults.push(
      "--fingerprint must be an id and a SHA-256, as keys generate prints them: never the key itself",
    );
  const expires = text("expires");
  const minLevel = text("min-level");
  const onLost = text("on-lost");
  if (onLost !== null && onLost !== "replay") faults.push("--on-lost must be replay");
  return {
    kind: "create",
    name,
    role,
    fingerprint,
    owner,
    json,
    scopes: readScopes(text("scopes") ?? "read,write", faults),
    limits: readLimits(text, faults),
    ...(minLevel !== null && { minLevel }),
    ...(onLost === "replay" && { onLost }),
    expires: expires === null || expires === "never" ? null : readMoment("--expires", expires, faults),
    createRole: values["create-role"] === true,
    password: readPassword(values, faults),
    ...readGiven(values, faults),
  };
}

function readGiven(values: Values, faults: string[]): Given {
  const text = (option: "by" | "reason"): string | null => {
    const value = values[option];
    if (typeof value !== "string") return null;
    if (!REMARK.test(value)) faults.push(`--${option} must be 1 to 500 printable characters`);
    return value;
  };
  return { by: text("by"), reason: text("reason") };
}

function readQuestion(values: Values, faults: string[]): { after: number; since: Moment | null } {
  const { after = "0", since } = values;
  if (typeof after !== "string" || !/^[0-9]{1,15}$/.test(after))
    faults.push("--after must be the number of an entry");
  return {
    after: Number(after),
    since: typeof since === "string" ? readMoment("--since", since, faults) : null,
  };
}

function readPassword(values: Values, faults: string[]): CreateCommand["password"] {
  const path = values["password-file"];
  const isOnStdin = values["password-stdin"] === true;
  if (typeof path === "string" && isOnStdin)
    faults.push("--password-stdin and --password-file exclude each other");
  if ((typeof path === "string" || isOnStdin) && values["create-role"] !== true)
    faults.push("a password needs --create-role");
  if (typeof path === "string") return { kind: "file", path };
  return { kind: isOnStdin ? "stdin" : "none" };
}

function readScopes(text: string, faults: string[]): readonly Scope[] {
  const words = text
    .split(",")
    .map((word) => word.trim())
    .filter((word) => word !== "");
  const unknown = words.filter((word) => !(SCOPES as readonly string[]).includes(word));
  if (words.length === 0 || unknown.length > 0)
    faults.push(`--scopes must be some of ${SCOPES.join(", ")}, separated by commas`);
  return SCOPES.filter((scope) => words.includes(scope));
}

const COUNT_MAX = 1_000_000;
/** No gateway lets a transaction be open for longer. */
const TRANSACTION_MOST = { ms: 86_400_000, is: "1d" };
/** PostgreSQL takes no longer one, and every transaction of the key would fail. */
const SERVER_MOST = { ms: 2 ** 31 - 1, is: "24d" };

function readLimits(text: (option: string) => string | null, faults: string[]): KeyLimits {
  const number = (option: string, isWhole: boolean): number | null => {
    const given = text(option);
    if (given === null) return null;
    const value = Number(given);
    const isNumber = isWhole ? /^[0-9]+$/.test(given) : /^[0-9]+(\.[0-9]+)?$/.test(given);
    if (!isNumber || value <= 0 || value > COUNT_MAX)
      faults.push(
        `--${option} must be a ${isWhole ? "whole " : ""}number above 0, at most ${String(COUNT_MAX)}`,
      );
    return value;
  };
  const duration = (option: string, most: { readonly ms: number; readonly is: string }): number | null => {
    const given = text(option);
    if (given === null) return null;
    const value = readDuration(given);
    if (value === null) faults.push(`--${option} must be a duration like 30s`);
    else if (value > most.ms) faults.push(`--${option} must be at most ${most.is}`);
    return value;
  };
  return {
    ratePerSecond: number("rate", false),
    burst: number("burst", true),
    concurrency: number("concurrency", true),
    openTransactions: number("open-transactions", true),
    idleTimeoutMs: duration("idle-timeout", TRANSACTION_MOST),
    totalTimeoutMs: duration("total-timeout", TRANSACTION_MOST),
    statementTimeoutMs: duration("statement-timeout", SERVER_MOST),
    lockTimeoutMs: duration("lock-timeout", SERVER_MOST),
    keepBytes: number("keep-bytes", true),
  };
}

function readWhen(values: Values, faults: string[]): Moment {
  const { at, in: after } = values;
  if (typeof at === "string" && after === undefined) return readMoment("--at", at, faults);
  if (typeof after === "string" && at === undefined) return readMoment("--in", after, faults);
  faults.push("either --at TIME or --in DURATION is required");
  return { atMs: 0 };
}

const UNIT_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};
const DURATION_MS_MAX = 100 * 366 * 86_400_000;
const TIME = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/;

function readDuration(text: string): number | null {
  const match = /^([0-9]{1,12})(ms|s|m|h|d)$/.exec(text);
  const value = Number(match?.[1]) * (UNIT_MS[match?.[2] ?? ""] ?? Number.NaN);
  return value > 0 && value <= DURATION_MS_MAX ? value : null;
}

function readMoment(option: string, text: string, faults: string[]): Moment {
  const inMs = option === "--at" ? null : readDuration(text);
  if (inMs !== null) return { inMs };
  // A time without a zone would mean something else on every machine.
  const atMs = option !== "--in" && TIME.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(atMs)) {
    const kinds = { "--at": "a time like 2030-01-31T12:00:00Z", "--in": "a duration like 90d" };
    const kind = kinds[option as keyof typeof kinds] ?? `${kinds["--in"]} or ${kinds["--at"]}`;
    faults.push(`${option} must be ${kind}`);
  }
  return { atMs };
}
