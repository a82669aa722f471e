// Goal: both SDKs have the same names. Every name of one exists in the other, in that language's spelling, with the same fields,
// methods and options. This file lists each intended difference with its reason, and the differences it lists must exist.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type ApiItem, type Module } from "./model.ts";
import { pythonModules, typescriptModules } from "./pages.ts";

/** Another name for the same thing, TypeScript's first. */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  DurableListener: "Listener",
  LostListener: "Listener",
  TokenVerdict: "Verdict",
  TransactionStateResponse: "TransactionStatus",
  verifyWebhook: "verify",
};

/** Options that are the keywords of a call in Python. */
const KEYWORDS_OF: Readonly<Record<string, string>> = {
  DurableOptions: "DurabilityPromise.durable",
  HighwaterOptions: "Highwater",
  ResumeOptions: "Session.resume",
  SessionOptions: "Highwater.session",
  StatusOptions: "Highwater.status",
  StoresDurableOptions: "StoresPromise.durable",
  VerdictsOptions: "Highwater.verdicts",
  WebhookRequest: "verify",
};

/** Fields of another name: the word is the language's own. */
const OTHER_FIELDS: Readonly<Record<string, string>> = {
  observe: "observer",
  signal: "cancel",
};
/** TypeScript's times are milliseconds, and their names say so; Python's are seconds. */
const UNIT = /_ms$/;

const ONLY_TYPESCRIPT: Readonly<Record<string, string>> = {
  AbortError: "in Python a call that is cancelled raises the language's own CancelledError",
  AckOptions: "Python's options have them each",
  CallOptions: "Python's options have them each",
  ExecutionOptions: "Python's options have them each",
  "FollowOutboxOptions.signal": "in Python a keyword of the call, `stop`",
  FetchLike: "Python's transport is httpx",
  "HighwaterOptions.fetch": "Python's transport is httpx",
  "LastRow ResultsOf RowOf": "Python's checkers know no columns",
  Log: "Python has a logger of its own",
  "OpenTelemetryApi OpenTelemetrySpan OpenTelemetryTracer TracingOptions": "Python imports the API itself",
  "RefusedToken.id": "a field that a verdict has can be read from both only if both declare it",
  "RefusedToken.error RefusedToken.rule": "Python has its code and detail without a box, and no rule",
  StoreClients: "Python says Mapping",
  SqlValue: "Python says object: types of one's own join in",
  "OutboxHandler TransactBody": "Python's is a Callable",
  Verdict: "the word alone; Python's Verdict is the judgement that has it",
  observers: "in Python the client takes several",
  "BeginOptions.signal CommitOptions.signal TransactOptions.signal TransactionOptions.signal":
    "in Python a keyword of the call, `cancel`; an async one is cancelled as its task",
  "CommitOptions.statements": "in Python a keyword of commit",
};

const ONLY_PYTHON: Readonly<Record<string, string>> = {
  Cancellation: "what AbortSignal is to JavaScript",
  "Highwater.debug": "in TypeScript an entry of its own, for its size",
  "Highwater.token_of Session.token_of": "in TypeScript an entry of its own, for its size",
  "Highwater.verify": "a platform's fetch decides on TLS",
  "Field Statement": "in TypeScript they are written out where they are used",
  follow_outbox_async: "the same for the async client",
  "HighwaterError.message": "every error of JavaScript has it",
  "Interval Multirange Range": "JavaScript has none, and its users expect text",
  "RefusedToken.code RefusedToken.detail": "in TypeScript inside error",
};

const names = (table: Readonly<Record<string, string>>): Set<string> =>
  new Set(Object.keys(table).flatMap((key) => key.split(" ")));
