// The form of a scenario: what a YAML file may contain. It is checked strictly, because a key that
// no code reads is a test that tests nothing. README.md explains the words.
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { validate } from "@highwater/protocol";
import Type, { type Static } from "typebox";
import { parse } from "yaml";

const closed = { additionalProperties: false } as const;
const Name = Type.String({ pattern: "^[a-zA-Z][a-zA-Z0-9 _-]*$" });
const Ms = Type.Number({ minimum: 0 });
const Optional = Type.Optional;
const object = <T extends Parameters<typeof Type.Object>[0]>(fields: T) => Type.Object(fields, closed);

const Sql = Type.Union([
  Type.String(),
  object({ sql: Type.String(), params: Optional(Type.Array(Type.Unknown())) }),
]);
const Token = Type.Union([
  Type.String(),
  object({ of: Name }),
  object({ epoch: Type.Integer(), offset: Type.Integer(), hasId: Optional(Type.Boolean()) }),
]);
const ExecutionFields = {
  isolation: Optional(Type.String()),
  readOnly: Optional(Type.Boolean()),
  metadata: Optional(Type.Record(Type.String(), Type.String())),
  atRisk: Optional(Type.Record(Type.String(), Type.String())),
  session: Optional(Name),
  /** Of a session over several stores: the one in which it runs. */
  store: Optional(Name),
  client: Optional(Name),
  timeoutMs: Optional(Ms),
};
const Ack = {
  ack: Optional(Type.String()),
  level: Optional(Type.String()),
  maxWaitMs: Optional(Ms),
  onTimeout: Optional(Type.String()),
  maxDelayMs: Optional(Ms),
};
const Wait = { level: Optional(Type.String()), timeoutMs: Optional(Ms) };
const Body = Type.Array(Type.Union([Sql, object({ raise: Type.String(), onRun: Optional(Type.Integer()) })]));

const ClientOptions = object({
  as: Optional(Name),
  /** Number of its only fake server. Default: all of them are its regions. */
  server: Optional(Type.Integer()),
  level: Optional(Type.String()),
  apiKey: Optional(Type.String()),
  requestTimeoutMs: Optional(Ms),
  totalTimeoutMs: Optional(Ms),
  shareRequests: Optional(Type.Boolean()),
  tuning: Optional(Type.Record(Type.String(), Type.Number())),
  /** All values stay text. */
  raw: Optional(Type.Boolean()),
});

/** What an SDK is asked to do. Every driver knows all of these. */
const SDK_VERBS = {
  client: ClientOptions,
  transaction: object({
    ...ExecutionFields,
    ...Ack,
    as: Optional(Name),
    id: Optional(Type.String()),
    statements: Type.Array(Sql),
    after: Optional(Token),
    mode: Optional(Type.String()),
    reads: Optional(Type.String()),
    maxAttempts: Optional(Type.Integer()),
    /** It runs this many times, one after another. */
    repeat: Optional(Type.Integer()),
  }),
  begin: object({ ...ExecutionFields, as: Name, level: Optional(Type.String()) }),
  execute: object({ tx: Name, statements: Type.Array(Sql), timeoutMs: Optional(Ms) }),
  commit: object({ ...Ack, tx: Name, statements: Optional(Type.Array(Sql)), timeoutMs: Optional(Ms) }),
  rollback: object({ tx: Name }),
  transact: object({
    ...ExecutionFields,
    ...Ack,
    as: Optional(Name),
    body: Body,
    maxAttempts: Optional(Type.Integer()),
    /** By the method `transaction`, which takes a body too. */
    via: Optional(Type.Literal("transaction")),
  }),
  /**
   * A statement in every way of every adapter of the language; on the real system, on connections
   * of the application's own too. Answers how it ended, each end once.
   */
  adapters: object({ ...Ack, statement: Type.String(), client: Optional(Name), timeoutMs: Optional(Ms) }),
  durable: object({ ...Wait, of: Name }),
  durableAll: object({
    ...Wait,
    epoch: Type.Integer(),
    firstOffset: Type.Integer(),
    count: Type.Integer({ maximum: 20_000 }),
    client: Optional(Name),
  }),
  afterDurable: object({ ...Wait, of: Name }),
  listen: object({
    as: Name,
    to: Type.Union([Type.Literal("lost"), Type.Literal("durable"), Type.Literal("broken")]),
    of: Optional(Name),
    client: Optional(Name),
    level: Optional(Type.String()),
    /** It raises an error, each time. */
    throws: Optional(Type.Boolean()),
  }),
  unlisten: object({ as: Name }),
  received: object({ as: Name, atLeast: Optional(Type.Integer()) }),
  promise: object({ as: Name, token: Token, client: Optional(Name), level: Optional(Type.String()) }),
  /** `stores`: over all of them. */
  session: object({
    as: Name,
    causal: Optional(Type.Boolean()),
    client: Optional(Name),
    stores: Optional(Name),
  }),
  sessionDurable: object({ ...Wait, of: Name, onTimeout: Optional(Type.String()) }),
  /** Clients by the names of their stores. */
  stores: object({ as: Name, clients: Type.Record(Type.String(), Name) }),
  /** Waits for transactions of several stores; with `afterDurable` it calls a function then. */
  all: object({
    ...Wait,
    stores: Name,
    of: Type.Array(Name),
    onTimeout: Optional(Type.String()),
    afterDurable: Optional(Type.Boolean()),
  }),
  saveSession: object({ of: Name, as: Name }),
  /** Saves the id for a later call under it. */
  saveId: object({ of: Name, as: Name }),
  resume: object({
    session: Name,
    token: Type.String(),
    waitMs: Optional(Ms),
    level: Optional(Type.String()),
  }),
  status: object({
    of: Optional(Name),
    id: Optional(Type.String()),
    level: Optional(Type.String()),
    waitMs: Optional(Ms),
    client: Optional(Name),
  }),
  verdicts: object({
    tokens: Type.Array(Token),
    level: Optional(Type.String()),
    waitMs: Optional(Ms),
    client: Optional(Name),
  }),
  /** On the live object; `received` has the mark of `region` as it was each time. */
  subscribe: object({ as: Name, client: Optional(Name) }),
  /**
   * The events that the client's observer received, in order, and how calls ended: `commit`,
   * `commit: committed`, `begin: CODE`.
   */
  observed: object({ client: Optional(Name), only: Type.Array(Type.String()) }),
  exposure: object({ client: Optional(Name) }),
  marks: object({ client: Optional(Name) }),
  close: object({ client: Optional(Name) }),
  /** Follows a topic of the outbox until that many rows are handled; it fails on `failOn`. */
  followOutbox: object({
    topic: Type.String(),
    count: Type.Integer(),
    failOn: Optional(Type.String()),
    level: Optional(Type.String()),
    maxAttempts: Optional(Type.Integer()),
    client: Optional(Name),
  }),
  verifyWebhook: object({
    body: Type.String(),
    headers: Type.Record(Type.String(), Type.String()),
    secrets: Type.Array(Type.String()),
    nowSeconds: Type.Number(),
  }),
} as const;

