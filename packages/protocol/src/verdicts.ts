// What a tracker is asked and answers: verdicts, losses, marks, and the events of the mark stream.
import Type, { type Static } from "typebox";
import { Redo } from "./redo.ts";
import { about, closed, texts } from "./schema-helpers.ts";
import { EpochRecord, LevelName, LIMITS, Marks, OffsetText, OwnerText, Position, Uuid } from "./schemas.ts";

export const Verdict = texts(
  ["pending", "durable", "lost", "broken", "expired", "unknown"],
  "A tracker's verdict. `pending` can become any other verdict. `durable` and `lost` are final, except that `durable` becomes `broken` if a failure breaks the promise, and `lost` if the transaction is back. `expired`: the transaction is too old. `unknown`: the service does not know the id.",
);
export type Verdict = Static<typeof Verdict>;

export const VerdictsRequest = Type.Object(
  {
    tokens: Type.Array(Type.String({ minLength: 1, maxLength: 200 }), {
      minItems: 1,
      maxItems: LIMITS.tokensPerRequest,
    }),
    level: Type.Optional(LevelName),
    waitMs: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: LIMITS.waitMs,
        description:
          "Maximum milliseconds that the answer waits until no transaction is pending. One pending transaction delays the others. Default: no wait.",
      }),
    ),
  },
  closed,
);
export type VerdictsRequest = Static<typeof VerdictsRequest>;

export const TokenVerdict = Type.Object(
  {
    token: Type.String({ description: "The judged token." }),
    id: about(Uuid, "The transaction's id; all zeros for a position-only token."),
    verdict: about(Verdict, "The verdict."),
    level: about(LevelName, "The level of the verdict."),
    position: about(
      Position,
      "The position at which the tracker judges the transaction now: its own, or the one to which it was carried over.",
    ),
    // services/durability-tracker/SPEC.md has the service's.
    rule: Type.String({
      description: "The rule that gave the verdict. The rules of an SDK's own verdicts start with `client:`.",
    }),
    retriedIn: Type.Optional(
      about(Uuid, "For `lost`: the epoch in which another attempt under the same id committed."),
    ),
    settledAt: Type.Optional(
      about(
        Type.String(),
        "For `lost` and `broken`: the strongest level that the published tombstone had reached.",
      ),
    ),
    redo: Type.Optional(Redo),
  },
  { ...closed, description: "The verdict on one transaction at one level." },
);
export type TokenVerdict = Static<typeof TokenVerdict>;

export const RefusedToken = Type.Object(
  {
    token: Type.String({ description: "The refused token." }),
    verdict: Type.Literal("unknown", { description: "Always `unknown`." }),
    level: about(LevelName, "The level in the question."),
    rule: Type.Literal("refused", { description: "Always `refused`." }),
    error: Type.Object(
      { code: texts(["invalid_token", "forbidden"]), detail: Type.String() },
      {
        ...closed,
        description: "The reason: the text is not a token, or the token belongs to another owner.",
      },
    ),
  },
  {
    ...closed,
    description:
      "Replaces the verdict: the tracker does not judge this token for this caller. It judges the others.",
  },
);
export type RefusedToken = Static<typeof RefusedToken>;

const Blind = Type.Optional(
  Type.Literal(true, {
    description:
      "True if the tracker is blind: it receives nothing from the primary. Another tracker may have verdicts on transactions that are pending here.",
  }),
);

export const VerdictsResponse = Type.Object(
  {
    verdicts: Type.Array(Type.Union([TokenVerdict, RefusedToken]), {
      description: "One verdict for each token, in the order of the tokens.",
    }),
    marks: Type.Union([Marks, Type.Null()]),
    blind: Blind,
  },
  closed,
);
export type VerdictsResponse = Static<typeof VerdictsResponse>;

/**
 * What a gateway asks of ids under which it found the tombstone of a loss: that says neither which
 * attempt was lost, nor how far it had come.
 */
export const LossesRequest = Type.Object(
  {
    of: Type.Array(Type.Object({ id: Uuid, owner: Type.Optional(OwnerText) }, closed), {
      minItems: 1,
      maxItems: LIMITS.lossesPerRequest,
    }),
    level: LevelName,
  },
  closed,
);
export type LossesRequest = Static<typeof LossesRequest>;

export const Loss = Type.Object(
  {
    /** The epoch in which the attempt committed. */
    attempt: Uuid,
    verdict: Verdict,
    /** Where the attempt committed. */
    position: Position,
  },
  closed,
);
export type Loss = Static<typeof Loss>;

export const LossesResponse = Type.Object(
  {
    losses: Type.Array(Type.Union([Loss, Type.Null()]), {
      description:
        "One entry for each id, in the order of the ids. Null: the tracker's ledger has no attempt of the id.",
    }),
    blind: Blind,
  },
  closed,
);
export type LossesResponse = Static<typeof LossesResponse>;

export const MarksResponse = Type.Object(
  {
    marks: Type.Union([Marks, Type.Null()], { description: "Null if no mark was ever observed." }),
    levels: Type.Array(LevelName, { description: "The configured levels, weakest first." }),
    epochs: Type.Array(EpochRecord, {
      description: "The current epoch and its ancestors, oldest first.",
    }),
    blind: Blind,
  },
  closed,
);
export type MarksResponse = Static<typeof MarksResponse>;

/** `event: epoch`: the current epoch's ancestry, oldest first, the current one last. */
export const EpochEvent = Type.Object({ epochs: Type.Array(EpochRecord, { minItems: 1 }) }, closed);
export type EpochEvent = Static<typeof EpochEvent>;

/** `event: stalled` and `event: recovered`. */
export const StallEvent = Type.Object(
  { level: LevelName, epoch: Uuid, offset: OffsetText, pending: Type.Integer({ minimum: 0 }) },
  closed,
);
export type StallEvent = Static<typeof StallEvent>;

/** `event: blind`: whether the tracker has lost sight of the primary. */
export const BlindEvent = Type.Object(
  {
    blind: Type.Boolean({
      description: "True if the tracker receives nothing from the primary. Another tracker may receive it.",
    }),
  },
  closed,
);
export type BlindEvent = Static<typeof BlindEvent>;
