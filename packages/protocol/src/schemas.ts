// TypeBox schemas of a gateway's messages, and of what both services' messages are made of; the
// types are derived from them, never written by hand.
import Type, { type Static } from "typebox";
import { about, closed, texts } from "./schema-helpers.ts";
import { OnLost, Redo } from "./redo.ts";
import { ValueAtRisk } from "./value.ts";

export const Uuid = Type.String({
  pattern: "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
});
export const OffsetText = Type.String({
  pattern: "^(0|[1-9][0-9]{0,63})$",
  description: "A place in one epoch's log: a non-negative decimal integer of at most 64 digits, as text.",
});
export const LevelName = Type.String({
  minLength: 1,
  maxLength: 63,
  description: "Name of a configured level, such as `disk`, `region` or `global`.",
});

export const LIMITS = {
  statements: 256,
  transactionsPerBatch: 256,
  params: 65535,
  metadataEntries: 16,
  metadataChars: 256,
  metadataNameChars: 64,
  tokensPerRequest: 10_000,
  announcementsPerBatch: 10_000,
  lossesPerRequest: 500,
  waitMs: 60_000,
  maxDelayMs: 86_400_000,
  /** An interactive transaction has its limit, at most a day, twice. */
  endsWithinMs: 3 * 86_400_000,
} as const;

export const Position = Type.Object(
  {
    epoch: about(Uuid, "Id of the epoch: the time from one start or promotion of a primary to the next."),
    offset: about(OffsetText, "Bytes of log, as decimal text."),
  },
  {
    ...closed,
    description: "A position in one epoch's log. Offsets of different epochs must not be compared.",
  },
);
export type Position = Static<typeof Position>;

export const Marks = Type.Object(
  {
    epoch: about(Uuid, "Id of the epoch."),
    seq: Type.Integer({ minimum: 1, description: "Number of the epoch. A later epoch has a higher number." }),
    levels: about(
      Type.Record(LevelName, OffsetText, closed),
      "For each level, the offset up to which the log is durable at the level.",
    ),
  },
  {
    ...closed,
    description:
      "How far the log of one epoch is durable now, by level. A level that was never observed is absent, not zero.",
  },
);
export type Marks = Static<typeof Marks>;

export const EpochCause = texts(
  ["first", "clean_restart", "crash_recovery", "promotion", "reinstated", "restored"],
  "How the epoch began.",
);
export type EpochCause = Static<typeof EpochCause>;

export const EpochRecord = Type.Object(
  {
    id: Uuid,
    seq: Type.Integer({ minimum: 1 }),
    previous: Type.Union([Uuid, Type.Null()]),
    node: Type.String(),
    cause: EpochCause,
    startedAt: Type.String(),
    startOffset: about(OffsetText, "Upper bound of this record's own position in the epoch's log."),
    forkOffset: about(OffsetText, "This history contains the previous epoch's log at least up to here."),
    /** This history left that log exactly here. Null: see keptEnd(). */
    forkLimit: Type.Union([OffsetText, Type.Null()]),
    /** Epochs outside this history that an operator declared ended by choosing this one. */
    supersedes: Type.Array(Uuid),
    /** An operator's command chose this node. */
    commanded: Type.Boolean(),
    /** The previous epoch's marks as the process that minted this epoch last saw them. */
    finalMarks: Type.Record(LevelName, OffsetText, closed),
  },
  closed,
);
export type EpochRecord = Static<typeof EpochRecord>;

export const Isolation = Type.Union(
  [Type.Literal("serializable"), Type.Literal("repeatable read"), Type.Literal("read committed")],
  {
    description:
      "The isolation level, by PostgreSQL's names. Default: `serializable`; for a read with `after` or `mode: local`, which may run on a replica, `repeatable read`.",
  },
);
export type Isolation = Static<typeof Isolation>;

export const Param = Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()], {
  description:
    "A value as PostgreSQL's text. Send a number as a string if a 64-bit float cannot hold it exactly.",
});
export type Param = Static<typeof Param>;

