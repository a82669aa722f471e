// Carries a command out: what is checked before, what is written, and what the operator sees.
import { type AuthorityRule } from "@highwater/authority";
import { HighwaterError } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import {
  accessOf,
  type Act,
  type ApiKey,
  isHashablePassword,
  type KeyAdmin,
  type RoleFacts,
  type Store,
} from "@highwater/store";
import { describeKey, fingerprintOf, hashSecret, makeKeyText } from "@highwater/service";
import { badInput, type CreateCommand, type Given, type KeysCommand, type Moment } from "./parse.ts";
import { awaitReplicas, findPrimary, type Primary } from "./primary.ts";
import { keyTable } from "./print.ts";

export interface KeysDeps {
  readonly store: Store;
  readonly keys: KeyAdmin;
  readonly clock: Clock;
  readonly rule: AuthorityRule;
  /** Weakest first. */
  readonly levels: readonly string[];
  /** The answer: a key, a list. */
  readonly print: (text: string) => void;
  /** What else there is to know. */
  readonly note: (text: string) => void;
  readonly readFile: (path: string) => string;
  readonly readStdin: () => string;
  /** Who runs the command: its changes are that one's, unless it names another. */
  readonly operator: string;
}

const AUDIT_PAGE = 1_000;

type ActingCommand = Exclude<KeysCommand, { kind: "help" | "generate" }>;

/**
 * A key that no service knows yet: made where its holder is, so that only its fingerprint has to
 * travel.
 */
export function generate(json: boolean, { print, note }: Pick<KeysDeps, "print" | "note">): void {
  const made = makeKeyText();
  const fingerprint = fingerprintOf(made);
  print(json ? JSON.stringify({ key: made.text, id: made.id, fingerprint }, null, 2) : made.text);
  note(`It is not valid until it is registered: keys create --fingerprint ${fingerprint} …`);
}

/** Errors: HighwaterError. */
export async function runKeys(command: ActingCommand, deps: KeysDeps): Promise<void> {
  try {
    const primary = await findPrimary(deps.store, deps.clock, deps.rule);
    await carryOut(command, primary, deps);
  } catch (cause) {
    throw asHighwaterError(cause);
  }
}

async function carryOut(command: ActingCommand, primary: Primary, deps: KeysDeps): Promise<void> {
  const { store, keys } = deps;
  // An older version of the service may have prepared the store, or none yet.
  if (!(await keys.hasKeys(primary.node))) {
    const why = await keys.whyNotPrepare(primary.node);
    if (why !== null)
      throw badInput([
        `${why}: gateways and trackers could not use it. Start one of them first, or run \`keys list\` with their URL in HIGHWATER_TOPOLOGY`,
      ]);
    await store.prepare(primary.node);
  }
  switch (command.kind) {
    case "create":
      await create(command, primary, deps);
      return;
    case "list": {
      const found = await keys.readKeys(primary.node, null);
      const described = found.map((key) => describeKey(key, primary.serverTimeMs));
      deps.print(command.json ? JSON.stringify(described, null, 2) : keyTable(described));
      return;
    }
    case "revoke":
      await change(
        await keys.revokeKey(primary.node, command.id, actOf(command, deps)),
        command,
        primary,
        deps,
      );
      return;
    case "expire": {
      const atMs = momentMs(command.when, primary);
      const expired = await keys.expireKey(primary.node, command.id, atMs, actOf(command, deps));
      await change(expired, command, primary, deps);
      return;
    }
    case "audit":
      await exportAudit(command, primary, deps);
  }
}

function actOf({ by, reason }: Given, { operator }: KeysDeps): Act {
  return { by: by ?? operator, reason };
}

/** A page at a time, so that a long log needs no more memory than a short one. */
async function exportAudit(
  { after, since }: Extract<KeysCommand, { kind: "audit" }>,
  { node, serverTimeMs }: Primary,
  { keys, print }: KeysDeps,
): Promise<void> {
  const sinceMs = since === null ? null : "atMs" in since ? since.atMs : serverTimeMs - since.inMs;
  for (let last = after; ;) {
    const page = await keys.readAudit(node, { after: last, sinceMs, limit: AUDIT_PAGE });
    for (const entry of page) print(JSON.stringify(entry));
    last = page.at(-1)?.n ?? last;
    if (page.length < AUDIT_PAGE) return;
  }
}

