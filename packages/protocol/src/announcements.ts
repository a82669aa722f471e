// Announcements of a gateway to a tracker: an id before its COMMIT, its position after it, or that
// it came to nothing; of a kept transaction also its contents, and whether its client was answered.
import Type, { type Static } from "typebox";
import { AnsweredAnnouncement, ContentsAnnouncement } from "./contents.ts";
import { closed } from "./schema-helpers.ts";
import { AtRiskText } from "./value.ts";
import { LevelName, LIMITS, MaxDelayMs, Metadata, OffsetText, OwnerText, Uuid } from "./schemas.ts";

/**
 * Names one attempt of one gateway: a withdrawal takes back what this very attempt announced, and
 * nothing else.
 */
const AttemptName = Type.String({ minLength: 1, maxLength: 64 });

export const Announcement = Type.Union([
  Type.Object(
    {
      kind: Type.Literal("intent"),
      id: Uuid,
      epoch: Uuid,
      by: AttemptName,
      /**
       * How long the attempt can still take. After that it has ended, or its gateway is gone. Until
       * then its id is not settled.
       */
      endsWithinMs: Type.Integer({ minimum: 1, maximum: LIMITS.endsWithinMs }),
      /** Absent: it has no owner. */
      owner: Type.Optional(OwnerText),
      /** After this time without being durable at the level, it is reported as delayed. */
      maxDelayMs: Type.Optional(MaxDelayMs),
      level: Type.Optional(LevelName),
      metadata: Type.Optional(Metadata),
      /** Absent: it has no value, or its client relies on nothing before it is durable. */
      atRisk: Type.Optional(AtRiskText),
    },
    closed,
  ),
  Type.Object(
    {
      kind: Type.Literal("position"),
      id: Uuid,
      epoch: Uuid,
      offset: OffsetText,
      owner: Type.Optional(OwnerText),
    },
    closed,
  ),
  Type.Object(
    {
      kind: Type.Literal("withdrawn"),
      id: Uuid,
      epoch: Uuid,
      by: AttemptName,
      owner: Type.Optional(OwnerText),
    },
    closed,
  ),
  ContentsAnnouncement,
  AnsweredAnnouncement,
]);
export type Announcement = Static<typeof Announcement>;

export const AnnouncementBatch = Type.Object(
  {
    gateway: Type.String({ minLength: 1, maxLength: 128 }),
    /** The gateway's region. */
    region: Type.Optional(Type.String({ minLength: 1, maxLength: 63 })),
    announcements: Type.Array(Announcement, { maxItems: LIMITS.announcementsPerBatch }),
    /**
     * Present while answers in the gateway wait for marks of transactions that are not announced.
     */
    waitsForMs: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMITS.waitMs })),
    /**
     * By epoch of the announcements, its parent: the epoch's record may be on no surviving node.
     */
    parents: Type.Optional(Type.Record(Uuid, Uuid)),
  },
  closed,
);
export type AnnouncementBatch = Static<typeof AnnouncementBatch>;
