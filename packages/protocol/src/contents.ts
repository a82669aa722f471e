// The contents of kept transactions, and how trackers list what was lost.
import Type, { type Static } from "typebox";
import { TransactionEventData } from "./durability.ts";
import { about, closed, texts } from "./schema-helpers.ts";
import { OnLost } from "./redo.ts";
import { Isolation, LevelName, LIMITS, OffsetText, OwnerText, Statement, Uuid } from "./schemas.ts";

export const CONTENTS_LIMITS = {
  /** Of the sealed contents of one transaction, as base64url. */
  sealedChars: 8 * 1_048_576,
  lostPerPage: 1_000,
  defaultLostPerPage: 100,
  /** Transactions that a lost one names. */
  dependsOn: 20,
} as const;

export const Answered = texts(
  ["yes", "no", "unknown"],
  "`yes`: the gateway wrote the whole answer to the client's connection, which does not show that the client read it. `no`: it wrote nothing of the answer. `unknown`: it wrote a part, or did not report.",
);
export type Answered = Static<typeof Answered>;

export const ContentsState = texts(
  ["kept", "not_kept", "over_limit", "erased"],
  "`kept`: the tracker has the contents. `not_kept`: it never got them. `over_limit`: it refused them, because a limit was reached. `erased`: the owner's contents were erased.",
);
export type ContentsState = Static<typeof ContentsState>;

/** Why a tracker does not keep contents that a gateway sent. */
export const NotKeptWhy = texts(["over_limit", "erased", "failed"]);
export type NotKeptWhy = Static<typeof NotKeptWhy>;

const Digest = Type.String({ pattern: "^[0-9a-f]{64}$" });

export const KeptResult = Type.Object(
  {
    command: Type.String({ description: "PostgreSQL's command tag without its numbers, such as `UPDATE`." }),
    rowCount: Type.Integer({ minimum: 0, description: "Number of rows that the statement read or changed." }),
    digest: Type.Union([Digest, Type.Null()], {
      description:
        "SHA-256 of the JSON text of the result's `fields` and `rows`; null if the answer left rows out.",
    }),
  },
  { ...closed, description: "The answer to one statement." },
);
export type KeptResult = Static<typeof KeptResult>;

/** The text that a gateway seals. Its version rises when a reader must know more. */
export const KeptContents = Type.Object(
  {
    version: Type.Literal(1),
    form: texts(["one_shot", "interactive", "wire"], "How the transaction arrived."),
    isolation: Isolation,
    key: Type.String({ description: "The API key, or the subject of the JWT, that ran the transaction." }),
    role: Type.Union([Type.String(), Type.Null()], {
      description: "The database's login role; null: that of the topology.",
    }),
    settings: Type.Record(Type.String(), Type.String(), {
      description:
        "Settings of the session that the gateway made. Settings by SQL are among the statements. On the PostgreSQL wire also facts of the client's session at COMMIT.",
    }),
    statements: Type.Array(
      Type.Object(
        {
          ...Statement.properties,
          types: Type.Optional(
            Type.Array(Type.Integer({ minimum: 0 }), {
              description: "OIDs of types that a client of the PostgreSQL wire declared for the parameters.",
            }),
          ),
          binary: Type.Optional(
            Type.Array(Type.Integer({ minimum: 0 }), {
              description: "Indexes of parameters in PostgreSQL's binary format. Their texts are base64.",
            }),
          ),
          unreplayable: Type.Optional(
            Type.String({
              description: "Why it is never run again, such as `copy` or `binary_result`.",
            }),
          ),
          result: Type.Union([KeptResult, Type.Null()]),
        },
        closed,
      ),
      { description: "In the order in which they ran. `result` is null if it is not known." },
    ),
    order: Type.Optional(
      Type.Object(
        {
          xid: Type.String({ pattern: "^[0-9]{1,20}$" }),
          snapshot: Type.String({ pattern: "^[0-9]{1,20}:[0-9]{1,20}:[0-9,]*$" }),
        },
        {
          ...closed,
          description:
            "The database's id of the transaction, and the snapshot behind its last statement. A transaction comes before another one whose snapshot shows it.",
        },
      ),
    ),
    ack: Type.Optional(
      Type.Literal("durable", {
        description: "Its client waited for durability. Absent: it was answered at its commit.",
      }),
    ),
    level: Type.Optional(about(LevelName, "With `ack`: the level that its client waited for.")),
    onLost: Type.Optional(OnLost),
    redoOf: Type.Optional(about(Uuid, "The lost transaction that this one has brought back.")),
    digest: Type.Union([Digest, Type.Null()], {
      description:
        "SHA-256 of the digests of all results, each followed by a line feed; null if one is not known. Only contents with this digest can ever be run again.",
    }),
  },
  { ...closed, description: "The statements of a transaction, and a digest of the answer." },
);
export type KeptContents = Static<typeof KeptContents>;

