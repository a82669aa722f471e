// From the schemas of the wire to those of the document: each named one stands once, and everything else refers to it.
import * as protocol from "@highwater/protocol";
import { type TSchema } from "@highwater/protocol";
import * as neon from "./neon-schemas.ts";

export type Json = Readonly<Record<string, unknown>>;

const NAMED: Readonly<Record<string, TSchema>> = {
  BeginRequest: protocol.BeginRequest,
  CommitRequest: protocol.CommitRequest,
  Isolation: protocol.Isolation,
  Level: protocol.LevelName,
  Marks: protocol.Marks,
  Metadata: protocol.Metadata,
  NeonAnswer: neon.NeonAnswer,
  NeonError: neon.NeonErrorBody,
  NeonQuery: neon.NeonQuery,
  NeonRequest: neon.NeonRequest,
  NeonResult: neon.NeonResult,
  NeonTransaction: neon.NeonTransaction,
  Offset: protocol.OffsetText,
  OpenTransactionResponse: protocol.OpenTransactionResponse,
  Param: protocol.Param,
  Position: protocol.Position,
  Problem: protocol.ProblemBody,
  RollbackRequest: protocol.RollbackRequest,
  RollbackResponse: protocol.RollbackResponse,
  Served: protocol.Served,
  Statement: protocol.Statement,
  StatementResult: protocol.StatementResult,
  StatementsRequest: protocol.StatementsRequest,
  Token: protocol.TokenText,
  TransactionId: protocol.IdText,
  TransactionRequest: protocol.TransactionRequest,
  TransactionResponse: protocol.TransactionResponse,
  TransactionState: protocol.TransactionState,
  TransactionStateResponse: protocol.TransactionStateResponse,
  Uuid: protocol.Uuid,
};

/** What the service checks of a text by other means than its schema, so that it can name the fault. */
const STRICTER: Readonly<Record<string, Json>> = {
  TransactionId: {
    pattern: "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-7[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$",
  },
  Token: { pattern: "^hw1_[A-Za-z0-9_-]+$" },
};

/** How TypeBox writes a record's names. */
const ANY_NAME = "^.*$";

const names = new Map(Object.entries(NAMED).map(([name, schema]) => [JSON.stringify(schema), name]));

export const components: Json = Object.fromEntries(
  Object.entries(NAMED).map(([name, schema]) => [
    name,
    // Not `schemaOf`, which would make a reference of it to itself.
    { ...(inDocument(plain(schema)) as Json), ...STRICTER[name] },
  ]),
);

/** A schema at its place in the document. */
export function schemaOf(schema: TSchema): unknown {
  return referring(plain(schema));
}

function plain(schema: TSchema): unknown {
  return JSON.parse(JSON.stringify(schema));
}

function inDocument(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(referring);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(simpler(value as Json)).map(([key, inner]) => [key, referring(inner)]),
  );
}

function referring(value: unknown): unknown {
  const name = names.get(JSON.stringify(value));
  return name === undefined ? inDocument(value) : { $ref: `#/components/schemas/${name}` };
}

/** The same meaning in the words that readers and generators of clients expect. */
function simpler(schema: Json): Json {
  const { anyOf, patternProperties, ...rest } = schema;
  if (isLiterals(anyOf)) return { type: "string", enum: anyOf.map((one) => one.const), ...rest };
  const values = (patternProperties as Json | undefined)?.[ANY_NAME];
  if (values !== undefined) return { ...rest, additionalProperties: values };
  return schema;
}

function isLiterals(value: unknown): value is readonly { readonly const: string }[] {
  return (
    Array.isArray(value) &&
    value.every((one: Json) => one["type"] === "string" && typeof one["const"] === "string")
  );
}
