// The tracker's reports beside marks: the current exposure, and events of single transactions and
// of levels.
import Type, { type Static } from "typebox";
import { closed } from "./schema-helpers.ts";
import { AmountText, Unit } from "./value.ts";
import { Redo } from "./redo.ts";
import { LevelName, Metadata, OffsetText, OwnerText, Uuid } from "./schemas.ts";
import { StallEvent, Verdict } from "./verdicts.ts";

export const DURABILITY_EVENT_TYPES = [
  "transaction.lost",
  "transaction.broken",
  "transaction.durable",
  "transaction.delayed",
  "transactions.unlisted",
  "durability.stalled",
  "durability.recovered",
  "epoch.started",
  "promise.broken",
  "webhook.disabled",
] as const;
export type DurabilityEventType = (typeof DURABILITY_EVENT_TYPES)[number];

/**
 * Number of the epoch in which it was recorded, its own number there, and the epoch: two nodes that
 * were promoted side by side give their epochs the same number.
 */
export const EventId = Type.String({
  pattern: "^[1-9][0-9]{0,15}\\.[1-9][0-9]{0,15}\\.[0-9a-f]{8}$",
  description:
    "`{epoch number}.{n}.{first 8 digits of the epoch's id}`, the same on every tracker. Within one history the two numbers only rise.",
});

/** `data` of the events of one transaction: `transaction.*`. */
export const TransactionEventData = Type.Object(
  {
    id: Uuid,
    attempt: Type.String({ ...Uuid, description: "The epoch in which the transaction committed." }),
    position: Type.Optional(
      Type.Object(
        { epoch: Uuid, offset: OffsetText },
        { ...closed, description: "The position of the commit, if known." },
      ),
    ),
    readOnly: Type.Optional(Type.Literal(true, { description: "True for a read-only transaction." })),
    verdicts: Type.Record(LevelName, Verdict, { description: "The verdict at each level." }),
    rule: Type.String({ description: "The rule that gave the verdict." }),
    settledAt: Type.Optional(
      Type.String({ description: "For a loss: the strongest level that its proof had reached." }),
    ),
    retriedIn: Type.Optional({ ...Uuid, description: "The epoch in which the same id committed again." }),
    metadata: Type.Optional(Metadata),
    redo: Type.Optional(Redo),
    details: Type.Optional(
      Type.String({
        description:
          "For a lost write: the path at any tracker that says whether the client was answered, and what the transaction contained if it was kept. Needs the scope `contents:read`.",
      }),
    ),
  },
  closed,
);
export type TransactionEventData = Static<typeof TransactionEventData>;

/** `data` of `epoch.started`. */
export const EpochEventData = Type.Object(
  {
    epoch: Uuid,
    seq: Type.Integer({ minimum: 1 }),
    previous: Type.Union([Uuid, Type.Null()]),
    node: Type.String(),
    cause: Type.String(),
    forkOffset: Type.String({
      ...OffsetText,
      description:
        "This epoch contains the log of `previous` up to this offset. Transactions of `previous` above it may be missing.",
    }),
    complete: Type.Boolean({
      description:
        "True: no transaction of `previous` can be missing without an event of its own. False: one above `forkOffset` can, if it was never announced to the tracker.",
    }),
    unlisted: Type.Integer({
      minimum: 0,
      description:
        "Transactions that left the tracker's ledger before they were durable at every level, and may be missing now. Their owners get `transactions.unlisted`.",
    }),
  },
  closed,
);
export type EpochEventData = Static<typeof EpochEventData>;

/** `data` of `promise.broken`: a failure has undone what a level promised to survive. */
export const BrokenPromiseData = Type.Object(
  {
    level: LevelName,
    epoch: Type.String({ ...Uuid, description: "The epoch whose transactions were lost." }),
    from: Type.String({ ...OffsetText, description: "The log up to this offset was kept." }),
    to: Type.String({
      ...OffsetText,
      description: "The level's final mark: the log up to it was durable at the level.",
    }),
    transactions: Type.Integer({
      minimum: 0,
      description: "Number of these transactions that the ledger still holds.",
    }),
  },
  closed,
);
export type BrokenPromiseData = Static<typeof BrokenPromiseData>;

/**
 * `data` of `transactions.unlisted`: there is no report of each of them, because the ledger had let
 * go of them.
 */