async function create(command: CreateCommand, primary: Primary, deps: KeysDeps): Promise<void> {
  const { name, role, scopes, limits, minLevel, onLost } = command;
  if (minLevel !== undefined && !deps.levels.includes(minLevel))
    throw badInput([`--min-level is not a configured level; use one of ${deps.levels.join(", ")}`]);
  const expiresAtMs = command.expires === null ? null : momentMs(command.expires, primary);
  if (expiresAtMs !== null && expiresAtMs <= primary.serverTimeMs)
    throw badInput(["--expires is not in the future"]);
  await requireRole(command, primary.node, deps);
  const made = makeKeyText();
  const { id, secretHash } = command.fingerprint ?? { id: made.id, secretHash: hashSecret(made.secret) };
  const owner = command.owner ?? id;
  const known = await deps.keys.readKeys(primary.node, null);
  refuseKnownId(command, id, known);
  await claimRole(command, owner, primary.node, deps);
  const key = await deps.keys.insertKey(
    primary.node,
    { id, secretHash, name, owner, role, scopes, limits, minLevel, onLost, expiresAtMs },
    actOf(command, deps),
  );
  const described = describeKey(key, primary.serverTimeMs);
  if (command.fingerprint === null) {
    // At once: should the process end while it waits below, the key would be lost, and it is
    // written nowhere else.
    deps.print(command.json ? JSON.stringify({ key: made.text, ...described }, null, 2) : made.text);
    deps.note(
      `The key ${id} was created. Store it now: it is shown only once, and the service keeps only a hash.`,
    );
  } else {
    deps.print(command.json ? JSON.stringify(described, null, 2) : keyTable([described]));
    deps.note(`The key ${id} is registered and can be used.`);
  }
  noteFellows(known, owner, deps);
  await printReplication("the key", primary, deps);
}

/**
 * Who makes a key elsewhere chooses its id, and without `--owner` that is the name of its owner. It
 * must not choose the name of an owner that is there: it would see that one's transactions.
 */
function refuseKnownId({ owner }: CreateCommand, id: string, known: readonly ApiKey[]): void {
  if (known.some((key) => key.id === id))
    throw badInput([`there is a key with the id ${id} already: make another one`]);
  if (owner === null && known.some((key) => key.owner === id))
    throw badInput([
      `the id ${id} is the name of an owner that has keys, and the new key would be another key of that owner. Make another one, or use --owner ${id} if that is meant`,
    ]);
}

function noteFellows(known: readonly ApiKey[], owner: string, { note }: KeysDeps): void {
  const ids = known.filter((key) => key.owner === owner && key.revokedAtMs === null).map(({ id }) => id);
  if (ids.length > 0)
    note(`The owner ${owner} has other keys, which see the same transactions: ${ids.join(", ")}.`);
}

async function change(
  key: ApiKey | null,
  command: { readonly kind: "revoke" | "expire"; readonly id: string; readonly json: boolean },
  primary: Primary,
  deps: KeysDeps,
): Promise<void> {
  if (key === null)
    throw new HighwaterError("not_found", { detail: `There is no key with the id ${command.id}.` });
  const described = describeKey(key, primary.serverTimeMs);
  deps.print(command.json ? JSON.stringify(described, null, 2) : keyTable([described]));
  deps.note("Gateways learn this at their next refresh, by default within a second.");
  await printReplication("the change", primary, deps);
}

/**
 * A change that only the primary has is gone after a failover; a revocation above all should not
 * be.
 */