const Reply = Type.Union([
  Type.Literal("ok"),
  Type.Literal("cut"),
  Type.Literal("hang"),
  object({ ok: Type.Record(Type.String(), Type.Unknown()) }),
  Type.Object({ problem: Type.String(), retryAfter: Optional(Type.Union([Type.String(), Type.Number()])) }),
  object({
    status: Type.Integer(),
    text: Type.String(),
    headers: Optional(Type.Record(Type.String(), Type.String())),
  }),
  object({ half: Type.String() }),
]);
export type Reply = Static<typeof Reply>;
/** A list is used up in order, and `ok` follows it; anything else holds for every call. */
const Replies = Type.Union([
  Reply,
  Type.Array(Type.Union([Reply, object({ afterMs: Ms, reply: Reply })])),
  object({ afterMs: Ms, reply: Reply }),
]);
type Replies = Static<typeof Replies>;

export const Script = object({
  transactions: Optional(Replies),
  /** Applies to whole batches; with `ok` each transaction is answered as `transactions` says. */
  batches: Optional(Replies),
  states: Optional(Replies),
  verdicts: Optional(Replies),
  begin: Optional(Replies),
  statements: Optional(Replies),
  commit: Optional(Replies),
  rollback: Optional(Replies),
  marks: Optional(Replies),
  /** Each has one transaction. */
  tickets: Optional(Replies),
  ends: Optional(Replies),
  /** To a question whether the gateway is alive. */
  probes: Optional(Replies),
  /** `ok` opens it; `held` acts as a proxy that passes nothing on. */
  streams: Optional(
    Type.Union([
      Type.Literal("ok"),
      Type.Literal("held"),
      Type.Literal("hang"),
      Type.Literal("cut"),
      Type.Integer(),
      Type.Array(Type.Union([Type.Literal("ok"), Type.Literal("held"), Type.Literal("cut"), Type.Integer()])),
    ]),
  ),
  /** No request to it is answered, not even a health check. */
  blackHole: Optional(Type.Boolean()),
  /** Nothing listens there. */
  down: Optional(Type.Boolean()),
});
export type Script = Static<typeof Script>;

const Levels = Type.Record(Type.String(), Type.Integer());
const Counts = Type.Record(Type.String(), Type.Unknown());
const at = { server: Optional(Type.Integer()) };

/**
 * The commands of the fake server, and the questions to it. `server` is its number where there are
 * several.
 */
const FAKE_VERBS = {
  script: Type.Intersect([Script, Type.Object(at)]),
  mark: object({ ...at, epoch: Type.Integer(), levels: Levels }),
  epochs: object({
    ...at,
    epochs: Type.Array(
      object({
        id: Type.Integer(),
        previous: Optional(Type.Integer()),
        fork: Optional(Type.Integer()),
        start: Optional(Type.Integer()),
      }),
    ),
  }),
  /** The tracker has lost sight of the primary, or sees it again. */
  blind: object({ ...at, blind: Type.Boolean() }),
  rawEvents: object({ ...at, text: Type.String() }),
  cutStreams: object(at),
  /** Waits until the counts are reached. */
  awaitSeen: Type.Intersect([Type.Object(at), Counts]),
  /** What it saw, exactly. */
  seen: Type.Intersect([Type.Object(at), Counts]),
} as const;