export const UnlistedData = Type.Object(
  {
    epoch: Type.String({ ...Uuid, description: "The ended epoch in which the transactions committed." }),
    currentEpoch: Type.String({ ...Uuid, description: "The epoch that may lack the transactions." }),
    count: Type.Integer({
      minimum: 1,
      description:
        "Number of the owner's transactions that left the tracker's ledger before they were durable at every level. At most this many of them are lost.",
    }),
    from: Type.String({
      ...OffsetText,
      description: "The lowest offset at which such a transaction, of any owner, committed.",
    }),
    to: Type.String({ ...OffsetText, description: "The highest such offset." }),
    ids: Type.Object(
      { first: Uuid, last: Uuid },
      { ...closed, description: "The ids of all these transactions are in this range." },
    ),
  },
  closed,
);
export type UnlistedData = Static<typeof UnlistedData>;

export const DisabledWhy = Type.Union(
  [Type.Literal("by_request"), Type.Literal("gone"), Type.Literal("failing")],
  { description: "`gone`: the endpoint answered 410. `failing`: every delivery failed for five days." },
);
export type DisabledWhy = Static<typeof DisabledWhy>;

/** `data` of `webhook.disabled`. */
export const WebhookDisabledData = Type.Object(
  {
    endpoint: Type.String(),
    why: DisabledWhy,
    failingSince: Type.Union([Type.String(), Type.Null()], {
      description: "Time of the first failure since the last success, RFC 3339.",
    }),
  },
  closed,
);
export type WebhookDisabledData = Static<typeof WebhookDisabledData>;

export const DurabilityEvent = Type.Object(
  {
    id: EventId,
    type: Type.Enum([...DURABILITY_EVENT_TYPES]),
    at: Type.String({ description: "When the event was recorded, RFC 3339." }),
    data: Type.Union([
      TransactionEventData,
      StallEvent,
      EpochEventData,
      BrokenPromiseData,
      UnlistedData,
      WebhookDisabledData,
    ]),
  },
  closed,
);
export type DurabilityEvent = Static<typeof DurabilityEvent>;

const Count = Type.Integer({ minimum: 0 });

/**
 * What would be lost now, at most, if only what the level covers survived. `event: exposure` of the
 * stream.
 */
export const ExposureReport = Type.Object(
  {
    epoch: Uuid,
    level: LevelName,
    transactions: Type.Integer({
      minimum: 0,
      description: "Transactions that are committed, announced and not yet durable at the level.",
    }),
    bytes: Type.String({
      ...OffsetText,
      description:
        "Bytes of log between the level's mark and the newest of these transactions; 0 if the store's positions do not count bytes.",
    }),
    oldestMs: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
      description: "Age of the oldest of these transactions in milliseconds; null if there is none.",
    }),
    byRegion: Type.Record(Type.String(), Count, {
      description: "Transactions by the region of the gateway that committed them.",
    }),
    byGateway: Type.Record(Type.String(), Count, {
      description: "Transactions by gateway, for every gateway that announced a transaction recently.",
    }),
    byOwner: Type.Record(OwnerText, Count, {
      description: "Transactions by owner, for a limited number of owners with the most.",
    }),
    values: Type.Optional(
      Type.Record(
        Unit,
        Type.Object(
          {
            amount: AmountText,
            byGateway: Type.Record(Type.String(), AmountText),
            byOwner: Type.Record(OwnerText, AmountText),
          },
          closed,
        ),
        { description: "The sums of `atRisk` of these transactions, by unit. Absent: none has a value." },
      ),
    ),
  },
  closed,
);
export type ExposureReport = Static<typeof ExposureReport>;

/** The report with this owner's part alone; null: no owner's. */
export function ofOwner(report: ExposureReport, owner: string | null): ExposureReport {
  const { values } = report;
  const only = <T>(of: Readonly<Record<string, T>>): Record<string, T> => {
    const part = owner === null ? undefined : of[owner];
    return owner === null || part === undefined ? {} : { [owner]: part };
  };
  return {
    ...report,
    byOwner: only(report.byOwner),
    ...(values !== undefined && {
      values: Object.fromEntries(
        Object.entries(values).map(([unit, sums]) => [unit, { ...sums, byOwner: only(sums.byOwner) }]),
      ),
    }),
  };
}