export const Statement = Type.Object(
  {
    sql: Type.String({ minLength: 1, description: "One statement; `$1`, `$2` … stand for the parameters." }),
    params: Type.Optional(Type.Array(Param, { maxItems: LIMITS.params })),
  },
  closed,
);
export type Statement = Static<typeof Statement>;

export const Metadata = Type.Record(
  Type.String(),
  Type.String({ maxLength: LIMITS.metadataChars }),
  // Closed: a name with a line break does not match the library's own pattern, and its value would
  // not be looked at.
  {
    ...closed,
    maxProperties: LIMITS.metadataEntries,
    propertyNames: {
      minLength: 1,
      maxLength: LIMITS.metadataNameChars,
      pattern: "^[^\\r\\n\\u2028\\u2029]*$",
    },
    description: "The application's own data. Trackers send it with events to webhooks.",
  },
);

/** What is no UUIDv7 gets an error of its own. */
export const IdText = Type.String({
  minLength: 1,
  maxLength: 64,
  description: "The transaction's id, a UUIDv7. The client creates it.",
});
export const TokenText = Type.String({
  minLength: 1,
  maxLength: 200,
  description:
    "The token of a committed transaction. With it a tracker can judge the transaction later. Opaque.",
});
const Seq = Type.Integer({
  minimum: 1,
  maximum: 1_000_000_000,
  description:
    "Number of the call within its transaction: 1, 2, 3 and so on. A repeated number gets its answer again.",
});
const Statements = Type.Array(Statement, { minItems: 1, maxItems: LIMITS.statements });
const SomeStatements = Type.Array(Statement, { maxItems: LIMITS.statements });

/** An unsigned 128-bit tag of whose transaction it is; 0 without authentication. */
export const OwnerText = Type.String({ pattern: `^(0|${numbersUpTo(String(2n ** 128n - 1n))})$` });

/** As a pattern: the whole numbers from 1 to the limit, which has more than one digit. */
function numbersUpTo(limit: string): string {
  const shorter = `[1-9][0-9]{0,${String(limit.length - 2)}}`;
  const below = [...limit].flatMap((digit, at) => {
    const lowest = at === 0 ? 1 : 0;
    const rest = limit.length - at - 1;
    const smaller = `${limit.slice(0, at)}[${String(lowest)}-${String(Number(digit) - 1)}][0-9]{${String(rest)}}`;
    return Number(digit) > lowest ? [smaller] : [];
  });
  return [shorter, ...below, limit].join("|");
}

export const MaxDelayMs = Type.Integer({
  minimum: 1,
  maximum: LIMITS.maxDelayMs,
  description:
    "The tracker sends an event `transaction.delayed` if the transaction is not durable at the level after this many milliseconds.",
});

export const Keep = Type.Boolean({
  description:
    "True: trackers keep the contents of the transaction until it is durable at every level, and longer if it is lost. Default: GATEWAY_KEEP.",
});

/** How a transaction runs. */
const ExecutionFields = {
  isolation: Type.Optional(Isolation),
  readOnly: Type.Optional(Type.Boolean({ default: false })),
  deferrable: Type.Optional(
    Type.Boolean({
      default: false,
      description:
        "Only with `serializable` and `readOnly`: the transaction waits for a snapshot that no later transaction can make unsafe.",
    }),
  ),
};

/** When a commit is answered. */
const Acknowledgement = {
  ack: Type.Optional(
    Type.Union([Type.Literal("commit"), Type.Literal("durable")], {
      default: "commit",
      description:
        "`commit`: answer at the commit point. `durable`: answer when the transaction is durable at the level.",
    }),
  ),
  level: Type.Optional(LevelName),
  maxWaitMs: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: LIMITS.waitMs,
      description:
        "Maximum milliseconds that a durable answer waits after the commit. Then the answer is 202 `pending`; the transaction is not lost.",
    }),
  ),
};