export const LostTransaction = Type.Object(
  {
    ...TransactionEventData.properties,
    owner: about(OwnerText, "Tag of the owner; `0` without authentication."),
    lostAt: Type.String({
      description: "When this tracker published the loss. RFC 3339, by the tracker's clock.",
    }),
    answered: Answered,
    contents: ContentsState,
    dependsOn: Type.Optional(
      Type.Object(
        {
          ids: Type.Array(Uuid, { maxItems: CONTENTS_LIMITS.dependsOn, description: "The newest first." }),
          more: Type.Boolean({ description: "Whether there are more, or may be." }),
        },
        {
          ...closed,
          description:
            "The other lost transactions of its owner that it may have read: all that committed before its last snapshot, and all whose order is not known. Absent if its own order is not known; then it may have read any of its `attempt`.",
        },
      ),
    ),
  },
  { ...closed, description: "A lost transaction." },
);
export type LostTransaction = Static<typeof LostTransaction>;

export const LostCursor = Type.String({ pattern: "^[0-9]{1,15}$" });

export const LostList = Type.Object(
  {
    lost: Type.Array(LostTransaction, { description: "In the order in which this tracker published them." }),
    next: Type.Union([LostCursor, Type.Null()], {
      description: "Ask with `after` this for the next page; null: there is none now.",
    }),
  },
  closed,
);
export type LostList = Static<typeof LostList>;

export const LostDetails = Type.Object(
  {
    ...LostTransaction.properties,
    kept: Type.Union([KeptContents, Type.Null()], {
      description: "The contents; null unless `contents` is `kept`.",
    }),
  },
  { ...closed, description: "A lost transaction and its contents." },
);
export type LostDetails = Static<typeof LostDetails>;

export const SealedLostRequest = Type.Object(
  {
    after: Type.Integer({ minimum: 0 }),
    /** Asks whether all losses up to this epoch are listed. */
    epoch: Type.Optional(Uuid),
  },
  closed,
);

/** A page of the answer of a tracker to a gateway that replays. */
export const SealedLost = Type.Object(
  {
    lost: Type.Array(
      Type.Object(
        {
          ...LostTransaction.properties,
          /** Null: this tracker does not have the contents. */
          sealed: Type.Union([Type.Object({ offset: OffsetText, text: Type.String() }, closed), Type.Null()]),
        },
        closed,
      ),
    ),
    /** Null: there are no more. */
    next: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()]),
    /** The tracker follows the epoch of the question, and has listed all kept losses before it. */
    isComplete: Type.Optional(Type.Boolean()),
  },
  closed,
);
export type SealedLost = Static<typeof SealedLost>;

const ReplayResult = Type.Object(
  {
    command: Type.String(),
    rowCount: Type.Integer({ minimum: 0 }),
    digest: Type.Union([Digest, Type.Null()]),
  },
  closed,
);

export const ReplayConflict = texts(
  [
    "changed",
    "changed_schema",
    "changed_reference",
    "chosen_key",
    "generated_value",
    "different_result",
    "unordered",
    "blocked",
    "too_late",
    "refused",
  ],
  "`changed`: a row that it writes was written since the loss. `changed_schema`: its table, or a function or type that the table uses, was altered since. `changed_reference`: a row that it refers to was written since. `chosen_key`: it takes a key that is no UUID, which somebody may have taken and given back since. `generated_value`: it took a value from a sequence, which is never given out twice. `different_result`: it would be answered something else. `unordered`: another lost transaction wrote the same row, and which came first is not known. `blocked`: it may depend on a lost transaction that was not brought back (`because`). `too_late`: one that may depend on it was brought back already (`because`; absent if no tracker lists it now). `refused`: the database refused it (`error`).",
);
export type ReplayConflict = Static<typeof ReplayConflict>;

export const Unrecoverable = texts(
  ["not_kept", "not_known_committed", "not_replayable"],
  "`not_kept`: no tracker that answered has the contents. `not_known_committed`: the gateway did not see how each statement ended, or its client was never answered that it had committed (`kind`). `not_replayable`: its statements cannot be run again safely (`kind`).",
);
export type Unrecoverable = Static<typeof Unrecoverable>;