/** The actions on the real system, and the questions to its database. */
const SYSTEM_VERBS = {
  fault: Type.Record(Type.String(), Type.Record(Type.String(), Type.Unknown()), {
    minProperties: 1,
    maxProperties: 1,
  }),
  truth: object({ sql: Type.String(), rows: Type.Array(Type.Record(Type.String(), Type.Unknown())) }),
} as const;

const VERBS = { ...SDK_VERBS, ...FAKE_VERBS, ...SYSTEM_VERBS, join: Name, cancel: Name } as const;
type Verb = keyof typeof VERBS;
export const isSdkVerb = (verb: string): boolean => Object.hasOwn(SDK_VERBS, verb);
export const isFakeVerb = (verb: string): boolean => Object.hasOwn(FAKE_VERBS, verb);
export const isSystemVerb = (verb: string): boolean => Object.hasOwn(SYSTEM_VERBS, verb);

const COMMON = {
  /** It continues while the next steps run; `join` or `cancel` it by this name. */
  background: Name,
  /** The party of the scenario that does it. */
  by: Name,
  expect: Type.Unknown(),
  error: Type.Record(Type.String(), Type.Unknown()),
} as const;

const Scenario = object({
  name: Type.String({ minLength: 3 }),
  why: Type.String({ minLength: 10, pattern: "\\.$" }),
  /** It waits for seconds. The test runs all such scenarios at the same time. */
  isSlow: Optional(Type.Boolean()),
  client: Optional(ClientOptions),
  servers: Optional(Type.Array(Script, { minItems: 1, maxItems: 3 })),
  /** Two languages, one for each party: every pairing is run. */
  parties: Optional(Type.Tuple([Name, Name])),
  steps: Type.Array(Type.Record(Type.String(), Type.Unknown()), { minItems: 1 }),
});

export interface Step {
  readonly verb: Verb;
  readonly body: Readonly<Record<string, unknown>>;
  readonly background?: string;
  readonly by?: string;
  readonly expect?: unknown;
  readonly error?: Readonly<Record<string, unknown>>;
}

/** What a scenario runs against: the folder that it stands in. */
type Target = "fake" | "system";
export type Scenario = Omit<Static<typeof Scenario>, "steps"> & {
  readonly on: Target;
  readonly steps: readonly Step[];
};

function readStep(raw: Readonly<Record<string, unknown>>, where: string): Step {
  const common: Record<string, unknown> = {};
  const verbs: string[] = [];
  for (const [key, value] of Object.entries(raw)) {
    if (!Object.hasOwn(COMMON, key)) verbs.push(key);
    else {
      check(COMMON[key as keyof typeof COMMON], value, `${where}.${key}`);
      common[key] = value;
    }
  }
  const [verb = ""] = verbs;
  if (verbs.length !== 1 || !Object.hasOwn(VERBS, verb))
    throw new Error(`${where}: a step has one verb, not ${verbs.join(" and ") || "none"}`);
  const given = raw[verb] ?? {};
  check(VERBS[verb as Verb], given, `${where}.${verb}`);
  const body = typeof given === "string" ? { name: given } : given;
  return { verb: verb as Verb, body: body as Step["body"], ...common };
}

function check(schema: Parameters<typeof validate>[0], value: unknown, where: string): void {
  const result = validate(schema, value);
  if (!result.ok) throw new Error(`${where}: ${result.faults.join("; ")}`);
}

/** The scenarios of a YAML text: a list of them. */
export function readScenarios(text: string, file: string, on: Target): Scenario[] {
  const raw: unknown = parse(text);
  if (!Array.isArray(raw)) throw new Error(`${file}: a list of scenarios`);
  return raw.map((each, index) => {
    const result = validate(Scenario, each);
    const where = `${file}[${String(index)}]`;
    if (!result.ok) throw new Error(`${where}: ${result.faults.join("; ")}`);
    const { steps, ...rest } = result.value;
    const name = `${where} ${rest.name}`;
    const read = steps.map((step, at) => readStep(step, `${name}.steps[${String(at)}]`));
    for (const { verb } of read)
      if (on === "fake" ? isSystemVerb(verb) : isFakeVerb(verb))
        throw new Error(`${name}: ${verb} is not for scenarios/${on}`);
    return { ...rest, on, steps: read };
  });
}

export async function loadScenarios(on: Target): Promise<Scenario[]> {
  const folder = fileURLToPath(new URL(`../scenarios/${on}`, import.meta.url));
  const files = (await readdir(folder)).filter((name) => name.endsWith(".yaml")).sort();
  const all = await Promise.all(
    files.map(async (name) => readScenarios(await readFile(join(folder, name), "utf8"), name, on)),
  );
  const names = all.flat().map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new Error(`two scenarios are called ${twice}`);
  return all.flat();
}
