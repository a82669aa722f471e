// The contents of kept transactions, and how trackers list what was lost.
import Type, { type Static } from "typebox";
import { TransactionEventData } from "./durability.ts";
import { about, closed, texts } from "./schema-helpers.ts";
import { Isolation, OffsetText, OwnerText, Statement, Uuid } from "./schemas.ts";

export const CONTENTS_LIMITS = {
  /** Of the sealed contents of one transaction, as base64url. */
  sealedChars: 8 * 1_048_576,
  lostPerPage: 1_000,
  defaultLostPerPage: 100,
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
    form: texts(["one_shot", "interactive"], "How the transaction arrived."),
    isolation: Isolation,
    key: Type.String({ description: "The API key, or the subject of the JWT, that ran the transaction." }),
    role: Type.Union([Type.String(), Type.Null()], {
      description: "The database's login role; null: that of the topology.",
    }),
    settings: Type.Record(Type.String(), Type.String(), {
      description: "Settings of the session that the gateway made. Settings by SQL are among the statements.",
    }),
    statements: Type.Array(
      Type.Object({ ...Statement.properties, result: Type.Union([KeptResult, Type.Null()]) }, closed),
      { description: "In the order in which they ran. `result` is null if it is not known." },
    ),
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
    owner: Type.Optional(OwnerText),
    answered: texts(["yes", "no"]),
  },
  closed,
);
export type AnsweredAnnouncement = Static<typeof AnsweredAnnouncement>;