export const ReplayOutcome = Type.Object(
  {
    id: Uuid,
    attempt: Uuid,
    answered: Answered,
    outcome: texts(["replayed", "conflict", "unrecoverable"]),
    replayedBy: Type.Optional(
      about(Uuid, "Id of the transaction that has brought it back. Absent in a dry run that would."),
    ),
    token: Type.Optional(
      Type.String({
        description: "That transaction's token, if this call ran it. Ask a tracker when it is durable.",
      }),
    ),
    reason: Type.Optional(Type.Union([ReplayConflict, Unrecoverable])),
    kind: Type.Optional(
      Type.String({
        description:
          "The kind of statement that cannot be run again, such as `trigger`; `unanswered`: its client waited for durability, was not answered that it is durable, and may run it again itself. So may a client of the PostgreSQL wire that is not known to be answered. `not_examined`, with a reason: its login role could not log in, or the database did not plan the statements in time; a later call examines it again.",
      }),
    ),
    because: Type.Optional(about(Uuid, "Id of the other lost transaction.")),
    statement: Type.Optional(
      Type.Integer({ minimum: 0, description: "Index of the statement, counted from 0." }),
    ),
    lost: Type.Optional(about(ReplayResult, "The answer that the client got.")),
    redone: Type.Optional(
      Type.Object(
        {
          ...ReplayResult.properties,
          rows: Type.Array(Type.Array(Type.Union([Type.String(), Type.Null()]))),
        },
        { ...closed, description: "The answer that it would get now, with at most 20 rows." },
      ),
    ),
    error: Type.Optional(Type.String({ description: "The database's message." })),
  },
  { ...closed, description: "The end of a lost transaction." },
);
export type ReplayOutcome = Static<typeof ReplayOutcome>;

export const ReplayRequest = Type.Object(
  {
    ids: Type.Optional(
      Type.Array(Uuid, {
        minItems: 1,
        maxItems: CONTENTS_LIMITS.lostPerPage,
        description: "The lost transactions to bring back. Absent: all of the caller's owner.",
      }),
    ),
    dryRun: Type.Optional(
      Type.Boolean({
        description:
          "Whether to roll everything back. A dry run takes locks and values of sequences all the same. Default: true.",
      }),
    ),
    independent: Type.Optional(
      texts(
        ["none", "rows", "all"],
        "`none`: whatever may have seen a lost transaction depends on it. `rows`: only what wrote one of the same rows; with it you declare that no client acted on what another lost transaction had shown to it. `all`: as `rows`, and you declare it also of transactions whose rows are not known, because they were not kept or cannot be replayed. Default: `none`.",
      ),
    ),
  },
  closed,
);
export type ReplayRequest = Static<typeof ReplayRequest>;

export const ReplayReport = Type.Object(
  {
    dryRun: Type.Boolean(),
    lostWrites: Type.Integer({ minimum: 0, description: "`replayed + conflicts + unrecoverable`." }),
    replayed: Type.Integer({ minimum: 0 }),
    conflicts: Type.Integer({ minimum: 0 }),
    unrecoverable: Type.Integer({ minimum: 0 }),
    trackers: Type.Object(
      { asked: Type.Integer({ minimum: 0 }), answered: Type.Integer({ minimum: 0 }) },
      { ...closed, description: "One that did not answer may have contents that no other has." },
    ),
    transactions: Type.Array(ReplayOutcome, { description: "In the order of their commits." }),
  },
  { ...closed, description: "The end of each lost transaction." },
);
export type ReplayReport = Static<typeof ReplayReport>;

export const ErasedContents = Type.Object(
  {
    owner: OwnerText,
    through: Type.String({
      description:
        "Contents of transactions whose ids carry a time up to this are refused from now on. RFC 3339.",
    }),
    erased: Type.Integer({
      minimum: 0,
      description: "Number of transactions whose contents this tracker erased.",
    }),
  },
  closed,
);
export type ErasedContents = Static<typeof ErasedContents>;

/** The answer to announcements if the tracker does not keep all their contents; else it is 204. */
export const AnnouncementsAnswer = Type.Object(
  {
    notKept: Type.Array(
      Type.Object({ id: Uuid, epoch: Uuid, owner: Type.Optional(OwnerText), why: NotKeptWhy }, closed),
    ),
  },
  closed,
);
export type AnnouncementsAnswer = Static<typeof AnnouncementsAnswer>;

/** A gateway sends these after the position of the transaction, on the same way. */
export const ContentsAnnouncement = Type.Object(
  {
    kind: Type.Literal("contents"),
    id: Uuid,
    epoch: Uuid,
    offset: OffsetText,
    owner: Type.Optional(OwnerText),
    /** See ContentsKeys of packages/service; only a holder of the deployment's keys can open it. */
    sealed: Type.String({
      minLength: 1,
      maxLength: CONTENTS_LIMITS.sealedChars,
      pattern: "^[A-Za-z0-9_-]+$",
    }),
  },
  closed,
);
export type ContentsAnnouncement = Static<typeof ContentsAnnouncement>;

export const AnsweredAnnouncement = Type.Object(
  {
    kind: Type.Literal("answered"),
    id: Uuid,
    epoch: Uuid,
    /** Others of the same epoch and owner. */
    also: Type.Optional(Type.Array(Uuid, { maxItems: LIMITS.announcementsPerBatch })),
    owner: Type.Optional(OwnerText),
    answered: texts(["yes", "no"]),
  },
  closed,
);
export type AnsweredAnnouncement = Static<typeof AnsweredAnnouncement>;