async function printReplication(what: string, primary: Primary, deps: KeysDeps): Promise<void> {
  const replication = await awaitReplicas(deps.store, deps.clock, primary.node);
  if (replication === null) {
    deps.note(
      `No service has begun an epoch yet, so it is not known which other nodes have ${what} on disk.`,
    );
    return;
  }
  const { have, lack } = replication;
  if (lack.length === 0) deps.note(`All nodes have ${what} on disk: ${have.join(", ")}.`);
  else
    deps.note(
      `WARNING: only ${have.join(", ")} confirmed in time that they have ${what} on disk. A failover to ${lack.join(" or ")} may undo it: check the list again after one.`,
    );
}

async function requireRole(command: CreateCommand, node: string, deps: KeysDeps): Promise<void> {
  const { role } = command;
  const access = accessOf(command.scopes);
  let facts = await deps.keys.readRole(node, role, access);
  if (facts === null && command.createRole) {
    await deps.keys.createRole(node, role, access, readPassword(command, deps));
    facts = await deps.keys.readRole(node, role, access);
    const may = access === "write" ? "write receipts, and nothing else" : "read no table";
    deps.note(`The role ${role} was created. It may ${may} until you grant it more.`);
  } else if (facts !== null && command.password.kind !== "none")
    throw badInput([`the role ${role} exists already, and this command does not change its password`]);
  if (facts === null) throw badInput([`the role ${role} does not exist (--create-role creates it)`]);
  const faults = roleFaults(facts);
  if (faults.length > 0) throw badInput(faults.map((fault) => `the role ${role} ${fault}`));
}

export function roleFaults(facts: RoleFacts): string[] {
  const faults: string[] = [];
  if (!facts.canLogin) faults.push("cannot log in (ALTER ROLE … LOGIN)");
  faults.push(...facts.faults);
  return faults;
}

const KINDS = { read: "keys that only read", write: "keys that may write" } as const;

/**
 * A role belongs to one owner and one kind of keys: no other owner gets the rights of its sessions,
 * or what they leave behind.
 */
async function claimRole(command: CreateCommand, owner: string, node: string, deps: KeysDeps): Promise<void> {
  const { role, scopes } = command;
  const { keys, note } = deps;
  const access = accessOf(scopes);
  const claim = await keys.claimRole(node, role, { owner, access }, actOf(command, deps));
  if (claim.owner !== owner || claim.access !== access)
    throw badInput([
      `the role ${role} belongs to the owner ${claim.owner}, for ${KINDS[claim.access]}, but this key is for the owner ${owner}, one of ${KINDS[access]}. Use --owner ${claim.owner} for another key of that owner; another owner, or another kind of key, needs its own role`,
    ]);
  if (access === "write") return;
  const unprotected = await keys.protect(node, role);
  if (unprotected.length > 0)
    note(
      `WARNING: the role ${role} only reads, but the database allows it more. unprotected: [${unprotected.join(", ")}]. To revoke this, see docs/reference/keys.md.`,
    );
}

function readPassword({ password }: CreateCommand, deps: KeysDeps): string | null {
  if (password.kind === "none") return null;
  const text = password.kind === "file" ? readPasswordFile(password.path, deps) : deps.readStdin();
  const line = text.replace(/\r?\n$/, "");
  if (!isHashablePassword(line))
    throw badInput(["the password must be one line of printable ASCII characters"]);
  return line;
}

function readPasswordFile(path: string, deps: KeysDeps): string {
  try {
    return deps.readFile(path);
  } catch (cause) {
    throw badInput([
      `the file of the password cannot be read: ${String((cause as { code?: unknown }).code)}`,
    ]);
  }
}

function momentMs(moment: Moment, { serverTimeMs }: Primary): number {
  return "atMs" in moment ? moment.atMs : serverTimeMs + moment.inMs;
}

const SQLSTATE = /^[0-9A-Z]{5}$/;

function asHighwaterError(cause: unknown): HighwaterError {
  if (cause instanceof HighwaterError) return cause;
  const { code, message } = cause as { code?: unknown; message?: unknown };
  const detail = String(message);
  if (typeof code === "string" && SQLSTATE.test(code))
    return new HighwaterError("statement_failed", { sqlstate: code, detail }, { cause });
  return new HighwaterError("primary_unavailable", { detail, outcome: "unknown" }, { cause });
}
