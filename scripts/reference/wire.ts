// The wire's types for both SDKs, from the protocol's schemas: of what an SDK sends and reads.
import * as protocol from "@highwater/protocol";
import { Schemas } from "@highwater/service";

const { Uuid, OffsetText, LevelName, TokenText, IdText, ProblemBody, EvidenceBody: Evidence } = protocol;
const { outcome: Outcome, retry: Retry, limit: ReachedLimit, exposure: AtRisk } = ProblemBody.properties;
const { ack: Ack, mode: Mode, reads: Reads } = protocol.TransactionRequest.properties;
const code = { type: "string", description: "Stable; a newer service may know more of them." };
const Problem = { ...ProblemBody, properties: { ...ProblemBody.properties, code } };
const AS_IN_THE_PROTOCOL =
  "Isolation Param TransactionState Verdict Position Marks EpochRecord Statement ValueAtRisk TransactionRequest BeginRequest StatementsRequest " +
  "CommitRequest RollbackRequest StatementResult Served TransactionResponse OpenTransactionResponse RollbackResponse " +
  "TransactionStateResponse VerdictsRequest TokenVerdict RefusedToken VerdictsResponse MarksResponse EpochEvent StallEvent BlindEvent " +
  "TicketRequest Ticket TicketEnd";

/** The SDK for Python distinguishes them from other texts. */
const FORMS = { Uuid, OffsetText };
const TEXTS = { ...FORMS, LevelName, TokenText, IdText };
/** Named in Python alone. */
const INNER = {
  Ack,
  Mode,
  Reads,
  Field: protocol.StatementResult.properties.fields.items,
  Refusal: protocol.RefusedToken.properties.error,
};
/** The errors of a client take their fields over: read-only, and perhaps undefined. */
const OF_ERRORS = { ReachedLimit, AtRisk, Evidence, Problem };
const names = AS_IN_THE_PROTOCOL.split(" ") as "Marks"[];
/** Each behind those that it is made of. */
const NAMED = {
  ...TEXTS,
  ...INNER,
  Outcome,
  Retry,
  ...Object.fromEntries(names.map((name) => [name, protocol[name]])),
  ...OF_ERRORS,
};
const HEAD = "Generated (make gen) from packages/protocol: what goes over the wire.";

/** As Schemas writes it. */
interface Shape {
  readonly $ref?: string;
  readonly description?: string;
  readonly type?: string;
  readonly const?: true | string;
  readonly enum?: readonly string[];
  readonly anyOf?: readonly Shape[];
  readonly items?: Shape;
  readonly additionalProperties?: Shape | false;
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly required?: readonly string[];
}

interface Language {
  readonly scalars: Readonly<Record<string, string>>;
  readonly named: (name: string) => string;
  readonly literals: (values: readonly (true | string)[]) => string;
  readonly list: (item: string) => string;
  readonly record: (value: string) => string;
}

const SHAPES = new Schemas(NAMED).components as Readonly<Record<string, Shape>>;
const nameOf = ({ $ref = "" }: Shape): string => $ref.replace(/.*\//, "");

function typeOf(shape: Shape, language: Language): string {
  const { type = "", anyOf, const: only, enum: words, items, additionalProperties: values } = shape;
  if (shape.$ref !== undefined) return language.named(nameOf(shape));
  if (anyOf !== undefined) return anyOf.map((each) => typeOf(each, language)).join(" | ");
  if (only !== undefined || words !== undefined) return language.literals(words ?? [only ?? ""]);
  if (items !== undefined) return language.list(typeOf(items, language));
  if (typeof values === "object") return language.record(typeOf(values, language));
  const scalar = language.scalars[type];
  if (scalar === undefined) throw new Error(`it needs a name: ${JSON.stringify(shape)}`);
  return scalar;
}

const TYPESCRIPT: Language = {
  scalars: { string: "string", integer: "number", number: "number", boolean: "boolean", null: "null" },
  named: (name) => (name in TEXTS ? "string" : name in INNER ? written(name) : name),
  literals: (values) => values.map((value) => JSON.stringify(value)).join(" | "),
  list: (item) => (/ \| .*[^\]]$/.test(item) ? `(${item})[]` : `${item}[]`),
  record: (value) => `Record<string, ${value}>`,
};
const WIDTH = 120;
const inLine = (fields: readonly string[]): string => `{ ${fields.join(" ").slice(0, -1)} }`;
const written = (name: string): string =>
  SHAPES[name]?.properties ? inLine(fieldsOf(name)) : typeOf(SHAPES[name] ?? {}, TYPESCRIPT);
