// The messages of POST /sql, for the documentation: neon/request.ts reads them and neon/answer.ts
// and neon/error.ts write them.
import Type from "typebox";
import {
  type ErrorCode,
  ERRORS,
  EvidenceBody,
  LIMITS,
  ProblemBody,
  TransactionResponse,
} from "@highwater/protocol";

const closed = { additionalProperties: false } as const;
const orNull = (schema: Type.TSchema) => Type.Union([schema, Type.Null()]);

export const NeonQuery = Type.Object(
  {
    query: Type.String({ minLength: 1, description: "One statement." }),
    params: Type.Optional(
      Type.Array(Type.Unknown(), {
        maxItems: LIMITS.params,
        description:
          "Strings, numbers (with all their digits), booleans and null keep their values. Arrays become PostgreSQL's array literals, objects JSON.",
      }),
    ),
    arrayMode: Type.Optional(
      orNull(Type.Boolean({ description: "Rows are arrays. Overrides Neon-Array-Mode." })),
    ),
  },
  { description: "The gateway ignores other fields, as Neon does." },
);

export const NeonRequest = Type.Union([
  NeonQuery,
  Type.Object(
    { queries: Type.Array(NeonQuery, { minItems: 1, maxItems: LIMITS.statements }) },
    { description: "A batch: all queries run in one transaction." },
  ),
]);

const NeonField = Type.Object(
  {
    name: Type.String(),
    dataTypeID: Type.Integer(),
    tableID: Type.Integer(),
    columnID: Type.Integer(),
    dataTypeSize: Type.Integer(),
    dataTypeModifier: Type.Integer(),
    format: Type.Literal("text"),
  },
  closed,
);

const resultFields = {
  fields: Type.Array(NeonField),
  rows: Type.Array(
    Type.Union([Type.Array(Type.Unknown()), Type.Object({}, { description: "Values by column name." })]),
  ),
  command: Type.String({ description: "First word of the command tag." }),
  rowCount: orNull(Type.Integer({ minimum: 0 })),
  rowAsArray: Type.Boolean(),
};

export const NeonResult = Type.Object(resultFields, closed);

const { results: _results, ...aboutTransaction } = TransactionResponse.properties;
export const NeonTransaction = Type.Object(aboutTransaction, {
  ...closed,
  description: "Not in Neon's wire: the answer of POST /v1/transactions, without the results.",
});

export const NeonResponse = Type.Union([
  Type.Object({ ...resultFields, transaction: NeonTransaction }, closed),
  Type.Object({ results: Type.Array(NeonResult), transaction: NeonTransaction }, closed),
]);

const text = orNull(Type.String());
const { outcome, retry } = ProblemBody.properties;

export const NeonErrorBody = Type.Object(
  {
    message: Type.String(),
    code: orNull(Type.String({ description: "SQLSTATE of the database, or the nearest one to the error." })),
    severity: Type.String(),
    detail: text,
    hint: text,
    position: text,
    internalPosition: text,
    internalQuery: text,
    where: text,
    table: text,
    column: text,
    schema: text,
    dataType: text,
    constraint: text,
    file: text,
    line: text,
    routine: text,
    highwater: Type.Object(
      {
        code: orNull(Type.Unsafe<ErrorCode>(Type.String({ enum: Object.keys(ERRORS) }))),
        outcome,
        retry,
        transactionId: text,
        query: orNull(Type.Integer({ minimum: 0, description: "Index of the query that failed, from 0." })),
        retryAfterMs: orNull(Type.Number({ minimum: 0 })),
        fields: orNull(Type.Array(Type.String())),
        limit: orNull(Type.Object({ name: Type.String(), value: Type.Number() }, closed)),
        evidence: orNull(EvidenceBody),
      },
      { ...closed, description: "The fields of a Problem, as other calls return it." },
    ),
    transaction: Type.Optional(NeonTransaction),
  },
  {
    ...closed,
    description:
      "The fields that the driver reads, and `highwater`. If `transaction` is present, the transaction has committed.",
  },
);