export const TransactionRequest = Type.Object(
  {
    id: IdText,
    statements: Statements,
    ...ExecutionFields,
    ...Acknowledgement,
    /**
     * Only with `readOnly`: the snapshot has everything that this token's transaction wrote and
     * saw.
     */
    after: Type.Optional(TokenText),
    mode: Type.Optional(
      Type.Union([Type.Literal("primary"), Type.Literal("local")], {
        description:
          "Only with `readOnly`: where the transaction runs. `local`: on a replica in the gateway's region, if one can serve it; the default with `after` and with `reads: durable`.",
      }),
    ),
    reads: Type.Optional(
      Type.Union([Type.Literal("committed"), Type.Literal("durable")], {
        default: "committed",
        description:
          "`durable`, only with `readOnly`: the answer has rows only when everything that the read saw is durable at the level. Otherwise it is 503 `read_unconfirmed` after `maxWaitMs`. `committed`: as `ack` says.",
      }),
    ),
    maxDelayMs: Type.Optional(MaxDelayMs),
    metadata: Type.Optional(Metadata),
    keep: Type.Optional(Keep),
    onLost: Type.Optional(OnLost),
    atRisk: Type.Optional(ValueAtRisk),
  },
  closed,
);
export type TransactionRequest = Static<typeof TransactionRequest>;

/** Opens an interactive transaction. Statements may ride along. */
export const BeginRequest = Type.Object(
  {
    id: IdText,
    statements: Type.Optional(SomeStatements),
    ...ExecutionFields,
    maxDelayMs: Type.Optional(MaxDelayMs),
    metadata: Type.Optional(Metadata),
    keep: Type.Optional(Keep),
    onLost: Type.Optional(OnLost),
    atRisk: Type.Optional(ValueAtRisk),
  },
  closed,
);
export type BeginRequest = Static<typeof BeginRequest>;

export const StatementsRequest = Type.Object({ seq: Seq, statements: Statements }, closed);
export type StatementsRequest = Static<typeof StatementsRequest>;

export const CommitRequest = Type.Object(
  {
    seq: Seq,
    statements: Type.Optional(SomeStatements),
    ...Acknowledgement,
    /** This and `atRisk`: instead of that of the begin. */
    maxDelayMs: Type.Optional(MaxDelayMs),
    atRisk: Type.Optional(ValueAtRisk),
  },
  closed,
);
export type CommitRequest = Static<typeof CommitRequest>;

export const RollbackRequest = Type.Object({ seq: Seq }, closed);
export type RollbackRequest = Static<typeof RollbackRequest>;

export const StatementResult = Type.Object(
  {
    command: Type.String({ description: "PostgreSQL's command tag without its numbers, such as `UPDATE`." }),
    rowCount: Type.Integer({ minimum: 0, description: "Number of rows that the statement read or changed." }),
    fields: Type.Array(
      Type.Object({ name: Type.String(), oid: Type.Integer({ description: "PostgreSQL's type." }) }, closed),
    ),
    rows: Type.Array(Type.Array(Type.Union([Type.String(), Type.Null()])), {
      description: "PostgreSQL's text of each value, or null. The client decodes it.",
    }),
    truncated: Type.Optional(
      Type.Literal(true, {
        description:
          "The answer leaves rows out because of a limit of the service. A committed write stays committed.",
      }),
    ),
  },
  closed,
);
export type StatementResult = Static<typeof StatementResult>;

export const TransactionState = texts(
  ["active", "committed", "pending", "durable", "lost", "aborted", "broken", "expired", "unknown"],
  "What became of a transaction. `active`: it is open or runs. `committed`: durability was not asked about. `pending`: committed, and not known to be durable. `durable`, `lost`, `broken`: settled at the level. `aborted`: never committed. `expired`: too old to know. `unknown`: the service does not know the id; of a token without an id, a failover may have discarded the transaction or not.",
);
export type TransactionState = Static<typeof TransactionState>;

export const Served = Type.Object(
  {
    node: Type.String({ description: "Name of the node." }),
    region: Type.String({ description: "Region of the node." }),
    role: texts(["primary", "replica"], "Only a primary takes writes."),
    behindBytes: Type.Union([OffsetText, Type.Null()], {
      description: "Lag in bytes of log, as decimal text; 0 on the primary, null if not known.",
    }),
    behindMs: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
      description:
        "Age of the newest commit in the snapshot, in milliseconds; 0 on the primary, null if not known.",
    }),
    ageMs: Type.Optional(
      Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
        description:
          "Only with `reads: durable`: how old the state in the answer is at most, in milliseconds. It includes the time that the answer waited; null if not known.",
      }),
    ),
  },
  {
    ...closed,
    description:
      "Which node served a read, and how far its snapshot may be behind the primary, by the gateway's latest observation.",
  },
);
export type Served = Static<typeof Served>;