const comment = (text: string | undefined): string => (text === undefined ? "" : `/** ${text} */ `);

/** Of an interface: a line for each. */
function fieldsOf(name: string): string[] {
  const { properties = {}, required = [] } = SHAPES[name] ?? {};
  const [readonly, orUndefined] = name in OF_ERRORS ? ["readonly ", " | undefined"] : ["", ""];
  return Object.entries(properties).map(([field, shape]) => {
    const type = typeOf(shape, TYPESCRIPT).replace(/^\w+\[\]$/, `${readonly}$&`);
    const typed = required.includes(field) ? `: ${type}` : `?: ${type}${orUndefined}`;
    const named = nameOf(shape) in INNER || SHAPES[nameOf(shape)]?.properties ? SHAPES[nameOf(shape)] : {};
    const doc = shape.description ?? named?.description;
    return `${comment(doc)}${readonly}${field}${typed};`;
  });
}

export function renderTypescript(): string {
  const types = Object.entries(SHAPES).flatMap(([name, shape]) => {
    if (name in TEXTS || name in INNER) return [];
    const doc = comment(shape.description);
    if (shape.properties === undefined) return `${doc}export type ${name} = ${typeOf(shape, TYPESCRIPT)};`;
    const fields = fieldsOf(name);
    const line = `${doc}export interface ${name} ${inLine(fields)}`;
    if (line.length <= WIDTH) return line;
    return [`${doc}export interface ${name} {`, ...fields.map((field) => `  ${field}`), "}"];
  });
  return [`// ${HEAD}`, ...types, ""].join("\n");
}

const PYTHON: Language = {
  scalars: { string: "str", integer: "int", number: "float", boolean: "bool", null: "None" },
  named: (name) => (name in TEXTS && !(name in FORMS) ? "str" : name),
  literals: (values) => `Literal[${values.map((each) => (each === true ? "True" : `"${each}"`)).join(", ")}]`,
  list: (item) => `list[${item}]`,
  record: (value) => `dict[str, ${value}]`,
};

/** Objects that users of the Python SDK write themselves. */
const WRITTEN_BY_USERS = new Set(["ValueAtRisk"]);

/**
 * Describes no other object: users of the SDK see its own classes in place of the rest.
 */
export function renderPython(): string {
  const types = Object.entries(SHAPES).flatMap(([name, shape]) => {
    const { description, properties, required = [] } = shape;
    if (name in FORMS) return `${name}: TypeAlias = Annotated[str, "${name}"]`;
    if (name in TEXTS) return [];
    if (properties === undefined)
      return [`${name}: TypeAlias = ${typeOf(shape, PYTHON)}`, `"""${description ?? ""}"""`];
    const isShown = WRITTEN_BY_USERS.has(name);
    const fields = Object.entries(properties).map(([field, inner]) => {
      const type = typeOf(inner, PYTHON);
      const line = `    ${field}: ${required.includes(field) ? type : `NotRequired[${type}]`}`;
      return isShown ? `${line}\n    """${inner.description ?? ""}"""` : line;
    });
    return [`class ${name}(TypedDict):`, ...(isShown ? [`    """${description ?? ""}"""`] : []), ...fields];
  });
  const imports = "from typing import Annotated, Literal, NotRequired, TypeAlias, TypedDict";
  return [`"""${HEAD}"""`, imports, ...types, ""].join("\n");
}