const snake = (name: string): string =>
  name.replace(/(?<=[a-z])[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Adapters and gates follow the libraries that they are for, and those differ. */
function entriesOf(modules: readonly Module[]): Map<string, ApiItem> {
  const own = modules.filter(
    ({ name }) => !/(?:kysely|drizzle|enlist|gate|tokens|sqlalchemy|dbapi)$/.test(name),
  );
  return new Map(own.flatMap(({ entries }) => entries).map((entry) => [entry.name, entry]));
}

function inPython(name: string): string {
  return OTHER_NAMES[name] ?? (/^[A-Z]/.test(name) ? name : snake(name));
}

/** What it has, also from what it is a kind of, in Python's spelling. */
function partsOf(entry: ApiItem, all: ReadonlyMap<string, ApiItem>): string[] {
  const inherited = ("bases" in entry ? entry.bases : []).flatMap((base) => {
    const found = all.get(base);
    return found === undefined ? [] : partsOf(found, all);
  });
  const fields = "fields" in entry ? entry.fields.map(({ name }) => name.replace("?", "")) : [];
  const methods =
    "methods" in entry ? (entry.methods ?? []).map(({ name }) => name.split(".").at(-1) ?? "") : [];
  return [...inherited, ...fields, ...methods]
    .map(snake)
    .map((name) => OTHER_FIELDS[name] ?? name.replace(UNIT, ""));
}

/** Parameters of what stands behind a name: of a class, of a function, or of a class's method. */
function keywordsOf(path: string, all: ReadonlyMap<string, ApiItem>): string[] {
  const [owner = "", method] = path.split(".");
  const entry = all.get(owner);
  const methods = entry !== undefined && "methods" in entry ? (entry.methods ?? []) : [];
  const called = method === undefined ? entry : methods.find(({ name }) => name === path);
  assert.ok(called !== undefined && "params" in called, path);
  return called.params.map(({ name }) => name);
}

const typescript = entriesOf(typescriptModules());
const python = entriesOf(pythonModules());

/** Names that one side has alone, as `Owner.part` for what is inside. */
function differences(): { onlyTypescript: Set<string>; onlyPython: Set<string> } {
  const onlyTypescript = new Set<string>();
  const documented = new Set(Object.values(KEYWORDS_OF).map((path) => path.split(".")[0] ?? ""));
  const onlyPython = new Set([...python.keys()].filter((name) => !name.startsWith("Async")));
  for (const [name, entry] of typescript) {
    const keywords = KEYWORDS_OF[name];
    const twin = python.get(inPython(name));
    if (keywords === undefined && twin === undefined) onlyTypescript.add(name);
    if (twin !== undefined) onlyPython.delete(twin.name);
    // A type has no parts to compare, and one side's word for it may be the other's class.
    if (keywords === undefined && (twin === undefined || entry.kind === "type" || twin.kind === "type")) {
      if (twin !== undefined && entry.kind !== twin.kind) onlyTypescript.add(name);
      continue;
    }
    const mine = new Set(partsOf(entry, typescript));
    const theirs = new Set(
      keywords === undefined && twin ? partsOf(twin, python) : keywordsOf(keywords ?? "", python),
    );
    for (const part of mine) if (!theirs.has(part)) onlyTypescript.add(`${name}.${undo(part)}`);
    for (const part of theirs) {
      const of = keywords ?? twin?.name ?? "";
      const isPositional = /^(?:tokens?|transaction_id)$/.test(part) && keywords !== undefined;
      if (!mine.has(part) && !isPositional) onlyPython.add(`${of}.${part}`);
    }
  }
  for (const name of documented) onlyPython.delete(name);
  return { onlyTypescript, onlyPython };
}

function undo(part: string): string {
  return Object.entries(OTHER_FIELDS).find(([, python]) => python === part)?.[0] ?? part;
}

/** What every error has because all of them have it is said once. */
function once(found: ReadonlySet<string>): string[] {
  const isInherited = (name: string): boolean => {
    const [owner = "", part] = name.split(".");
    return (
      part !== undefined &&
      /Error$/.test(owner) &&
      owner !== "HighwaterError" &&
      found.has(`HighwaterError.${part}`)
    );
  };
  return [...found].filter((name) => !isInherited(name)).toSorted();
}

test("what TypeScript has, Python has, but for what is listed", () => {
  assert.deepEqual(once(differences().onlyTypescript), [...names(ONLY_TYPESCRIPT)].toSorted());
});

test("what Python has, TypeScript has, but for what is listed", () => {
  assert.deepEqual(once(differences().onlyPython), [...names(ONLY_PYTHON)].toSorted());
});

test("what a class of Python has, its async twin has, without `cancel`", () => {
  const twins = [...python.keys()].filter((name) => name.startsWith("Async"));
  assert.ok(twins.length >= 5);
  for (const name of twins) {
    const sync = name.slice("Async".length);
    const [own, other] = [python.get(name), python.get(sync)];
    assert.ok(own !== undefined && other !== undefined, name);
    const parts = partsOf(own, python);
    assert.deepEqual(parts.toSorted(), partsOf(other, python).toSorted(), name);
    for (const { name: method } of "methods" in other ? (other.methods ?? []) : [])
      assert.deepEqual(
        keywordsOf(`Async${method}`, python),
        keywordsOf(method, python).filter((each) => each !== "cancel"),
        method,
      );
  }
});