const Achieved = Type.Optional(
  Type.Union([LevelName, Type.Null()], {
    description:
      "The strongest level at which the transaction is durable, by what the gateway knew when it answered; null: none yet. Absent if it has not committed.",
  }),
);

const NewestMarks = Type.Union([Marks, Type.Null()], {
  description: "The newest marks that the gateway knows; null before it knows any.",
});

export const TransactionResponse = Type.Object(
  {
    id: Uuid,
    state: TransactionState,
    token: TokenText,
    position: Position,
    /** Level of a `durable` or `pending` state. */
    level: Type.Optional(LevelName),
    achieved: Achieved,
    metBy: Type.Optional(
      Type.Literal("store", {
        description:
          "Present if the database met the level in `achieved` with its answer to the commit, so that nothing had to be waited for.",
      }),
    ),
    results: Type.Union([Type.Array(StatementResult), Type.Null()], {
      description:
        "One result for each statement; null for a replay, because the service does not keep results.",
    }),
    marks: NewestMarks,
    announced: Type.Boolean({
      description: "True if a tracker had the announcement on disk when the gateway answered.",
    }),
    replayed: Type.Optional(
      Type.Literal(true, { description: "The id had committed before; this request ran nothing." }),
    ),
    /** Present for a read that asked for `after` or `mode`. */
    served: Type.Optional(Served),
    kept: Type.Optional(
      Type.Boolean({
        description:
          "Present if the contents of the transaction were to be kept. True: a tracker had them and the position on disk when the gateway answered.",
      }),
    ),
  },
  closed,
);
export type TransactionResponse = Static<typeof TransactionResponse>;

export const OpenTransactionResponse = Type.Object(
  {
    id: Uuid,
    state: Type.Literal("active"),
    seq: Type.Integer({ minimum: 0, description: "Number of the call that this answers; 0 for begin." }),
    results: Type.Array(StatementResult),
    expiresAt: Type.String({
      description:
        "When the gateway rolls the transaction back if no other call arrives. RFC 3339, by the gateway's clock.",
    }),
    marks: NewestMarks,
  },
  { ...closed, description: "An open interactive transaction." },
);
export type OpenTransactionResponse = Static<typeof OpenTransactionResponse>;

export const RollbackResponse = Type.Object({ id: Uuid, state: Type.Literal("aborted") }, closed);
export type RollbackResponse = Static<typeof RollbackResponse>;

export const TransactionStateResponse = Type.Object(
  {
    id: about(Uuid, "The transaction's id."),
    state: about(TransactionState, "State at the level."),
    token: Type.Optional(
      about(TokenText, "Token of a committed transaction, for verdicts or an SDK's `hw.promise(token)`."),
    ),
    position: Type.Optional(about(Position, "Position of a committed transaction.")),
    level: Type.Optional(about(LevelName, "The level that `state` refers to, if it refers to one.")),
    achieved: Achieved,
    redo: Type.Optional(Redo),
    marks: NewestMarks,
  },
  { ...closed, description: "The state of an id." },
);
export type TransactionStateResponse = Static<typeof TransactionStateResponse>;

/**
 * A PostgreSQL client's cancel that has reached another gateway than its session: process and
 * secret in hexadecimal, of at least 4 bytes each. The secret has at most 256 bytes.
 */
export const CancelRequest = Type.Object({ key: Type.String({ pattern: "^([0-9a-f]{2}){8,260}$" }) }, closed);
export type CancelRequest = Static<typeof CancelRequest>;

export const CancelResponse = Type.Object(
  {
    /** Whether this gateway has the session. Its wait or its statement is then cancelled. */
    found: Type.Boolean(),
  },
  closed,
);
export type CancelResponse = Static<typeof CancelResponse>;
